// Package openapitest holds recorded HTTP traffic against api/openapi.yaml:
// what the service answered must be documented to the last member, and what it
// accepted must be what the document says a caller may send.
//
// kin-openapi reads the document and proves it valid, with every example in it.
// Traffic is held against the same schemas by the JSON Schema 2020-12 validator
// that kin-openapi uses itself, compiled once per schema: kin-openapi compiles a
// schema for every value (1 ms an exchange), falls back without a word to the
// rules of OpenAPI 3.0 where it cannot compile one, and lets headers pass that
// nobody documented. What no schema can say, such as that the request_id of a
// problem is that of its answer, is checked here too.
//
// It is for tests only: nothing of the service may import it.
package openapitest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	apispec "github.com/onceward/onceward/api"
)

// Exchange is one request as it was sent and the answer as it came.
type Exchange struct {
	Method        string
	URL           string // absolute, or a path with its query
	RequestHeader http.Header
	RequestBody   []byte
	Status        int
	Header        http.Header
	Body          []byte
}

// Validator checks exchanges. It may be used by several goroutines.
type Validator struct {
	document *openapi3.T
	schemas  schemas

	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// New loads the embedded document and fails where it is not a valid one.
func New() (*Validator, error) { return newFrom(apispec.YAML()) }

func newFrom(source []byte) (*Validator, error) {
	document, tree, err := load(source)
	if err != nil {
		return nil, err
	}
	compiled, err := compile(tree)
	if err != nil {
		return nil, err
	}
	return &Validator{document: document, schemas: compiled, seen: make(map[string]bool)}, nil
}

// Validate returns everything about the exchange that the document does not
// say, joined; nil where all is as documented.
func (v *Validator) Validate(e Exchange) error {
	req, err := http.NewRequestWithContext(context.Background(), e.Method, e.URL, http.NoBody)
	if err != nil {
		return fmt.Errorf("the request: %w", err)
	}
	req.Header = e.RequestHeader.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	x := &exchange{Exchange: e, request: req, validator: v}
	x.find()
	x.checkAnswer()
	x.checkRequest()
	if len(x.faults) == 0 {
		v.note(x)
		return nil
	}
	return fmt.Errorf("%s %s answered %d: %w", e.Method, x.template, e.Status, errors.Join(x.faults...))
}

// note remembers what was seen, for Unseen.
func (v *Validator) note(x *exchange) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if x.operation != nil {
		v.seen[name(x.operation, fmt.Sprint(x.Status), x.code)] = true
	}
}

// Unseen lists what the document says can be answered and no valid exchange has
// shown so far, sorted: "begin 201", and with a problem "begin 409 in_progress".
func (v *Validator) Unseen() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var unseen []string
	for _, operation := range v.operations() {
		for status, response := range operation.Responses.Map() {
			for _, code := range codesOf(response.Value) {
				if what := name(operation, status, code); !v.seen[what] {
					unseen = append(unseen, what)
				}
			}
		}
	}
	slices.Sort(unseen)
	return unseen
}

// Operation is one method of one path, for a test that holds the routes of the
// service against the document.
type Operation struct {
	ID     string
	Method string
	Path   string
	Roles  []string // nil: open to everybody
	Query  []string // the query parameters that it knows
	// Operator is a call of the operator's listener.
	Operator bool
	// HasBody says whether a body is read; it may still be left out.
	HasBody bool
}

// Operations lists what the document has, by path and method.
func (v *Validator) Operations() []Operation {
	var list []Operation
	for path, item := range v.document.Paths.Map() {
		for method, o := range item.Operations() {
			operation := Operation{ID: o.OperationID, Method: method, Path: path, HasBody: o.RequestBody != nil, Operator: isOperators(o)}
			if roles, ok := o.Extensions["x-onceward-roles"].([]any); ok {
				for _, role := range roles {
					operation.Roles = append(operation.Roles, fmt.Sprint(role))
				}
			}
			for _, parameter := range o.Parameters {
				if parameter.Value.In == openapi3.ParameterInQuery {
					operation.Query = append(operation.Query, parameter.Value.Name)
				}
			}
			list = append(list, operation)
		}
	}
	slices.SortFunc(list, func(a, b Operation) int { return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method) })
	return list
}

// isOperators says whether the operation wants the operator's token.
func isOperators(o *openapi3.Operation) bool {
	return o.Security != nil && slices.ContainsFunc(*o.Security, func(r openapi3.SecurityRequirement) bool {
		_, operator := r["operatorToken"]
		return operator
	})
}

func (v *Validator) operations() []*openapi3.Operation {
	var list []*openapi3.Operation
	for _, item := range v.document.Paths.Map() {
		for _, operation := range item.Operations() {
			list = append(list, operation)
		}
	}
	return list
}

// codesOf are the problem codes that a response documents; the empty one alone
// for what is no problem.
func codesOf(response *openapi3.Response) []string {
	media := response.Content[mediaProblem]
	if media == nil || media.Schema.Value.Properties["code"] == nil {
		return []string{""}
	}
	code := media.Schema.Value.Properties["code"].Value
	if code.Const != nil {
		return []string{fmt.Sprint(code.Const)}
	}
	var codes []string
	for _, value := range code.Enum {
		codes = append(codes, fmt.Sprint(value))
	}
	return codes
}

// exchange is one Exchange under examination.
type exchange struct {
	Exchange
	request   *http.Request
	validator *Validator

	template  string              // the path of the document that answers, else the path sent
	methods   []string            // what the address has, HEAD beside every GET; nil for an address that is none
	operation *openapi3.Operation // nil for an address or a method that is none
	params    map[string]string
	response  *openapi3.Response // nil for a status that is not documented
	pointer   string             // of response in the document

	code   string // of a problem
	faults []error
}

func (x *exchange) fault(format string, args ...any) {
	x.faults = append(x.faults, fmt.Errorf(format, args...))
}

// find looks up path, method and status in the document. Where a path is
// written out and fits a template too (/v1/keys/batch is /v1/keys/{id}), it
// comes first, but an address has the methods of both.
func (x *exchange) find() {
	path := x.request.URL.EscapedPath()
	x.template = path
	for template, item := range x.validator.document.Paths.Map() {
		params, ok := match(template, path)
		if !ok {
			continue
		}
		for method := range item.Operations() {
			x.methods = append(x.methods, method)
			if method == http.MethodGet {
				x.methods = append(x.methods, http.MethodHead)
			}
		}
		if o := item.Operations()[x.documentedMethod()]; o != nil && (x.operation == nil || len(params) == 0) {
			x.template, x.operation, x.params = template, o, params
		}
	}
	components := x.validator.document.Components.Responses
	switch {
	case x.methods == nil:
		x.response, x.pointer = components["NotFound"].Value, "/components/responses/NotFound"
		x.onlyStatus(http.StatusNotFound, "the document has no such address")
		return
	case x.operation == nil:
		x.response, x.pointer = components["MethodNotAllowed"].Value, "/components/responses/MethodNotAllowed"
		x.onlyStatus(http.StatusMethodNotAllowed, "the document has no such method at this address")
		return
	}
	status := fmt.Sprint(x.Status)
	documented := x.operation.Responses.Value(status)
	if documented == nil {
		x.fault("the document has no status %s here", status)
		return
	}
	x.response = documented.Value
	x.pointer = "/paths/" + escape(x.template) + "/" + strings.ToLower(x.documentedMethod()) + "/responses/" + status
}

// documentedMethod is the method that the document knows: HEAD is answered as
// GET is (RFC 9110, section 9.3.2).
func (x *exchange) documentedMethod() string {
	if x.Method == http.MethodHead {
		return http.MethodGet
	}
	return x.Method
}

// onlyStatus refuses every status but the one that an address or a method must
// get that the document does not have.
func (x *exchange) onlyStatus(status int, why string) {
	if x.Status != status {
		x.fault("%s, so the answer must be %d", why, status)
		x.response = nil
	}
}

// name is how Unseen calls an answer; code is empty for what is no problem.
func name(operation *openapi3.Operation, status, code string) string {
	return strings.TrimSpace(operation.OperationID + " " + status + " " + code)
}

// match compares a path with a template of the document, part by part.
func match(template, path string) (params map[string]string, ok bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	params = make(map[string]string)
	for i, part := range want {
		name, isParam := strings.CutPrefix(part, "{")
		switch {
		case isParam && got[i] != "":
			params[strings.TrimSuffix(name, "}")] = got[i]
		case isParam || part != got[i]:
			return nil, false
		}
	}
	return params, true
}

// escape writes a name as one part of a JSON pointer (RFC 6901, section 3).
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
