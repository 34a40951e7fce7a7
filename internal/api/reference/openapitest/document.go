package openapitest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// documentURL is the name under which the schemas refer to each other. Nothing
// is fetched.
const documentURL = "https://onceward.example/openapi.json"

// load reads the document twice: as kin-openapi's model, validated with every
// example of it, and as the plain tree that schemas are compiled from.
func load(source []byte) (*openapi3.T, map[string]any, error) {
	document, err := openapi3.NewLoader().LoadFromData(source)
	if err != nil {
		return nil, nil, fmt.Errorf("load openapi.yaml: %w", err)
	}
	if err := document.Validate(context.Background(), openapi3.EnableMultiError()); err != nil {
		return nil, nil, fmt.Errorf("openapi.yaml is not valid: %w", err)
	}
	tree, err := parse(source)
	return document, tree, err
}

// parse reads YAML into the values that a JSON document of the same content has.
func parse(source []byte) (map[string]any, error) {
	var values map[string]any
	if err := yaml.Unmarshal(source, &values); err != nil {
		return nil, err
	}
	asJSON, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(string(asJSON)))
	if err != nil {
		return nil, err
	}
	tree, ok := parsed.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("openapi.yaml is a %T and not an object", parsed)
	}
	return tree, nil
}

// schemas are the compiled schemas by the JSON pointer of each.
type schemas map[string]*jsonschema.Schema

// compile compiles the schema of every media type, by its place in the document
// with references in the path followed.
func compile(tree map[string]any) (schemas, error) {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	if err := compiler.AddResource(documentURL, tree); err != nil {
		return nil, err
	}
	compiled := make(schemas)
	for _, pointer := range schemaPointers(tree, "") {
		schema, err := compiler.Compile(documentURL + "#" + fragment(pointer))
		if err != nil {
			return nil, fmt.Errorf("compile the schema at %s: %w", pointer, err)
		}
		compiled[pointer] = schema
	}
	return compiled, nil
}

// schemaPointers finds every schema that stands beside a media type, a
// parameter or a header, and every named one.
func schemaPointers(node any, at string) (found []string) {
	switch n := node.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(n)) {
			below := at + "/" + escape(name)
			switch {
			case name == "example", name == "examples": // a caller's data, no description
			case name == "schema", strings.HasPrefix(at, "/components/schemas") && strings.Count(at, "/") == 2:
				found = append(found, below)
			default:
				found = append(found, schemaPointers(n[name], below)...)
			}
		}
	case []any:
		for i, item := range n {
			found = append(found, schemaPointers(item, fmt.Sprintf("%s/%d", at, i))...)
		}
	}
	return found
}

// fragment escapes a JSON pointer for the fragment of an address.
func fragment(pointer string) string {
	return (&url.URL{Path: pointer}).EscapedPath()
}

// place is where a thing stands in the document: where its reference points, or
// else its own place.
func place(ref, own string) string {
	if pointer, ok := strings.CutPrefix(ref, "#"); ok {
		return pointer
	}
	return own
}

// schemaOf is the compiled schema of a media type of the response or request
// body at pointer.
func (v *Validator) schemaOf(pointer, mediaType string) *jsonschema.Schema {
	return v.schemas[pointer+"/content/"+escape(mediaType)+"/schema"]
}

// checkText holds the text of a header or parameter at pointer against its
// schema: as a number where it must be one, as a list where it must be one
// (style simple or form, not exploded), else as it is.
func (v *Validator) checkText(pointer string, schema *openapi3.Schema, sent string) error {
	compiled := v.schemas[pointer+"/schema"]
	if compiled == nil {
		return fmt.Errorf("the document has no schema at %s", pointer)
	}
	var value any = sent
	switch {
	case schema.Type.Is(openapi3.TypeInteger), schema.Type.Is(openapi3.TypeNumber):
		if number := jsontext.Value(sent); number.IsValid() && number.Kind() == '0' {
			value = json.Number(sent)
		}
	case schema.Type.Is(openapi3.TypeArray):
		var list []any
		for part := range strings.SplitSeq(sent, ",") {
			list = append(list, part)
		}
		value = list
	}
	return compiled.Validate(value)
}
