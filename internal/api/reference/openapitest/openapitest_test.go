package openapitest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// shared is the validator of the document as it is. Only a test of Unseen needs
// one of its own.
//
//nolint:gochecknoglobals // compiled once; a constant that Go cannot declare
var shared = sync.OnceValues(New)

func newValidator(tb testing.TB) *Validator {
	tb.Helper()
	v, err := shared()
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// documented makes an exchange for every example of an answer, out of nothing
// but the document: its example of the request, its headers, its body.
func documented(tb testing.TB, v *Validator) map[string]Exchange {
	tb.Helper()
	exchanges := make(map[string]Exchange)
	for path, item := range v.document.Paths.Map() {
		for method, o := range item.Operations() {
			for status, response := range o.Responses.Map() {
				request := exampleRequest(tb, path, method, o)
				for name, e := range exampleAnswers(tb, status, response.Value, request) {
					exchanges[o.OperationID+" "+status+" "+name] = e
				}
			}
		}
	}
	return exchanges
}

func exampleRequest(tb testing.TB, path, method string, o *openapi3.Operation) Exchange {
	tb.Helper()
	e := Exchange{Method: method, URL: path, RequestHeader: http.Header{"Authorization": {"Bearer owk_a_b"}}}
	for _, p := range o.Parameters {
		switch example := fmt.Sprint(p.Value.Example); {
		case p.Value.In == openapi3.ParameterInPath:
			e.URL = strings.ReplaceAll(e.URL, "{"+p.Value.Name+"}", example)
		case p.Value.In == openapi3.ParameterInQuery && p.Value.Required:
			e.URL += "?" + url.Values{p.Value.Name: {fmt.Sprint(p.Value.Example)}}.Encode()
		case p.Value.In == openapi3.ParameterInHeader && p.Value.Required:
			e.RequestHeader.Set(p.Value.Name, example)
		}
	}
	if o.RequestBody != nil {
		examples := o.RequestBody.Value.Content[mediaJSON].Examples
		first := slices.Sorted(maps.Keys(examples))[0]
		e.RequestHeader.Set("Content-Type", mediaJSON)
		e.RequestBody = asJSON(tb, examples[first].Value.Value)
	}
	return e
}

func exampleAnswers(tb testing.TB, status string, response *openapi3.Response, request Exchange) map[string]Exchange {
	tb.Helper()
	answers := make(map[string]Exchange)
	add := func(name, mediaType string, body []byte) {
		e := request
		if _, err := fmt.Sscan(status, &e.Status); err != nil {
			tb.Fatal(err)
		}
		e.Header, e.Body = exampleHeaders(response, mediaType, body), body
		if strings.Contains(string(request.RequestBody), `"operations"`) && e.Status == http.StatusOK || strings.Contains(string(request.RequestBody), `"responses"`) {
			e.RequestBody = sameLength(tb, request.RequestBody, body)
		}
		answers[name] = e
	}
	if len(response.Content) == 0 {
		add("without a body", "", nil)
	}
	for mediaType, media := range response.Content {
		for name, example := range media.Examples {
			body := []byte(fmt.Sprint(example.Value.Value)) // of text, as it is
			if strings.HasSuffix(mediaType, "json") {
				body = asJSON(tb, example.Value.Value)
			}
			add(mediaType+" "+name, mediaType, body)
		}
	}
	return answers
}

// sameLength gives a batch as many entries as its example answer has results.
func sameLength(tb testing.TB, request, answer []byte) []byte {
	tb.Helper()
	var results struct {
		Results []any `json:"results"`
	}
	var batch map[string][]any
	if err := json.Unmarshal(answer, &results); err != nil || len(results.Results) == 0 {
		return request
	}
	if err := json.Unmarshal(request, &batch); err != nil {
		tb.Fatal(err)
	}
	for name, entries := range batch {
		for len(entries) < len(results.Results) {
			entries = append(entries, entries[0])
		}
		batch[name] = entries
	}
	return asJSON(tb, batch)
}

func exampleHeaders(response *openapi3.Response, mediaType string, body []byte) http.Header {
	h := make(http.Header)
	for name, header := range response.Headers {
		message := strings.HasPrefix(name, "Onceward-")
		if header.Value.Required || message && mediaType == mediaMessage {
			h.Set(name, fmt.Sprint(header.Value.Example))
		}
	}
	var members struct {
		ID         string      `json:"id"`
		RetryAfter json.Number `json:"retry_after"`
	}
	if json.Unmarshal(body, &members) == nil {
		if members.RetryAfter != "" {
			h.Set("Retry-After", members.RetryAfter.String())
		}
		if h.Get("Location") != "" && members.ID != "" { // of a tenant the header's own example is right
			h.Set("Location", "/v1/keys/"+members.ID)
		}
	}
	if mediaType != "" {
		h.Set("Content-Type", mediaType)
	}
	return h
}

func asJSON(tb testing.TB, value any) []byte {
	tb.Helper()
	body, err := json.Marshal(value)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func TestEveryDocumentedExampleIsAValidExchange(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	exchanges := documented(t, v)
	if len(exchanges) < 100 {
		t.Fatalf("only %d examples of answers", len(exchanges))
	}
	for name, e := range exchanges {
		if err := v.Validate(e); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An answer with one member more, at any depth, with one scalar turned into
// another type, or without a member that the document requires must fail.
func TestEveryAnswerThatDiffersFromItsExampleFails(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	tried := 0
	for name, e := range documented(t, v) {
		var body any
		if json.Unmarshal(e.Body, &body) != nil {
			continue
		}
		for what, changed := range mutations(body, "") {
			if mayDiffer(name, what) {
				continue
			}
			tried++
			mutant := e
			mutant.Body = asJSON(t, changed)
			if v.Validate(mutant) == nil {
				t.Errorf("%s is valid with %s", name, what)
			}
		}
	}
	if tried < 1000 {
		t.Fatalf("only %d answers tried", tried)
	}
	t.Logf("%d wrong answers, each refused", tried)
}

// mayDiffer tells the mutations that the document allows: data of the caller's
// own, and the members that may be absent.
func mayDiffer(name, what string) bool {
	how, where, _ := strings.Cut(what, " at ")
	if strings.Contains(where, "/recovery_point/data") || strings.HasSuffix(where, "/metadata") && how == "another member" {
		return true
	}
	if strings.HasPrefix(name, "listAudit ") && (strings.Contains(where, "/before") || strings.Contains(where, "/after")) {
		return true // as the changed thing was, whatever that is
	}
	if how != "a member missing" {
		return false
	}
	optional := []string{"/body_ref", "/metadata/order", "/errors/0/pointer", "/errors/0/parameter"}
	if strings.Contains(name, "OperationPolic") {
		optional = append(optional, "/retention_seconds")
	}
	if strings.HasPrefix(name, "getRetention ") {
		optional = append(optional, "/operations/POST /v1/charges")
	}
	if strings.HasPrefix(name, "inspect ") {
		optional = append(optional, "/response", "/recovery_point", "/late")
	}
	return slices.ContainsFunc(optional, func(member string) bool { return strings.HasSuffix(where, member) })
}

// mutations yields every value that differs from the one given in one place.
func mutations(value any, at string) map[string]any {
	changed := make(map[string]any)
	switch v := value.(type) {
	case map[string]any:
		more := maps.Clone(v)
		more["undocumented"] = true
		changed["another member at "+at] = more
		for name, inner := range v {
			less := maps.Clone(v)
			delete(less, name)
			changed["a member missing at "+at+"/"+name] = less
			for what, mutant := range mutations(inner, at+"/"+name) {
				with := maps.Clone(v)
				with[name] = mutant
				changed[what] = with
			}
		}
	case []any:
		for i, inner := range v {
			for what, mutant := range mutations(inner, fmt.Sprintf("%s/%d", at, i)) {
				with := slices.Clone(v)
				with[i] = mutant
				changed[what] = with
			}
		}
		changed["an object at "+at] = map[string]any{}
	default:
		changed["an object at "+at] = map[string]any{}
		changed["an array at "+at] = []any{true}
	}
	return changed
}
