package api

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

func TestABeginIsDecodedAsItWasSent(t *testing.T) {
	t.Parallel()
	got, err := decodeBegin([]byte(`{
		"key": "k-\u0041", "operation": "op", "caller": "cus", "owner": "o",
		"request": {"method": "POST", "path": "/p", "query": "", "content_type": "text/plain", "body": "a\u0000\ud83d\ude00\r\n"},
		"fingerprint": "f", "lease_seconds": 3e1, "retention_seconds": 86400.0, "on_lease_expiry": "hold",
		"metadata": {"order": "42"}
	}`))
	if err != nil {
		t.Fatal(err)
	}
	want := keys.BeginRequest{
		Key: ptr("k-A"), Operation: ptr("op"), Caller: ptr("cus"), Owner: ptr("o"),
		Request:     &keys.RequestPayload{Method: ptr("POST"), Path: ptr("/p"), Query: ptr(""), ContentType: ptr("text/plain"), Body: []byte("a\x00\U0001F600\r\n")},
		Fingerprint: ptr("f"), LeaseSeconds: ptr(int64(30)), RetentionSeconds: ptr(int64(86400)), OnLeaseExpiry: ptr("hold"),
		Metadata: map[string]string{"order": "42"},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("begin (-got +want):\n%s", diff)
	}
}

func TestWhatIsAbsentStaysAbsent(t *testing.T) {
	t.Parallel()
	got, err := decodeBegin([]byte(` {"request": {"body_base64": "/w=="}} `))
	if err != nil {
		t.Fatal(err)
	}
	want := keys.BeginRequest{Request: &keys.RequestPayload{Body: []byte{0xff}}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("begin (-got +want):\n%s", diff)
	}
}

// refusals of the decoder: the pointer of the culprit, and words of the
// reason. The sent value, "canary" in all of them, is never in the answer.
func TestAnotherShapeIsRefusedAtItsPointer(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ sent, pointer, reason string }{
		"unknown member":                     {`{"key": "canary", "kee": "canary"}`, "/kee", "no such member"},
		"unknown member, other letters":      {`{"Key": "canary"}`, "/Key", "no such member"},
		"unknown member of request":          {`{"request": {"verb": "canary"}}`, "/request/verb", "no such member"},
		"unknown member that needs escapes":  {`{"a/b~c": "canary"}`, "/a~1b~0c", "no such member"},
		"repeated member":                    {`{"key": "canary", "key": "canary"}`, "/key", "more than once"},
		"repeated member, written otherwise": {`{"key": "canary", "k\u0065y": "canary"}`, "/key", "more than once"},
		"repeated member of request":         {`{"request": {"path": "canary", "path": "canary"}}`, "/request/path", "more than once"},
		"repeated member of metadata":        {`{"metadata": {"a": "canary", "a": "canary"}}`, "/metadata/a", "more than once"},
		"number for a string":                {`{"key": 12345678}`, "/key", "must be a string"},
		"object for a string":                {`{"operation": {"canary": 1}}`, "/operation", "must be a string"},
		"array for a string":                 {`{"caller": ["canary"]}`, "/caller", "must be a string"},
		"true for a string":                  {`{"owner": true}`, "/owner", "must be a string"},
		"string for an object":               {`{"request": "canary"}`, "/request", "must be an object"},
		"array for an object":                {`{"metadata": ["canary"]}`, "/metadata", "must be an object"},
		"number in metadata":                 {`{"metadata": {"order": 42}}`, "/metadata/order", "must be a string"},
		"string for seconds":                 {`{"lease_seconds": "30"}`, "/lease_seconds", "whole number"},
		"fraction of a second":               {`{"lease_seconds": 30.5}`, "/lease_seconds", "whole number"},
		"seconds beyond every number":        {`{"retention_seconds": 1e400}`, "/retention_seconds", "whole number"},
		"true for seconds":                   {`{"retention_seconds": true}`, "/retention_seconds", "whole number"},
		"array for the document":             {`["canary"]`, "", "must be an object"},
		"string for the document":            {`"canary"`, "", "must be an object"},
		"null for the document":              {`null`, "", "null"},
		"null for a string":                  {`{"key": null}`, "/key", "null"},
		"null for an object":                 {`{"request": null}`, "/request", "null"},
		"null for a map":                     {`{"metadata": null}`, "/metadata", "null"},
		"null in a map":                      {`{"metadata": {"a": null}}`, "/metadata/a", "null"},
		"null for a number":                  {`{"lease_seconds": null}`, "/lease_seconds", "null"},
		"null for a body":                    {`{"request": {"body": null}}`, "/request/body", "null"},
		"null for a body in base64":          {`{"request": {"body_base64": null}}`, "/request/body_base64", "null"},
		"body as an object":                  {`{"request": {"body": {"canary": 1}}}`, "/request/body", "as text"},
		"body as an array":                   {`{"request": {"body": ["canary"]}}`, "/request/body", "as text"},
		"body as a number":                   {`{"request": {"body": 1}}`, "/request/body", "as text"},
		"both bodies":                        {`{"request": {"body": "canary", "body_base64": "Y2FuYXJ5"}}`, "/request/body_base64", "not both"},
		"both bodies, empty":                 {`{"request": {"body": "", "body_base64": ""}}`, "/request/body_base64", "not both"},
		"base64 without padding":             {`{"request": {"body_base64": "/w"}}`, "/request/body_base64", "must be base64"},
		"base64 of the URL alphabet":         {`{"request": {"body_base64": "_w=="}}`, "/request/body_base64", "must be base64"},
		"base64 with a line break":           {`{"request": {"body_base64": "AA\nAA"}}`, "/request/body_base64", "must be base64"},
		"base64 with stray bits":             {`{"request": {"body_base64": "/x=="}}`, "/request/body_base64", "must be base64"},
		"base64 that is a number":            {`{"request": {"body_base64": 1}}`, "/request/body_base64", "must be base64"},
		"nothing":                            {"", "", "empty"},
		"blanks":                             {" \n", "", "empty"},
		"cut short":                          {`{"key": "canary`, "/key", "not JSON"},
		"trailing data":                      {`{"key": "canary"} x`, "", "not JSON"},
		"two documents":                      {`{"key": "canary"}{}`, "", "not JSON"},
		"trailing comma":                     {`{"key": "canary",}`, "", "not JSON"},
		"comment":                            {`{/* canary */}`, "", "not JSON"},
		"bare word":                          {`{"key": NaN}`, "/key", "not JSON"},
		"raw bytes that are no UTF-8":        {"{\"key\": \"canary\xff\"}", "/key", "not JSON"},
		"half a surrogate pair":              {`{"key": "canary\ud800"}`, "/key", "not JSON"},
		"half a surrogate pair in a body":    {`{"request": {"body": "\udc00"}}`, "/request/body", "not JSON"},
		"byte order mark":                    {"\ufeff{}", "", "not JSON"},
		"control character in a string":      {"{\"key\": \"a\x01\"}", "/key", "not JSON"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := decodeBegin([]byte(tt.sent))
			checkRefusal(t, orFaults(err, req.Faults), tt.pointer, tt.reason)
		})
	}
}

// orFaults is what a caller is told of faults that are passed on beside the
// values, because other things are looked at before them.
func orFaults(err error, faults []problem.Field) error {
	if err == nil && len(faults) > 0 {
		return problem.Invalid(faults...)
	}
	return err
}

func checkRefusal(t *testing.T, err error, pointer, reason string) {
	t.Helper()
	if err == nil {
		t.Fatal("it was taken")
	}
	e := asProblem(err)
	if e.Kind != problem.InvalidRequest || len(e.Fields) != 1 {
		t.Fatalf("refused with %v %v, want one field of invalid_request", e.Kind, e.Fields)
	}
	if got := e.Fields[0].Pointer; got != pointer {
		t.Errorf("pointer %q, want %q", got, pointer)
	}
	if !strings.Contains(e.Fields[0].Reason, reason) {
		t.Errorf("reason %q does not say %q", e.Fields[0].Reason, reason)
	}
	document, err := e.Document("https://example.test", "id")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(document), "canary") {
		t.Errorf("the answer repeats what was sent: %s", document)
	}
}

func TestACompletionIsDecodedAsItWasSent(t *testing.T) {
	t.Parallel()
	got, err := decodeCompletion([]byte(`{"id": "i", "lease_token": "t", "status": 2.01e2, "headers": [["A", "1"], ["a", ""]], "body": "x", "body_ref": "r"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := keys.CompleteRequest{ID: "i", Token: "t", Response: keys.Response{
		Status: 201, Headers: []keys.Header{{Name: "A", Value: "1"}, {Name: "a", Value: ""}}, Body: []byte("x"), BodyRef: "r",
	}}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("completion (-got +want):\n%s", diff)
	}
}

func TestACompletionOfAnotherShapeIsRefusedAtItsPointer(t *testing.T) {
	t.Parallel()
	const rest = `"id": "i", "lease_token": "t"`
	tests := map[string]struct{ sent, pointer, reason string }{
		"no id":                      {`{"lease_token": "t", "status": 200}`, "/id", "required"},
		"no token":                   {`{"id": "i", "status": 200}`, "/lease_token", "required"},
		"an empty token":             {`{"id": "i", "lease_token": "", "status": 200}`, "/lease_token", "required"},
		"a status as a string":       {`{` + rest + `, "status": "200"}`, "/status", "whole number"},
		"headers as an object":       {`{` + rest + `, "headers": {"A": "canary"}}`, "/headers", "an array"},
		"a header as a string":       {`{` + rest + `, "headers": ["A: canary"]}`, "/headers/0", "pair"},
		"a header of one part":       {`{` + rest + `, "headers": [["A", "b"], ["canary"]]}`, "/headers/1", "pair"},
		"a header of three parts":    {`{` + rest + `, "headers": [["A", "canary", "c"]]}`, "/headers/0", "pair"},
		"a header's value as number": {`{` + rest + `, "headers": [["A", 1]]}`, "/headers/0/1", "a string"},
		"a header's name as null":    {`{` + rest + `, "headers": [[null, "canary"]]}`, "/headers/0/0", "null"},
		"null among the headers":     {`{` + rest + `, "headers": [null]}`, "/headers/0", "null"},
		"null for the headers":       {`{` + rest + `, "headers": null}`, "/headers", "null"},
		"a body as an object":        {`{` + rest + `, "status": 200, "body": {}}`, "/body", "as text"},
		"both bodies":                {`{` + rest + `, "status": 200, "body": "canary", "body_base64": ""}`, "/body_base64", "not both"},
		"omitted as a string":        {`{` + rest + `, "body_omitted": "canary"}`, "/body_omitted", "true or false"},
		"an empty reference":         {`{` + rest + `, "status": 200, "body_omitted": true, "body_ref": ""}`, "/body_ref", "empty"},
		"an unknown member":          {`{` + rest + `, "canary2": 1}`, "/canary2", "no such member"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := decodeCompletion([]byte(tt.sent))
			err = orFaults(err, req.Faults)
			if name == "an unknown member" { // its name is what the pointer says
				if got := asProblem(err).Fields[0].Pointer; got != tt.pointer {
					t.Errorf("pointer %q, want %q", got, tt.pointer)
				}
				return
			}
			checkRefusal(t, err, tt.pointer, tt.reason)
		})
	}
}

func TestABatchIsRefusedAsAWholeOnlyForItsOwnShape(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ sent, pointer, reason string }{
		"no member":           {`{}`, "/operations", "1 to 500"},
		"no entry":            {`{"operations": []}`, "/operations", "1 to 500"},
		"501 entries":         {`{"operations": [1` + strings.Repeat(",1", 500) + `]}`, "/operations", "1 to 500"},
		"an unknown member":   {`{"operations": [{}], "x": 1}`, "/x", "no such member"},
		"the array twice":     {`{"operations": [{}], "operations": [{}]}`, "/operations", "more than once"},
		"null for the array":  {`{"operations": null}`, "/operations", "null"},
		"an object for it":    {`{"operations": {}}`, "/operations", "an array"},
		"an array outside":    {`[]`, "", "an object"},
		"a fault of JSON":     {`{"operations": [{}, {]}`, "/operations/1", "not JSON"},
		"data after the end":  {`{"operations": [{}]} {}`, "", "not JSON"},
		"cut short":           {`{"operations": [{}`, "/operations", "not JSON"},
		"nothing":             {``, "", "empty"},
		"nested without end":  {`{"operations": [` + strings.Repeat("[", 20_000), "", "too deeply"},
		"a deep unknown name": {`{"` + strings.Repeat("n", 2000) + `": 1}`, "", "no such member"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b struct {
				Operations batchEntries `json:"operations"`
			}
			err := decodeBatch([]byte(tt.sent), &b, &b.Operations, operationsMember)
			if name == "nested without end" {
				if reason := asProblem(err).Fields[0].Reason; !strings.Contains(reason, tt.reason) {
					t.Errorf("reason %q does not say %q", reason, tt.reason)
				}
				return
			}
			checkRefusal(t, err, tt.pointer, tt.reason)
		})
	}
}

func TestABatchOf500EntriesIsTaken(t *testing.T) {
	t.Parallel()
	var b struct {
		Operations batchEntries `json:"operations"`
	}
	if err := decodeBatch([]byte(`{"operations": [{}`+strings.Repeat(",{}", 499)+`]}`), &b, &b.Operations, operationsMember); err != nil {
		t.Fatal(err)
	}
	if len(b.Operations) != 500 {
		t.Errorf("%d entries, want 500", len(b.Operations))
	}
}

// B057: a document of nothing but opening brackets ends early and harmlessly.
func TestFiveMegabytesOfBracketsAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, opening := range []string{"[", `{"a":`, `{"request":`, `{"metadata":`, `[[[{"`} {
		bomb := []byte(strings.Repeat(opening, 5<<20/len(opening)))
		began := time.Now()
		if _, err := decodeBegin(bomb); err == nil {
			t.Errorf("a bomb of %q was taken", opening)
		}
		var b struct {
			Operations batchEntries `json:"operations"`
		}
		if err := decodeBatch(append([]byte(`{"operations":[`), bomb...), &b, &b.Operations, operationsMember); err == nil {
			t.Errorf("a batch of %q was taken", opening)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("a bomb of %q took %s", opening, took)
		}
	}
}

func FuzzTheDecodersNeverPanic(f *testing.F) {
	for _, seed := range []string{
		`{"key":"12345678","operation":"o","request":{"method":"POST","path":"/","body":"x"},"owner":"o","lease_seconds":30}`,
		`{"id":"i","lease_token":"t","status":200,"headers":[["A","b"]],"body_base64":"AA==","body_omitted":false}`,
		`{"operations":[{"key":"12345678"},null,[[[1]]],{"key":"\ud800"}]}`,
		`{"key":null}`, `{"metadata":{"a":"b","a":"c"}}`, `[[[[`, "{\"key\":\"\xff\"}", `{"lease_seconds":1e99999999999}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		check := func(err error) {
			if err == nil {
				return
			}
			if e := asProblem(err); e.HTTPStatus() != 400 {
				t.Fatalf("status %d for %q: %v", e.HTTPStatus(), raw, err)
			}
		}
		_, err := decodeBegin(raw)
		check(err)
		_, err = decodeCompletion(raw)
		check(err)
		var b struct {
			Operations batchEntries `json:"operations"`
		}
		err = decodeBatch(raw, &b, &b.Operations, operationsMember)
		check(err)
		for _, entry := range b.Operations {
			_, err := decodeBegin(entry)
			check(err)
		}
	})
}

func ptr[T any](v T) *T { return &v }
