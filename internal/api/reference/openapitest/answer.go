package openapitest

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/onceward/onceward/internal/problem"
)

const (
	mediaJSON    = "application/json"
	mediaProblem = "application/problem+json"
	mediaMessage = "application/http"
	mediaYAML    = "application/yaml"
)

// framing are the headers of the connection and of the body, which HTTP itself
// documents.
func framing(name string) bool {
	switch name {
	case "Content-Type", "Content-Length", "Date", "Connection", "Transfer-Encoding":
		return true
	default:
		return false
	}
}

// checkAnswer holds status, headers and body against the document.
func (x *exchange) checkAnswer() {
	if x.response == nil {
		return
	}
	for name := range x.Header {
		if !framing(name) && !x.documents(name) && !x.isOfRate(name) {
			x.fault("the header %s is not documented for this answer", name)
		}
	}
	x.checkHeaders()
	if x.Method == http.MethodHead {
		if len(x.Body) > 0 {
			x.fault("the answer to HEAD has a body")
		}
		return
	}
	x.checkBody()
	if x.operation == nil && x.methods != nil {
		x.checkAllow()
	}
}

// isOfRate is for RateLimit and RateLimit-Policy, which stand on every answer of
// a call that can be over its rate, and are described at one of them.
func (x *exchange) isOfRate(header string) bool {
	return (header == "Ratelimit" || header == "Ratelimit-Policy") && x.operation != nil && x.operation.Responses.Value("429") != nil
}

func (x *exchange) documents(header string) bool {
	for name := range x.response.Headers {
		if http.CanonicalHeaderKey(name) == header {
			return true
		}
	}
	return false
}

// checkHeaders holds the documented headers against their schemas: those that
// are required are there, each is there once, and is what it must be.
func (x *exchange) checkHeaders() {
	for name, header := range x.response.Headers {
		values := x.Header.Values(name)
		switch {
		case len(values) == 0 && header.Value.Required:
			x.fault("the header %s is missing", name)
		case len(values) > 1:
			x.fault("the header %s is sent %d times", name, len(values))
		case len(values) == 1:
			pointer := place(header.Ref, place(x.responseRef(), x.pointer)+"/headers/"+escape(name))
			if err := x.validator.checkText(pointer, header.Value.Schema.Value, values[0]); err != nil {
				x.fault("the header %s: %w", name, err)
			}
		}
	}
}

// checkBody holds the body against the schema of its media type.
func (x *exchange) checkBody() {
	sent := x.Header.Get("Content-Type")
	if len(x.response.Content) == 0 {
		if len(x.Body) > 0 || sent != "" {
			x.fault("this answer has no body, but %d bytes of %q came", len(x.Body), sent)
		}
		return
	}
	mediaType, _, err := mime.ParseMediaType(sent)
	if err != nil || x.response.Content[mediaType] == nil {
		x.fault("the Content-Type %q is not documented for this answer", sent)
		return
	}
	schema := x.validator.schemaOf(place(x.responseRef(), x.pointer), mediaType)
	if schema == nil {
		x.fault("the document has no schema for %s of this answer", mediaType)
		return
	}
	value, err := decode(mediaType, x.Body)
	if err != nil {
		x.fault("the body: %w", err)
		return
	}
	if err := schema.Validate(value); err != nil {
		x.fault("the body: %w", err)
		return
	}
	x.checkMeaning(mediaType, value)
}

func (x *exchange) responseRef() string {
	if x.operation == nil {
		return ""
	}
	return x.operation.Responses.Value(fmt.Sprint(x.Status)).Ref
}

// decode reads a body as the value that a schema describes: JSON with names
// unique and text in UTF-8, YAML, or the text itself.
func decode(mediaType string, body []byte) (any, error) {
	switch mediaType {
	case mediaJSON, mediaProblem:
	case mediaYAML:
		return parse(body)
	default:
		return string(body), nil
	}
	if value := jsontext.Value(body); !value.IsValid() {
		return nil, fmt.Errorf("it is not one JSON document in UTF-8 with unique names: %.200q", body)
	}
	return jsonschema.UnmarshalJSON(strings.NewReader(string(body)))
}

// checkMeaning is what a schema cannot say: that parts of an answer agree.
func (x *exchange) checkMeaning(mediaType string, value any) {
	object, _ := value.(map[string]any)
	switch {
	case mediaType == mediaProblem:
		x.code, _ = object["code"].(string)
		x.checkProblem(object, x.Status)
		x.same("retry_after", object["retry_after"], "Retry-After", x.Header.Get("Retry-After"))
	case object["tenant"] != nil && x.Header.Get("Location") != "":
		x.same("tenant.id", "/v1/admin/tenants/"+fmt.Sprint(member(object["tenant"], "id")), "Location", x.Header.Get("Location"))
	case x.Header.Get("Location") != "":
		x.same("id", "/v1/keys/"+fmt.Sprint(object["id"]), "Location", x.Header.Get("Location"))
	}
	results, _ := object["results"].([]any)
	for _, result := range results {
		entry, _ := result.(map[string]any)
		if document, ok := entry["problem"].(map[string]any); ok {
			status := whole(entry["status"])
			x.checkProblem(document, status)
		}
	}
	x.checkMessageHeaders(mediaType)
}

// checkProblem holds a problem against the one table of problems and against
// the answer that it came with.
func (x *exchange) checkProblem(document map[string]any, status int) {
	code, _ := document["code"].(string)
	entry, ok := problem.Lookup(problem.Kind(code))
	if !ok {
		x.fault("the problem code %q is in no table", code)
		return
	}
	if got := whole(document["status"]); got != status {
		x.fault("the problem %s says status %d, the answer %d", code, got, status)
	}
	if entry.Status != status && entry.Kind != problem.FingerprintMismatch {
		x.fault("the problem %s has the status %d, not %d", code, entry.Status, status)
	}
	if document["title"] != entry.Title {
		x.fault("the problem %s has the title %q, not %q", code, entry.Title, document["title"])
	}
	if address, _ := document["type"].(string); !strings.HasSuffix(address, problem.PagePath+code) {
		x.fault("the problem %s points to the page %q", code, address)
	}
	x.same("request_id", document["request_id"], "Request-Id", x.Header.Get("Request-Id"))
}

// same compares a member with the header that says the same; nil and an empty
// header are alike.
func (x *exchange) same(member string, value any, header, sent string) {
	if value == nil {
		value = ""
	}
	if fmt.Sprint(value) != sent {
		x.fault("%s is %v, but the header %s is %q", member, value, header, sent)
	}
}

// whole is the value of a member that its schema says is an integer; 0 for
// anything else.
func whole(value any) int {
	number, _ := value.(json.Number)
	n, err := number.Int64()
	if err != nil {
		return 0
	}
	return int(n)
}

// checkMessageHeaders demands the headers of a replay that is one message, and
// refuses them everywhere else.
func (x *exchange) checkMessageHeaders(mediaType string) {
	const prefix = "Onceward-"
	always := []string{"Onceward-Id", "Onceward-Attempt", "Onceward-Created-At", "Onceward-Completed-At", "Onceward-Expires-At", "Onceward-Age"}
	for _, name := range always {
		if mediaType == mediaMessage && x.Header.Get(name) == "" {
			x.fault("the header %s is missing beside application/http", name)
		}
	}
	for name := range x.Header {
		if mediaType != mediaMessage && strings.HasPrefix(name, prefix) {
			x.fault("the header %s is for application/http only", name)
		}
	}
	if x.Header.Get("Onceward-Body-Ref") != "" && x.Header.Get("Onceward-Body-Omitted") == "" {
		x.fault("Onceward-Body-Ref came without Onceward-Body-Omitted")
	}
}

// checkAllow compares Allow with the methods that the address has.
func (x *exchange) checkAllow() {
	want := slices.Sorted(slices.Values(x.methods))
	got := slices.Sorted(slices.Values(strings.Split(x.Header.Get("Allow"), ", ")))
	if !slices.Equal(got, want) {
		x.fault("Allow is %v, but the document has %v", got, want)
	}
}
