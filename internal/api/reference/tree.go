package reference

import (
	"fmt"
	"iter"
	"strings"

	"go.yaml.in/yaml/v3"
)

// tree reads the parsed document: members in the order in which they were
// written, references followed.
type tree struct{ root *yaml.Node }

// members yields the members of a mapping, or nothing for any other node.
func members(n *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}

// items are the entries of a sequence, or nothing for any other node.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// own is the member of that name, nil where there is none. It follows nothing.
func own(n *yaml.Node, name string) *yaml.Node {
	for key, value := range members(n) {
		if key == name {
			return value
		}
	}
	return nil
}

// text is the value of a scalar, or empty.
func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

// texts are the values of a sequence of scalars.
func texts(n *yaml.Node) []string {
	var values []string
	for _, item := range items(n) {
		values = append(values, text(item))
	}
	return values
}

// get goes down by member names, following the references on the way and at
// the end. It returns nil where a member is absent.
func (t *tree) get(n *yaml.Node, names ...string) *yaml.Node {
	n = t.follow(n)
	for _, name := range names {
		n = t.follow(own(n, name))
	}
	return n
}

// follow returns what n refers to, or n itself. checkReferences has shown that
// every reference ends.
func (t *tree) follow(n *yaml.Node) *yaml.Node {
	for {
		ref := own(n, "$ref")
		if ref == nil {
			return n
		}
		n = t.target(ref.Value)
	}
}

// target is the node that a local reference names, or nil.
func (t *tree) target(ref string) *yaml.Node {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	n := t.root
	for name := range strings.SplitSeq(pointer, "/") {
		n = own(n, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return n
}

// checkReferences fails on a reference that leads nowhere or round in a circle.
func (t *tree) checkReferences() error {
	const longest = 16 // references to references
	var check func(n *yaml.Node) error
	check = func(n *yaml.Node) error {
		end, steps := n, 0
		for ref := own(end, "$ref"); ref != nil; ref = own(end, "$ref") {
			if end = t.target(ref.Value); end == nil {
				return fmt.Errorf("line %d: the reference %s leads nowhere", ref.Line, ref.Value)
			}
			if steps++; steps > longest {
				return fmt.Errorf("line %d: the reference %s leads round in a circle", ref.Line, ref.Value)
			}
		}
		for _, child := range n.Content {
			if err := check(child); err != nil {
				return err
			}
		}
		return nil
	}
	return check(t.root)
}
