package openapitest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	apispec "github.com/onceward/onceward/api"
	"github.com/onceward/onceward/internal/problem"
)

func TestABrokenDocumentIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ from, to string }{
		"a reference that leads nowhere":             {`"#/components/schemas/BeginRequest"`, `"#/components/schemas/Begin"`},
		"an example of another type":                 {"outcome: acquired\n", "outcome: 1\n"},
		"an example without a member":                {"                    resumed: false\n", ""},
		"an example with a member more":              {"                    resumed: false\n", "                    resumed: false\n                    more: 1\n"},
		"an example that a const does not allow":     {"outcome: acquired\n", "outcome: replay\n"},
		"an example that a pattern does not allow":   {"id: pD3vJ0kq8mQ2x7TzY1cLwA\n", "id: short\n"},
		"an example that a rule does not allow":      {"          detail: Another attempt holds", "          differs: [body]\n                          detail: Another attempt holds"},
		"an operationId twice":                       {"operationId: begin\n", "operationId: beginBatch\n"},
		"a keyword that is none":                     {"additionalProperties: false\n      required: [key]\n", "additionalPropertys: false\n      required: [key]\n"},
		"a pattern that is no expression":            {`"^[0-9a-f]{64}$"`, `"^[0-9a-f{64}$"`},
		"a parameter of a path that nobody declares": {"  /problems/{code}:", "  /problems/{kind}:"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := apispec.YAML()
			broken := bytes.Replace(source, []byte(tt.from), []byte(tt.to), 1)
			if bytes.Equal(source, broken) {
				t.Fatalf("the document does not have %q", tt.from)
			}
			if _, err := newFrom(broken); err == nil {
				t.Error("New takes it for a valid document")
			}
		})
	}
}

// The examples of schemas, headers and parameters, which kin-openapi does not
// look at everywhere.
func TestEveryExampleIsWhatItsSchemaSays(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	tree, err := parse(apispec.YAML())
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	check := func(schema *jsonschema.Schema, at string, value any) {
		checked++
		if schema == nil {
			t.Errorf("%s: there is no schema for the example", at)
		} else if err := schema.Validate(value); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(documentURL, tree); err != nil {
		t.Fatal(err)
	}
	walk(tree, "", func(at string, object map[string]any) {
		switch list := object["examples"].(type) {
		case []any: // of a schema
			for i, value := range list {
				schema, err := compiler.Compile(documentURL + "#" + fragment(at))
				if err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				check(schema, fmt.Sprintf("%s/examples/%d", at, i), value)
			}
		case map[string]any: // of a media type or parameter
			for name, example := range list {
				check(v.schemas[at+"/schema"], at+"/examples/"+name, member(example, "value"))
			}
		}
		if value, ok := object["example"]; ok { // of a header or parameter
			check(v.schemas[at+"/schema"], at+"/example", value)
		}
	})
	if checked < 115 {
		t.Errorf("only %d examples were checked", checked)
	}
}

// walk visits every object of the document that is no example.
func walk(node any, at string, visit func(at string, object map[string]any)) {
	switch n := node.(type) {
	case map[string]any:
		visit(at, n)
		for _, name := range slices.Sorted(maps.Keys(n)) {
			if name != "example" && name != "examples" {
				walk(n[name], at+"/"+escape(name), visit)
			}
		}
	case []any:
		for i, item := range n {
			walk(item, fmt.Sprintf("%s/%d", at, i), visit)
		}
	}
}

func TestEveryPartOfTheDocumentIsDescribed(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	for path, item := range v.document.Paths.Map() {
		for method, o := range item.Operations() {
			where := method + " " + path
			if o.Summary == "" || o.Description == "" || len(o.Tags) != 1 {
				t.Errorf("%s has no summary, no description or not one tag", where)
			}
			if strings.HasPrefix(path, "/v1/") != (o.Extensions["x-onceward-roles"] != nil) || strings.HasPrefix(path, "/v1/") != (o.Security == nil || len(*o.Security) > 0) {
				t.Errorf("%s: calls of the API, and they alone, have roles and need a credential", where)
			}
			if operator := strings.HasPrefix(path, "/v1/admin/"); operator != isOperators(o) || operator != (o.Servers != nil) {
				t.Errorf("%s: the operator's calls, and they alone, have a server and a token of their own", where)
			}
			for _, p := range o.Parameters {
				if p.Value.Description == "" || p.Value.Example == nil && len(p.Value.Examples) == 0 {
					t.Errorf("%s: the parameter %s has no description or no example", where, p.Value.Name)
				}
			}
			if o.RequestBody != nil {
				describedContent(t, where+" request", o.RequestBody.Value.Description, o.RequestBody.Value.Content)
			}
			for status, response := range o.Responses.Map() {
				describedContent(t, where+" "+status, *response.Value.Description, response.Value.Content)
				for name, header := range response.Value.Headers {
					if header.Value.Description == "" || header.Value.Example == nil {
						t.Errorf("%s %s: the header %s has no description or no example", where, status, name)
					}
				}
			}
		}
	}
	for name, schema := range v.document.Components.Schemas {
		describedMembers(t, name, schema.Value)
	}
}

func describedContent(t *testing.T, where, description string, content openapi3.Content) {
	t.Helper()
	if description == "" {
		t.Errorf("%s has no description", where)
	}
	for mediaType, media := range content {
		if media.Schema == nil {
			t.Errorf("%s: %s has no schema", where, mediaType)
		}
		if strings.HasPrefix(where, "GET /v1") || !strings.HasPrefix(where, "GET") {
			if len(media.Examples) == 0 {
				t.Errorf("%s: %s has no example", where, mediaType)
			}
		}
	}
}

// describedMembers demands a description of every member, its own or that of
// the schema that it refers to.
func describedMembers(t *testing.T, where string, schema *openapi3.Schema) {
	t.Helper()
	for name, property := range schema.Properties {
		if !hasDescription(property.Value) {
			t.Errorf("%s.%s has no description", where, name)
		}
		describedMembers(t, where+"."+name, property.Value)
	}
	for _, choice := range schema.OneOf {
		describedMembers(t, where, choice.Value)
	}
	if schema.Items != nil && schema.Items.Ref == "" {
		describedMembers(t, where+"[]", schema.Items.Value)
	}
}

func hasDescription(schema *openapi3.Schema) bool {
	// A const or enum alone narrows what another part describes.
	return schema.Description != "" || schema.Type == nil && (schema.Const != nil || len(schema.Enum) > 0)
}

func TestEveryProblemOfTheTableIsDocumented(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	var want []string
	for _, entry := range problem.Table() {
		want = append(want, string(entry.Kind))
	}
	var listed []string
	for _, value := range v.document.Components.Schemas["ProblemCode"].Value.Enum {
		listed = append(listed, fmt.Sprint(value))
	}
	if diff := cmp.Diff(listed, want); diff != "" {
		t.Errorf("ProblemCode (-document +table):\n%s", diff)
	}
	answered := map[string]bool{"": true}
	for name, response := range v.document.Components.Responses {
		for _, code := range codesOf(response.Value) {
			answered[code] = true
			if code != "" && !slices.Contains(want, code) {
				t.Errorf("%s documents %s, which the table does not have", name, code)
			}
		}
	}
	for _, code := range want {
		if !answered[code] {
			t.Errorf("no answer documents %s", code)
		}
	}
}

// A code that can come from every call is documented for every call.
func TestEveryCallDocumentsWhatEveryCallCanAnswer(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	for _, o := range v.operations() {
		if o.Security != nil && !isOperators(o) {
			continue
		}
		var codes []string
		for _, response := range o.Responses.Map() {
			codes = append(codes, codesOf(response.Value)...)
		}
		for _, want := range []string{"invalid_request", "unauthenticated", "forbidden", "unsupported_media_type", "internal", "unavailable"} {
			if !slices.Contains(codes, want) {
				t.Errorf("%s does not document %s", o.OperationID, want)
			}
		}
		underLease := slices.Contains(codes, "lease_lost") || o.OperationID == "completeBatch"
		noTenant := underLease || isOperators(o)
		for _, never := range []string{"suspended", "quota_exceeded"} {
			if noTenant && slices.Contains(codes, never) {
				t.Errorf("%s is refused by no tenant's state, and documents %s", o.OperationID, never)
			}
		}
		// Whoever they are made by: what has no valid credential is no call of a tenant.
		if limited := o.Responses.Value("429"); noTenant && (limited == nil || limited.Ref != "#/components/responses/SignInsLimited") {
			t.Errorf("%s does not document failed sign-ins alone as 429", o.OperationID)
		}
		for _, want := range []string{"suspended", "rate_limited"} {
			if !noTenant && !slices.Contains(codes, want) {
				t.Errorf("%s does not document %s", o.OperationID, want)
			}
		}
		if o.RequestBody != nil && !slices.Contains(codes, "request_too_large") {
			t.Errorf("%s does not document request_too_large", o.OperationID)
		}
	}
}

func TestTheDocumentHasTheCallsOfTheContract(t *testing.T) {
	t.Parallel()
	want := []string{
		"GET /.well-known/jwks.json getKeySet",
		"GET /docs getDocs",
		"GET /docs/{page} getGuide",
		"GET /healthz healthz",
		"GET /openapi.json getOpenAPIJSON",
		"GET /openapi.yaml getOpenAPIYAML",
		"GET /problems/{code} getProblemPage",
		"GET /readyz readyz",
		"GET /v1/admin/clock getClock operator",
		"POST /v1/admin/clock/trust trustClock operator",
		"POST /v1/admin/prune pruneAll operator",
		"GET /v1/admin/tenants listTenants operator ?limit&cursor",
		"POST /v1/admin/tenants createTenant operator",
		"DELETE /v1/admin/tenants/{id} deleteTenant operator ?name",
		"GET /v1/admin/tenants/{id} getTenant operator",
		"PATCH /v1/admin/tenants/{id} patchTenant operator",
		"POST /v1/admin/tenants/{id}/credentials recoverAdmin operator",
		"GET /v1/analytics/callers getCallerFigures ops,resolver,admin ?from&to&operation&namespace&caller&limit",
		"GET /v1/analytics/operations getOperationFigures ops,resolver,admin ?from&to&operation&namespace&caller&limit",
		"GET /v1/analytics/outcomes getOutcomes ops,resolver,admin ?from&to&step&operation&namespace&caller",
		"GET /v1/analytics/replay-ages getReplayAges ops,resolver,admin ?from&to&operation&namespace&caller",
		"GET /v1/audit listAudit ops,resolver,admin ?action&actor&object&since&until&limit&cursor",
		"POST /v1/auth/token exchangeToken service,ops,resolver,admin",
		"GET /v1/contract getContract service",
		"GET /v1/credentials listCredentials ops,resolver,admin",
		"POST /v1/credentials issueCredential admin",
		"DELETE /v1/credentials/{id} revokeCredential admin",
		"POST /v1/credentials/{id}/rotate rotateCredential admin",
		"GET /v1/events listEvents ops,resolver,admin ?kind&operation&namespace&caller&since&limit&cursor",
		"POST /v1/keys begin service",
		"POST /v1/keys/batch beginBatch service",
		"POST /v1/keys/search search ops,resolver,admin",
		"GET /v1/keys/{id} inspect service,ops,resolver,admin ?include",
		"POST /v1/keys/{id}/forget forget admin",
		"DELETE /v1/keys/{id}/lease release service",
		"PATCH /v1/keys/{id}/lease renew service",
		"PUT /v1/keys/{id}/recovery-point setRecoveryPoint service",
		"POST /v1/keys/{id}/resolution resolve resolver,admin",
		"PUT /v1/keys/{id}/response complete service",
		"POST /v1/keys/{id}/unknown declareUnknown service",
		"GET /v1/namespaces listNamespaces ops,resolver,admin",
		"POST /v1/namespaces createNamespace admin",
		"PATCH /v1/namespaces/{id} renameNamespace admin",
		"GET /v1/policy getPolicy ops,resolver,admin",
		"PATCH /v1/policy patchPolicy admin",
		"DELETE /v1/policy/operations deleteOperationPolicy admin ?operation&namespace",
		"GET /v1/policy/operations listOperationPolicies ops,resolver,admin",
		"PUT /v1/policy/operations putOperationPolicy admin",
		"POST /v1/prune prune admin",
		"POST /v1/resolutions/batch resolveBatch resolver,admin",
		"POST /v1/responses/batch completeBatch service",
		"GET /v1/retention getRetention ops,resolver,admin",
		"PUT /v1/retention putRetention admin",
		"DELETE /v1/retention/change cancelRetention admin",
		"POST /v1/retention/preview previewRetention admin",
		"GET /v1/usage getUsage ops,resolver,admin ?from&to",
	}
	var got []string
	for _, o := range newValidator(t).Operations() {
		line := o.Method + " " + o.Path + " " + o.ID + " " + strings.Join(o.Roles, ",")
		if len(o.Query) > 0 {
			line += " ?" + strings.Join(o.Query, "&")
		}
		got = append(got, strings.TrimSpace(line))
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("operations (-got +want):\n%s", diff)
	}
}

// Every object that is sent or answered is closed: a member that the document
// does not name is refused, here as in the service.
func TestEveryObjectIsClosed(t *testing.T) {
	t.Parallel()
	tree, err := parse(apispec.YAML())
	if err != nil {
		t.Fatal(err)
	}
	closed := 0
	walk(member(tree, "components").(map[string]any)["schemas"], "", func(at string, schema map[string]any) {
		if schema["properties"] == nil || strings.HasSuffix(at, "/properties") {
			return
		}
		if schema["additionalProperties"] == false || schema["unevaluatedProperties"] == false {
			closed++
			return
		}
		for _, open := range []string{"/then", "/if", "/anyOf/", "/dependentSchemas/", "/oneOf/0/"} {
			if strings.Contains(at, open) {
				return // a rule about an object that is closed above
			}
		}
		name := strings.TrimPrefix(at, "/")
		if strings.HasSuffix(name, "Members") || strings.HasSuffix(name, "/problem") {
			return // closed where it is taken in: tests of answers prove it
		}
		t.Errorf("%s is open", name)
	})
	if closed < 20 {
		t.Errorf("only %d objects are closed", closed)
	}
}
