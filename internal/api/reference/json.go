package reference

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// toJSON writes a YAML node as JSON: members in their order, numbers with the
// digits that they were written with. What JSON has no form for (anchors,
// dates, numbers such as 0x10 or .inf) is an error and not a guess.
func toJSON(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out, jsontext.WithIndent("  "))
	if err := encode(enc, n); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func encode(enc *jsontext.Encoder, n *yaml.Node) error {
	switch n.Kind {
	case yaml.DocumentNode:
		return encode(enc, n.Content[0])
	case yaml.MappingNode:
		return encodeAll(enc, n, jsontext.BeginObject, jsontext.EndObject)
	case yaml.SequenceNode:
		return encodeAll(enc, n, jsontext.BeginArray, jsontext.EndArray)
	case yaml.ScalarNode:
		return encodeScalar(enc, n)
	default:
		return fmt.Errorf("line %d: JSON has no anchors", n.Line)
	}
}

// encodeAll writes names and values alike: both are the content of a mapping.
func encodeAll(enc *jsontext.Encoder, n *yaml.Node, begin, end jsontext.Token) error {
	if err := enc.WriteToken(begin); err != nil {
		return err
	}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 { // a name is text, whatever it looks like
			if child.Kind != yaml.ScalarNode || child.Tag == "!!merge" {
				return fmt.Errorf("line %d: the name of a member must be text", child.Line)
			}
			if err := enc.WriteToken(jsontext.String(child.Value)); err != nil {
				return fmt.Errorf("line %d: %w", child.Line, err)
			}
			continue
		}
		if err := encode(enc, child); err != nil {
			return err
		}
	}
	return enc.WriteToken(end)
}

func encodeScalar(enc *jsontext.Encoder, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!str":
		return enc.WriteToken(jsontext.String(n.Value))
	case "!!null":
		return enc.WriteToken(jsontext.Null)
	case "!!bool":
		var value bool
		if err := n.Decode(&value); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		return enc.WriteToken(jsontext.Bool(value))
	case "!!int", "!!float":
		if value := jsontext.Value(n.Value); value.IsValid() && value.Kind() == '0' {
			return enc.WriteValue(value)
		}
	}
	return fmt.Errorf("line %d: %q has no form in JSON; put it in quotes if it is text", n.Line, n.Value)
}
