package reference

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// lineWidth is how long a line of an example may be; it fits a telephone's
// screen with little scrolling.
const lineWidth = 64

// layOut writes a node as JSON for reading: on one line what fits on one, each
// member on its own line otherwise. The outermost object is never on one line.
func layOut(n *yaml.Node, indent string) (string, error) {
	line, err := oneLine(n)
	if err != nil || len(n.Content) == 0 || indent != "" && len(indent)+len(line) <= lineWidth {
		return line, err
	}
	inner := indent + "  "
	var out strings.Builder
	open, end := brackets(n)
	out.WriteString(open)
	for i := 0; i < len(n.Content); i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n" + inner)
		if n.Kind == yaml.MappingNode {
			name, err := oneLine(n.Content[i])
			if err != nil {
				return "", err
			}
			out.WriteString(name + ": ")
			i++
		}
		value, err := layOut(n.Content[i], inner)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
	}
	out.WriteString("\n" + indent + end)
	return out.String(), nil
}

func brackets(n *yaml.Node) (open, end string) {
	if n.Kind == yaml.MappingNode {
		return "{", "}"
	}
	return "[", "]"
}

func oneLine(n *yaml.Node) (string, error) {
	if n.Kind == yaml.ScalarNode {
		value, err := toJSON(n)
		return strings.TrimSpace(string(value)), err
	}
	open, end := brackets(n)
	out := open
	for i, child := range n.Content {
		value, err := oneLine(child)
		if err != nil {
			return "", err
		}
		switch {
		case i == 0:
		case n.Kind == yaml.MappingNode && i%2 == 1:
			out += ": "
		default:
			out += ", "
		}
		out += value
	}
	return out + end, nil
}
