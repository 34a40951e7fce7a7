package openapitest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// examples are the documented exchanges by name.
type examples map[string]Exchange

// at returns a copy of one, with headers of its own.
func (list examples) at(tb testing.TB, name string) Exchange {
	tb.Helper()
	e, ok := list[name]
	if !ok {
		tb.Fatalf("there is no example %q", name)
	}
	e.Header, e.RequestHeader = e.Header.Clone(), e.RequestHeader.Clone()
	return e
}

const (
	begun       = "begin 201 application/json acquired"
	replayed    = "begin 200 application/json replay"
	message     = "begin 200 application/http message"
	inProgress  = "begin 409 application/problem+json inProgress"
	mismatched  = "begin 409 application/problem+json mismatch"
	invalid     = "begin 400 application/problem+json invalid"
	completed   = "complete 200 application/json completed"
	released    = "release 204 without a body"
	batch       = "beginBatch 200 application/json mixed"
	batchDone   = "completeBatch 200 application/json mixed"
	inspected   = "inspect 200 application/json completed"
	renewed     = "renew 200 application/json renewed"
	notModified = "getDocs 304 without a body"
	page        = "getProblemPage 200 page"
)

func replace(e *Exchange, from, to string) {
	e.Body = []byte(strings.Replace(string(e.Body), from, to, 1))
}

func replaceSent(e *Exchange, from, to string) {
	e.RequestBody = []byte(strings.Replace(string(e.RequestBody), from, to, 1))
}

func TestAWrongAnswerFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		of     string
		change func(*Exchange)
		want   string
	}{
		"a status that is not documented":       {begun, func(e *Exchange) { e.Status = 202 }, "no status 202"},
		"a redirect":                            {begun, func(e *Exchange) { e.Status = 308 }, "no status 308"},
		"an address that is not documented":     {begun, func(e *Exchange) { e.URL = "/v1/keyss" }, "must be 404"},
		"a trailing slash":                      {begun, func(e *Exchange) { e.URL = "/v1/keys/" }, "must be 404"},
		"a method that is not documented":       {begun, func(e *Exchange) { e.Method = http.MethodPut }, "must be 405"},
		"a header that is not documented":       {begun, func(e *Exchange) { e.Header.Set("X-Powered-By", "x") }, "X-Powered-By"},
		"a header of another answer":            {begun, func(e *Exchange) { e.Header.Set("Idempotent-Replay", "true") }, "Idempotent-Replay"},
		"no Request-Id":                         {begun, func(e *Exchange) { e.Header.Del("Request-Id") }, "Request-Id is missing"},
		"no Cache-Control":                      {begun, func(e *Exchange) { e.Header.Del("Cache-Control") }, "Cache-Control is missing"},
		"an answer that may be kept":            {begun, func(e *Exchange) { e.Header.Set("Cache-Control", "max-age=60") }, "Cache-Control"},
		"an answer that may be sniffed":         {begun, func(e *Exchange) { e.Header.Set("X-Content-Type-Options", "none") }, "X-Content-Type-Options"},
		"two Request-Ids":                       {begun, func(e *Exchange) { e.Header.Add("Request-Id", "OTHER") }, "2 times"},
		"no Location":                           {begun, func(e *Exchange) { e.Header.Del("Location") }, "Location is missing"},
		"a Location of another record":          {begun, func(e *Exchange) { e.Header.Set("Location", "/v1/keys/Yt6oQk2bR0uXn4sDf9aGzQ") }, "Location"},
		"no Idempotent-Replay":                  {replayed, func(e *Exchange) { e.Header.Del("Idempotent-Replay") }, "Idempotent-Replay is missing"},
		"a wait that is longer than any":        {begun, func(e *Exchange) { e.Header.Set("Preference-Applied", "wait=31") }, "Preference-Applied"},
		"another Content-Type":                  {begun, func(e *Exchange) { e.Header.Set("Content-Type", "text/plain") }, "Content-Type"},
		"no Content-Type":                       {begun, func(e *Exchange) { e.Header.Del("Content-Type") }, "Content-Type"},
		"no body":                               {begun, func(e *Exchange) { e.Body = nil }, "not one JSON document"},
		"a body that is cut short":              {begun, func(e *Exchange) { e.Body = e.Body[:len(e.Body)-1] }, "not one JSON document"},
		"two documents":                         {begun, func(e *Exchange) { e.Body = append(e.Body, e.Body...) }, "not one JSON document"},
		"a member twice":                        {begun, func(e *Exchange) { replace(e, `"attempt":1`, `"attempt":1,"attempt":1`) }, "not one JSON document"},
		"text that is not UTF-8":                {begun, func(e *Exchange) { replace(e, "acquired", "acq\xffired") }, "not one JSON document"},
		"another outcome":                       {begun, func(e *Exchange) { replace(e, `"acquired"`, `"replay"`) }, "outcome"},
		"the attempt 0":                         {begun, func(e *Exchange) { replace(e, `"attempt":1`, `"attempt":0`) }, "attempt"},
		"an attempt and a half":                 {begun, func(e *Exchange) { replace(e, `"attempt":1`, `"attempt":1.5`) }, "attempt"},
		"a fence beyond JavaScript's numbers":   {begun, func(e *Exchange) { replace(e, "1795971562123456", "9007199254740992") }, "fence"},
		"a time with three digits":              {begun, func(e *Exchange) { replace(e, "22.123456Z", "22.123Z") }, "at"},
		"a time with an offset":                 {begun, func(e *Exchange) { replace(e, "22.123456Z", "22.123456+00:00") }, "at"},
		"a day that is none":                    {begun, func(e *Exchange) { replace(e, "2026-11-29", "2026-02-30") }, "date-time"},
		"an id that no record has":              {begun, func(e *Exchange) { replace(e, "pD3vJ0kq8mQ2x7TzY1cLwA", "pD3vJ0kq8mQ2x7TzY1cLwB") }, "id"},
		"a record that never expires completed": {replayed, func(e *Exchange) { replace(e, `"2026-11-30T17:00:22.123456Z"`, "null") }, "expires_at"},
		"two bodies":                            {replayed, func(e *Exchange) { replace(e, `"body":`, `"body_base64":"","body":`) }, "oneOf"},
		"a header that is no pair":              {replayed, func(e *Exchange) { replace(e, `["Content-Type","application/json"]`, `["Content-Type"]`) }, "headers"},
		"a header of three":                     {replayed, func(e *Exchange) { replace(e, `"application/json"]`, `"application/json","x"]`) }, "headers"},
		"a stored status that nobody may send":  {replayed, func(e *Exchange) { replace(e, `"status":201`, `"status":199`) }, "status"},
		"a message with LF alone":               {message, func(e *Exchange) { replace(e, "\r\n\r\n", "\n\n") }, "pattern"},
		"a message with a reason":               {message, func(e *Exchange) { replace(e, "201 \r", "201 Created\r") }, "pattern"},
		"a message without its headers":         {message, func(e *Exchange) { e.Header.Del("Onceward-Completed-At") }, "Onceward-Completed-At is missing"},
		"a message with an age that is none":    {message, func(e *Exchange) { e.Header.Set("Onceward-Age", "old") }, "Onceward-Age"},
		"a reference to a body that was kept":   {message, func(e *Exchange) { e.Header.Del("Onceward-Body-Omitted") }, "without Onceward-Body-Omitted"},
		"JSON with the headers of a message":    {replayed, func(e *Exchange) { e.Header.Set("Onceward-Age", "1") }, "application/http only"},
		"a replay with Retry-After":             {replayed, func(e *Exchange) { e.Header.Set("Retry-After", "1") }, "Retry-After"},
		"in_progress without a hint":            {inProgress, func(e *Exchange) { replace(e, `"retry_after":2,`, ""); e.Header.Del("Retry-After") }, "retry_after"},
		"a hint in the body alone":              {inProgress, func(e *Exchange) { e.Header.Del("Retry-After") }, "Retry-After"},
		"two different hints":                   {inProgress, func(e *Exchange) { e.Header.Set("Retry-After", "3") }, "Retry-After"},
		"a hint beyond 30 s": {inProgress, func(e *Exchange) {
			replace(e, `"retry_after":2`, `"retry_after":31`)
			e.Header.Set("Retry-After", "31")
		}, "Retry-After"},
		"in_progress without the lease's end": {inProgress, func(e *Exchange) { replace(e, `"lease_expires_at":"2026-11-29T17:00:22.123456Z",`, "") }, "lease_expires_at"},
		"a mismatch that says not in what":    {mismatched, func(e *Exchange) { replace(e, `"differs":["body"],`, "") }, "differs"},
		"a mismatch in something else":        {mismatched, func(e *Exchange) { replace(e, `["body"]`, `["headers"]`) }, "differs"},
		"a mismatch with a hint": {mismatched, func(e *Exchange) {
			replace(e, `"status":409`, `"status":409,"retry_after":1`)
			e.Header.Set("Retry-After", "1")
		}, "code"},
		"invalid_request that names nothing": {invalid, func(e *Exchange) {
			replace(e, `"errors":[{"pointer":"/lease_seconds","reason":"must be a whole number of seconds from 1 to 3600"}],`, "")
		}, "errors"},
		"an error with pointer and parameter":    {invalid, func(e *Exchange) { replace(e, `{"pointer":`, `{"parameter":"x","pointer":`) }, "not"},
		"a pointer that is none":                 {invalid, func(e *Exchange) { replace(e, `"/lease_seconds","reason"`, `"lease_seconds","reason"`) }, "pointer"},
		"a code of another answer":               {inProgress, func(e *Exchange) { replace(e, `"code":"in_progress"`, `"code":"lease_lost"`) }, "code"},
		"a code that nobody knows":               {inProgress, func(e *Exchange) { replace(e, `"code":"in_progress"`, `"code":"busy"`) }, "code"},
		"a problem of another request":           {inProgress, func(e *Exchange) { e.Header.Set("Request-Id", "OTHER") }, "request_id"},
		"a problem with another status":          {inProgress, func(e *Exchange) { replace(e, `"status":409`, `"status":423`) }, "status"},
		"a problem with another title":           {inProgress, func(e *Exchange) { replace(e, "Another attempt is in progress", "Busy") }, "title"},
		"a problem with another's page":          {inProgress, func(e *Exchange) { replace(e, "/problems/in_progress", "/problems/internal") }, "page"},
		"a problem with a page elsewhere":        {inProgress, func(e *Exchange) { replace(e, "https://onceward.example/problems/in_progress", "about:blank") }, "type"},
		"a problem as plain JSON":                {inProgress, func(e *Exchange) { e.Header.Set("Content-Type", mediaJSON) }, "Content-Type"},
		"a completion that is neither":           {completed, func(e *Exchange) { replace(e, `"completed"`, `"unknown"`) }, "state"},
		"204 with a body":                        {released, func(e *Exchange) { e.Body = []byte("{}"); e.Header.Set("Content-Type", mediaJSON) }, "no body"},
		"a batch with too few results":           {batch, func(e *Exchange) { replaceSent(e, `"operations":[`, `"operations":[{"key":"one more of them"},`) }, "3 entries got 2 results"},
		"a result with another's status":         {batch, func(e *Exchange) { replace(e, `"status":201,"taken_over"`, `"status":200,"taken_over"`) }, "results"},
		"a result whose problem says another":    {batch, func(e *Exchange) { replace(e, `"status":409,"title"`, `"status":404,"title"`) }, "status 404"},
		"a result of another request":            {batch, func(e *Exchange) { replace(e, `"request_id":"K5QZ`, `"request_id":"OTHER`) }, "request_id"},
		"a result with a code that none has":     {batchDone, func(e *Exchange) { replace(e, `"code":"lease_lost"`, `"code":"in_progress"`) }, "code"},
		"a record with its token":                {inspected, func(e *Exchange) { replace(e, `"attempt":1`, `"attempt":1,"token":"x"`) }, "token"},
		"a state that is none":                   {inspected, func(e *Exchange) { replace(e, `"state":"completed"`, `"state":"done"`) }, "state"},
		"an attempt that ended somehow":          {inspected, func(e *Exchange) { replace(e, `"how":"completed"`, `"how":"somehow"`) }, "how"},
		"a lease under another policy":           {renewed, func(e *Exchange) { replace(e, `"takeover"`, `"retry"`) }, "on_lease_expiry"},
		"304 with a body":                        {notModified, func(e *Exchange) { e.Body = []byte("x") }, "no body"},
		"a page without a policy":                {page, func(e *Exchange) { e.Header.Del("Content-Security-Policy") }, "Content-Security-Policy"},
		"HEAD with a body":                       {inspected, func(e *Exchange) { e.Method = http.MethodHead }, "HEAD"},
		"a method that Allow does not tell":      {"405", func(e *Exchange) { e.Header.Set("Allow", "DELETE") }, "Allow"},
		"a missing address as something else":    {"404", func(e *Exchange) { e.Header.Set("Content-Type", "text/plain") }, "Content-Type"},
		"a missing address with a header more":   {"404", func(e *Exchange) { e.Header.Set("Allow", "GET") }, "Allow"},
		"a missing address without a Request-Id": {"404", func(e *Exchange) { e.Header.Del("Request-Id") }, "Request-Id"},
	}
	v := newValidator(t)
	list := examples(documented(t, v))
	list["404"], list["405"], list[page] = missing(t, v), wrongMethod(t, v), problemPage(v)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := list.at(t, tt.of)
			if err := v.Validate(e); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			tt.change(&e)
			expectFault(t, v.Validate(e), tt.want)
		})
	}
}

// The exchanges that have no example of their own.

func missing(tb testing.TB, v *Validator) Exchange {
	tb.Helper()
	request := Exchange{Method: http.MethodGet, URL: "/nowhere", RequestHeader: http.Header{}}
	return exampleAnswers(tb, "404", v.document.Components.Responses["NotFound"].Value, request)["application/problem+json notFound"]
}

func wrongMethod(tb testing.TB, v *Validator) Exchange {
	tb.Helper()
	request := Exchange{Method: http.MethodGet, URL: "/v1/keys/pD3vJ0kq8mQ2x7TzY1cLwA/lease", RequestHeader: http.Header{}}
	return exampleAnswers(tb, "405", v.document.Components.Responses["MethodNotAllowed"].Value, request)["application/problem+json methodNotAllowed"]
}

func problemPage(v *Validator) Exchange {
	return Exchange{
		Method: http.MethodGet, URL: "/problems/in_progress", Status: http.StatusOK, Body: []byte("<!DOCTYPE html>"),
		Header: exampleHeaders(v.document.Components.Responses["Page"].Value, "text/html; charset=utf-8", nil),
	}
}

func expectFault(tb testing.TB, err error, want string) {
	tb.Helper()
	if err == nil {
		tb.Fatal("the exchange is valid")
	}
	if !strings.Contains(err.Error(), want) {
		tb.Fatalf("the fault does not name %q: %v", want, err)
	}
}

func TestARequestThatWasAcceptedButIsNotDocumentedFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		of     string
		change func(*Exchange)
		want   string
	}{
		"another member": {begun, func(e *Exchange) { replaceSent(e, `{`, `{"tenant":"x",`) }, "tenant"},
		"another member below": {begun, func(e *Exchange) {
			replaceSent(e, `"fingerprint":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"`, `"request":{"host":"x"}`)
		}, "host"},
		"no key":                   {begun, func(e *Exchange) { replaceSent(e, `"key":`, `"owner_":`) }, "key"},
		"a key of seven":           {begun, func(e *Exchange) { replaceSent(e, "payout-2026-11-29-0042", "1234567") }, "key"},
		"a key with a space first": {begun, func(e *Exchange) { replaceSent(e, "payout-2026-11-29-0042", " 12345678") }, "key"},
		"a key that is no ASCII":   {begun, func(e *Exchange) { replaceSent(e, "payout-2026-11-29-0042", "sch\u00f6ne-nummer") }, "key"},
		"a null":                   {begun, func(e *Exchange) { replaceSent(e, `{`, `{"caller":null,`) }, "caller"},
		"a lease of no time":       {begun, func(e *Exchange) { replaceSent(e, `{`, `{"lease_seconds":0,`) }, "lease_seconds"},
		"a lease of a day":         {begun, func(e *Exchange) { replaceSent(e, `{`, `{"lease_seconds":3601,`) }, "lease_seconds"},
		"half a second":            {begun, func(e *Exchange) { replaceSent(e, `{`, `{"lease_seconds":1.5,`) }, "lease_seconds"},
		"less than the policy":     {begun, func(e *Exchange) { replaceSent(e, `{`, `{"on_lease_expiry":"takeover",`) }, "on_lease_expiry"},
		"neither payload nor digest": {begun, func(e *Exchange) {
			replaceSent(e, `"fingerprint":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",`, "")
		}, "oneOf"},
		"payload and digest":             {begun, func(e *Exchange) { replaceSent(e, `{`, `{"request":{},`) }, "oneOf"},
		"a digest without an operation":  {begun, func(e *Exchange) { replaceSent(e, `"operation":"kafka:payouts",`, "") }, "oneOf"},
		"a digest in upper case":         {begun, func(e *Exchange) { replaceSent(e, "9f86", "9F86") }, "fingerprint"},
		"an owner of 21":                 {begun, func(e *Exchange) { replaceSent(e, "Zk3vQ0yT7mB1xN5cR8wE2a", "Zk3vQ0yT7mB1xN5cR8wE2") }, "owner"},
		"hold without an owner":          {begun, func(e *Exchange) { replaceSent(e, `"owner":"Zk3vQ0yT7mB1xN5cR8wE2a"`, `"on_lease_expiry":"hold"`) }, "owner"},
		"metadata that is a number":      {begun, func(e *Exchange) { replaceSent(e, `{`, `{"metadata":{"order":42},`) }, "order"},
		"metadata with a name of a word": {begun, func(e *Exchange) { replaceSent(e, `{`, `{"metadata":{"my order":"42"},`) }, "propertyName"},
		"metadata with a control":        {begun, func(e *Exchange) { replaceSent(e, `{`, `{"metadata":{"order":"4\u0085"},`) }, "order"},
		"a member twice":                 {begun, func(e *Exchange) { replaceSent(e, `{`, `{"caller":"a","caller":"a",`) }, "unique names"},
		"a query parameter":              {begun, func(e *Exchange) { e.URL += "?dry_run=1" }, "dry_run"},
		"another media type":             {begun, func(e *Exchange) { e.RequestHeader.Set("Content-Type", "text/plain") }, "Content-Type"},
		"no body":                        {begun, func(e *Exchange) { e.RequestBody = nil }, "without a body"},
		"no credential":                  {begun, func(e *Exchange) { e.RequestHeader.Del("Authorization") }, "Authorization"},
		"two credentials":                {begun, func(e *Exchange) { e.RequestHeader.Add("Authorization", "Bearer x") }, "Authorization"},
		"a replay for a wrong request":   {replayed, func(e *Exchange) { replaceSent(e, `{`, `{"tenant":"x",`) }, "tenant"},
		"a conflict for a wrong request": {inProgress, func(e *Exchange) { replaceSent(e, `{`, `{"tenant":"x",`) }, "tenant"},
		"no lease":                       {completed, func(e *Exchange) { e.RequestHeader.Del("Onceward-Lease") }, "Onceward-Lease"},
		"a status below 200":             {completed, func(e *Exchange) { replaceSent(e, `"status":200`, `"status":199`) }, "status"},
		"a status as text":               {completed, func(e *Exchange) { replaceSent(e, `"status":200`, `"status":"200"`) }, "status"},
		"no status":                      {completed, func(e *Exchange) { e.RequestBody = []byte(`{}`) }, "status"},
		"text and bytes":                 {completed, func(e *Exchange) { replaceSent(e, `{`, `{"body":"x",`) }, "not"},
		"a reference to a kept body":     {completed, func(e *Exchange) { e.RequestBody = []byte(`{"status":200,"body_ref":"x"}`) }, "body_omitted"},
		"base64 without padding":         {completed, func(e *Exchange) { replaceSent(e, "iVBORw0KGgo=", "iVBORw0KGgo") }, "base64"},
		"a message with LF alone": {completed, func(e *Exchange) {
			e.RequestHeader.Set("Content-Type", mediaMessage)
			e.RequestBody = []byte("HTTP/1.1 200 OK\n\n")
		}, "pattern"},
		"a part of a record that is none": {inspected, func(e *Exchange) { e.URL += "?include=token" }, "include"},
		"an unknown query parameter":      {inspected, func(e *Exchange) { e.URL += "?verbose=1" }, "verbose"},
		"a bad entry that was begun":      {batch, func(e *Exchange) { replaceSent(e, `"key":"payout-2026-11-29-0042"`, `"key":"short"`) }, "key"},
		"another member of a batch":       {batch, func(e *Exchange) { replaceSent(e, `{`, `{"atomic":true,`) }, "atomic"},
		"a completion without its lease":  {batchDone, func(e *Exchange) { replaceSent(e, `"lease_token":"AAZhbaA6LwBkq9ZJ3mVxT0uC1fYpW8sE",`, "") }, "lease_token"},
	}
	v := newValidator(t)
	list := examples(documented(t, v))
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := list.at(t, tt.of)
			sent := string(e.RequestBody) + e.URL + strings.Join(headerLines(e.RequestHeader), "\n")
			tt.change(&e)
			if sent == string(e.RequestBody)+e.URL+strings.Join(headerLines(e.RequestHeader), "\n") {
				t.Fatal("the change changed nothing")
			}
			expectFault(t, v.Validate(e), tt.want)
		})
	}
}

func headerLines(h http.Header) (lines []string) {
	for name, values := range h {
		for _, value := range values {
			lines = append(lines, name+": "+value)
		}
	}
	return lines
}

// A test sends wrong requests on purpose: what was refused is not held against
// the document.
func TestARequestThatWasRefusedMayBeAnything(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	e := examples(documented(t, v)).at(t, invalid)
	e.RequestBody = []byte(`{"lease_seconds": 0`)
	e.RequestHeader.Del("Authorization")
	e.URL += "?dry_run=1"
	if err := v.Validate(e); err != nil {
		t.Error(err)
	}
}

func TestAnEntryOfABatchThatWasRefusedMayBeAnything(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	list := examples(documented(t, v))
	e := list.at(t, batch)
	replaceSent(&e, `{"fingerprint":`, `{"undocumented":1,"fingerprint":`)
	if v.Validate(e) == nil {
		t.Error("an entry that was begun may have an undocumented member")
	}
	var answer struct {
		Results []map[string]any `json:"results"`
	}
	if err := json.Unmarshal(e.Body, &answer); err != nil {
		t.Fatal(err)
	}
	answer.Results[0] = map[string]any{"status": 400, "problem": json.RawMessage(list.at(t, invalid).Body)}
	e.Body = asJSON(t, answer)
	if err := v.Validate(e); err != nil {
		t.Errorf("an entry that was refused: %v", err)
	}
}

// Whoever asks for the record "batch" asks for an id that no record has.
func TestAnAddressHasTheMethodsOfEveryPathThatFits(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	list := examples(documented(t, v))
	e := list.at(t, "inspect 404 application/problem+json notFound")
	e.URL = "/v1/keys/batch"
	if err := v.Validate(e); err != nil {
		t.Errorf("GET: %v", err)
	}
	e = wrongMethod(t, v)
	e.Method, e.URL = http.MethodDelete, "/v1/keys/batch"
	e.Header.Set("Allow", "GET, HEAD, POST")
	if err := v.Validate(e); err != nil {
		t.Errorf("DELETE: %v", err)
	}
	e = list.at(t, batch)
	if err := v.Validate(e); err != nil {
		t.Errorf("POST: %v", err)
	}
}

func TestHeadIsAnsweredAsGetWithoutABody(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	e := examples(documented(t, v)).at(t, inspected)
	e.Method, e.Body = http.MethodHead, nil
	if err := v.Validate(e); err != nil {
		t.Error(err)
	}
}

func TestWhatWasSeenIsNoLongerUnseen(t *testing.T) {
	t.Parallel()
	v, err := New()
	if err != nil {
		t.Fatal(err)
	}
	list := examples(documented(t, v))
	before := len(v.Unseen())
	if err := v.Validate(list.at(t, inProgress)); err != nil {
		t.Fatal(err)
	}
	if err := v.Validate(list.at(t, begun)); err != nil {
		t.Fatal(err)
	}
	after := v.Unseen()
	if len(after) != before-2 {
		t.Errorf("%d unseen after two of %d", len(after), before)
	}
	for _, what := range after {
		if what == "begin 201" || what == "begin 409 in_progress" {
			t.Errorf("%s is unseen", what)
		}
	}
	wrong := list.at(t, replayed)
	wrong.Body = nil
	if v.Validate(wrong) == nil || len(v.Unseen()) != len(after) {
		t.Error("a wrong answer counts as seen")
	}
}
