package openapitest

import (
	"fmt"
	"maps"
	"mime"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/onceward/onceward/internal/problem"
)

// accepted says whether the answer comes from after the last check of a
// request: only then does the document's word on requests bind. A refused
// request is refused because it is not as documented, or earlier.
func (x *exchange) accepted() bool {
	switch x.Status {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	default:
		return x.code == string(problem.FingerprintMismatch) // under a policy with mismatch_status 400
	}
}

// checkRequest holds what was accepted against what the document lets a caller
// send.
func (x *exchange) checkRequest() {
	if x.operation == nil || x.response == nil || !x.accepted() {
		return
	}
	for i, parameter := range x.operation.Parameters {
		own := fmt.Sprintf("/paths/%s/%s/parameters/%d", escape(x.template), strings.ToLower(x.documentedMethod()), i)
		x.checkParameter(parameter.Value, place(parameter.Ref, own))
	}
	if x.isOfAPI() {
		for name := range x.request.URL.Query() {
			if x.operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil {
				x.fault("the request was accepted with the query parameter %s, which is not documented", name)
			}
		}
		if len(x.request.Header.Values("Authorization")) != 1 {
			x.fault("the request was accepted with %d headers Authorization", len(x.request.Header.Values("Authorization")))
		}
	}
	x.checkRequestBody()
}

// isOfAPI says whether the operation needs a credential; the pages look at
// nothing of a request.
func (x *exchange) isOfAPI() bool {
	return x.operation.Security == nil || len(*x.operation.Security) > 0
}

// checkParameter holds one documented parameter against its schema.
func (x *exchange) checkParameter(p *openapi3.Parameter, pointer string) {
	var values []string
	switch p.In {
	case openapi3.ParameterInPath:
		values = []string{x.params[p.Name]}
	case openapi3.ParameterInQuery:
		values = x.request.URL.Query()[p.Name]
	case openapi3.ParameterInHeader:
		values = x.request.Header.Values(p.Name)
	}
	switch {
	case len(values) == 0 && p.Required:
		x.fault("the request was accepted without %s in the %s", p.Name, p.In)
	case len(values) > 1 && p.Name != "Prefer": // a list, RFC 7240, section 2
		x.fault("the request was accepted with %s %d times", p.Name, len(values))
	case len(values) > 0:
		if err := x.validator.checkText(pointer, p.Schema.Value, values[0]); err != nil {
			x.fault("the request was accepted: %s in the %s: %w", p.Name, p.In, err)
		}
	}
}

func (x *exchange) checkRequestBody() {
	declared := x.operation.RequestBody
	if declared == nil {
		return // what is sent along is not read
	}
	if len(x.RequestBody) == 0 {
		if declared.Value.Required {
			x.fault("the request was accepted without a body")
		}
		return
	}
	sent := x.request.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(sent)
	if err != nil || declared.Value.Content[mediaType] == nil {
		x.fault("the request was accepted with the Content-Type %q, which is not documented", sent)
		return
	}
	pointer := "/paths/" + escape(x.template) + "/" + strings.ToLower(x.documentedMethod()) + "/requestBody"
	schema := x.validator.schemaOf(place(declared.Ref, pointer), mediaType)
	value, err := decode(mediaType, x.RequestBody)
	if x.isBatch() {
		if err != nil {
			return // one entry may be no JSON of ours; the batch is accepted all the same
		}
		if value = x.withoutRefused(value); value == nil {
			return
		}
	}
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		x.fault("the request was accepted: its body: %w", err)
	}
}

func (x *exchange) isBatch() bool {
	switch x.operation.OperationID {
	case "beginBatch", "completeBatch", "resolveBatch":
		return true
	}
	return false
}

// withoutRefused takes the entries of a batch out that were refused for their
// values: the batch was accepted without them. It returns nil where none is
// left.
func (x *exchange) withoutRefused(request any) any {
	answer, err := decode(mediaJSON, x.Body)
	if err != nil {
		return request // a fault already
	}
	results, _ := member(answer, "results").([]any)
	accepted := maps.Clone(asObject(request)) // with every other member, which is no entry
	for name, list := range accepted {
		entries, isList := list.([]any)
		if !isList {
			continue
		}
		if len(entries) != len(results) {
			x.fault("%d entries got %d results", len(entries), len(results))
			return request
		}
		var kept []any
		for i, entry := range entries {
			if !refused(results[i]) {
				kept = append(kept, entry)
			}
		}
		if len(kept) == 0 {
			return nil
		}
		accepted[name] = kept
	}
	return accepted
}

// refused says whether an entry was answered before its values were all found
// good.
func refused(result any) bool {
	switch status := whole(member(result, "status")); status {
	case http.StatusOK, http.StatusCreated, http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return false
	default:
		return true
	}
}

func asObject(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

func member(value any, name string) any { return asObject(value)[name] }
