package reference

import (
	"html/template"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// shape is what a schema says to a reader: one line of type and limits, and
// the members below.
type shape struct {
	Type        string
	Limits      []limit
	Values      []string // all that it may be, where they are listed
	Description template.HTML
	Example     string
	Rules       []template.HTML // what the members must be together
	Members     []member
	Variants    []variant // exactly one of them
	Folded      bool      // the members are of the entries of a list: shown on demand
}

// limit is one bound of a value; Code is written as code after Text.
type limit struct{ Text, Code string }

// member is one member of an object.
type member struct {
	Name     string
	Required bool
	InAnswer bool // in what the service sends, not in what it is sent
	shape
}

// variant is one of several forms.
type variant struct {
	Title string
	shape
}

// reader turns schemas into shapes.
type reader struct {
	tree     *tree
	markdown markdown
}

// shape reads a schema and everything below it. Schemas do not contain
// themselves.
func (r *reader) shape(schema *yaml.Node) (shape, error) { return r.combined(r.parts(schema)) }

// combined reads what several schemas say of one value.
func (r *reader) combined(parts []*yaml.Node) (s shape, err error) {
	if s.Description, err = r.markdown.inline(first(parts, "description")); err != nil {
		return s, err
	}
	kinds := r.kinds(parts)
	s.Limits = limits(parts)
	s.Values = texts(firstNode(parts, "enum"))
	if examples := items(firstNode(parts, "examples")); len(examples) > 0 && isScalar(examples[0]) {
		s.Example = examples[0].Value
	}
	if err := r.objectShape(parts, &s); err != nil {
		return s, err
	}
	if entry := firstNode(parts, "items"); entry != nil {
		if err := r.listShape(entry, kinds, &s); err != nil {
			return s, err
		}
		return s, nil
	}
	s.Type = typeName(kinds, parts)
	return s, r.variants(parts, &s)
}

// parts are a schema and all that it takes in by allOf, the outermost first.
func (r *reader) parts(schema *yaml.Node) []*yaml.Node {
	schema = r.tree.follow(schema)
	if schema == nil {
		return nil
	}
	parts := []*yaml.Node{schema}
	for _, part := range items(own(schema, "allOf")) {
		parts = append(parts, r.parts(part)...)
	}
	if nullable, other := r.orNull(schema); nullable {
		parts = append(parts, r.parts(other)...)
	}
	return parts
}

// orNull tells a schema that is another one or null.
func (r *reader) orNull(schema *yaml.Node) (nullable bool, other *yaml.Node) {
	alternatives := items(own(schema, "oneOf"))
	if len(alternatives) != 2 || text(own(alternatives[1], "type")) != "null" {
		return false, nil
	}
	return true, alternatives[0]
}

func first(parts []*yaml.Node, name string) string { return text(firstNode(parts, name)) }

func firstNode(parts []*yaml.Node, name string) *yaml.Node {
	for _, part := range parts {
		if n := own(part, name); n != nil {
			return n
		}
	}
	return nil
}

func isScalar(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null" }

// kinds are the JSON types that a schema allows.
func (r *reader) kinds(parts []*yaml.Node) []string {
	var kinds []string
	switch n := firstNode(parts, "type"); {
	case n == nil:
	case n.Kind == yaml.SequenceNode:
		kinds = texts(n)
	default:
		kinds = []string{n.Value}
	}
	if len(kinds) == 0 && firstNode(parts, "properties") != nil {
		kinds = []string{"object"}
	}
	for _, part := range parts {
		if nullable, _ := r.orNull(part); nullable && !slices.Contains(kinds, "null") {
			kinds = append(kinds, "null")
		}
	}
	return kinds
}

// typeName says the types in words.
func typeName(kinds []string, parts []*yaml.Node) string {
	if len(kinds) == 0 {
		if firstNode(parts, "oneOf") != nil {
			return "object"
		}
		return "any JSON"
	}
	return strings.Join(kinds, " or ")
}

// listShape reads an array: its entries' limits and members stand in for it.
func (r *reader) listShape(entry *yaml.Node, kinds []string, s *shape) error {
	below, err := r.shape(entry)
	if err != nil {
		return err
	}
	name := plural(below.Type, fixedSize(r.tree.follow(entry)))
	s.Type = strings.Join(append([]string{"array of " + name}, kinds[1:]...), " or ")
	for _, l := range below.Limits {
		if l.Text == "one of" {
			s.Limits = append(s.Limits, limit{"each " + l.Text, l.Code})
		}
	}
	s.Members, s.Variants, s.Rules = below.Members, below.Variants, append(s.Rules, below.Rules...)
	s.Folded = len(s.Members)+len(s.Variants) > 0
	return nil
}

// plural names the entries of an array; size is the length of each where they
// are arrays of one length themselves.
func plural(kind, size string) string {
	if inner, ok := strings.CutPrefix(kind, "array of "); ok {
		return "arrays of " + strings.TrimSpace(size+" "+inner)
	}
	if kind == "string" || kind == "object" {
		return kind + "s"
	}
	return kind
}

// fixedSize is the length of an array that has only one.
func fixedSize(schema *yaml.Node) string {
	least, most := text(own(schema, "minItems")), text(own(schema, "maxItems"))
	if least == "" || least != most {
		return ""
	}
	return least
}

// objectShape reads members, which of them must be there, and the rules between
// them.
func (r *reader) objectShape(parts []*yaml.Node, s *shape) error {
	var required []string
	for _, part := range parts {
		required = append(required, texts(own(part, "required"))...)
	}
	for _, part := range parts {
		for name := range members(own(part, "properties")) {
			if slices.ContainsFunc(s.Members, func(m member) bool { return m.Name == name }) {
				continue // read with the part that names it first
			}
			below, err := r.combined(r.everyPart(parts, name))
			if err != nil {
				return err
			}
			s.Members = append(s.Members, member{Name: name, Required: slices.Contains(required, name), shape: below})
		}
		if err := r.rules(part, s); err != nil {
			return err
		}
	}
	if values := firstNode(parts, "additionalProperties"); values != nil && values.Kind == yaml.MappingNode {
		return r.freeMembers(values, s)
	}
	return nil
}

// everyPart is all that the parts of an object say of one member: an outer
// schema may narrow what an inner one describes.
func (r *reader) everyPart(parts []*yaml.Node, name string) []*yaml.Node {
	var all []*yaml.Node
	for _, part := range parts {
		if property := own(own(part, "properties"), name); property != nil {
			all = append(all, r.parts(property)...)
		}
	}
	return all
}

// freeMembers reads an object whose names are the caller's own.
func (r *reader) freeMembers(values *yaml.Node, s *shape) error {
	below, err := r.shape(values)
	if err != nil {
		return err
	}
	s.Members = append(s.Members, member{Name: "any name", shape: below})
	return nil
}

// rules says in words what a schema demands of members together.
func (r *reader) rules(part *yaml.Node, s *shape) error {
	rules := choiceRule(part)
	if pair := texts(own(own(part, "not"), "required")); len(pair) > 0 {
		rules = append(rules, "Never both "+quoted(pair, " and ")+".")
	}
	for name, needs := range members(own(part, "dependentRequired")) {
		rules = append(rules, "With `"+name+"` also "+quoted(texts(needs), " and ")+".")
	}
	for _, rule := range rules {
		html, err := r.markdown.inline(rule)
		if err != nil {
			return err
		}
		s.Rules = append(s.Rules, html)
	}
	return nil
}

// choiceRule reads a oneOf that only says which members must be there.
func choiceRule(part *yaml.Node) []string {
	var choices []string
	for _, choice := range items(own(part, "oneOf")) {
		if names := texts(own(choice, "required")); len(names) > 0 && own(choice, "properties") == nil && own(choice, "allOf") == nil {
			choices = append(choices, quoted(names, " with "))
		}
	}
	if len(choices) < 2 {
		return nil
	}
	return []string{"Exactly one of: " + strings.Join(choices, ", or ") + "."}
}

func quoted(names []string, separator string) string {
	marked := make([]string, len(names))
	for i, name := range names {
		marked[i] = "`" + name + "`"
	}
	return strings.Join(marked, separator)
}

// variants reads the forms of a schema that is exactly one of several objects.
func (r *reader) variants(parts []*yaml.Node, s *shape) error {
	for _, part := range parts {
		if nullable, _ := r.orNull(part); nullable {
			continue
		}
		for _, choice := range items(own(part, "oneOf")) {
			if own(choice, "properties") == nil && own(choice, "allOf") == nil && own(choice, "$ref") == nil {
				continue // a rule about members
			}
			below, err := r.shape(choice)
			if err != nil {
				return err
			}
			s.Variants = append(s.Variants, variant{Title: text(own(choice, "title")), shape: below})
		}
	}
	return nil
}

// longestPattern is the longest regular expression that still helps a reader.
const longestPattern = 64

// limits says the bounds of a value in words.
func limits(parts []*yaml.Node) []limit {
	var list []limit
	add := func(text, code string) { list = append(list, limit{text, code}) }
	get := func(name string) string { return first(parts, name) }

	if value := firstNode(parts, "const"); value != nil {
		add("always", value.Value)
	}
	if values := texts(firstNode(parts, "enum")); len(values) > 0 {
		add("one of", strings.Join(values, " · "))
	}
	add2 := func(least, most, unit string) {
		switch between := bounds(get(least), get(most)); {
		case between == "at least 1" && unit != "":
			add("not empty", "")
		case between != "":
			add(between+unit, "")
		}
	}
	add2("minimum", "maximum", "")
	add2("minLength", "maxLength", " characters")
	add2("minItems", "maxItems", " entries")
	add2("minProperties", "maxProperties", " members")
	if names := firstNode(parts, "propertyNames"); names != nil {
		add("names match", text(own(names, "pattern")))
	}
	if get("uniqueItems") == "true" {
		add("no entry twice", "")
	}
	pattern := get("pattern")
	if pattern != "" && len(pattern) <= longestPattern && get("format") == "" && get("contentEncoding") == "" {
		add("matches", pattern)
	}
	if format := get("format"); format != "" {
		add(format, "")
	}
	if get("contentEncoding") != "" {
		add("base64", "")
	}
	return list
}

func bounds(least, most string) string {
	switch {
	case least != "" && least == most:
		return least
	case least != "" && most != "":
		return grouped(least) + " to " + grouped(most)
	case least != "":
		return "at least " + grouped(least)
	case most != "":
		return "at most " + grouped(most)
	default:
		return ""
	}
}

// grouped writes a large whole number with thin blanks between the thousands.
func grouped(number string) string {
	if _, err := strconv.ParseUint(number, 10, 64); err != nil || len(number) < 5 {
		return number
	}
	var out strings.Builder
	for i, digit := range number {
		if i > 0 && (len(number)-i)%3 == 0 {
			out.WriteRune('\u202f')
		}
		out.WriteRune(digit)
	}
	return out.String()
}
