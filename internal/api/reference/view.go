package reference

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/onceward/onceward/internal/problem"
)

// view is the document as the pages show it.
type view struct {
	Title    string
	Server   string
	Opening  template.HTML
	Sections []section // the introduction, by its headings
	Problem  shape     // what every error answer has
	Codes    []code    // in the contract's order
	Groups   []group
}

// code is one problem code.
type code struct {
	Code   string
	Status int
	Title  string
}

// group is the operations of one tag.
type group struct {
	ID         string
	Title      string
	About      template.HTML
	Operations []operation
}

// operation is one method of one path.
type operation struct {
	ID          string
	Method      string
	Path        string
	Summary     string
	Description template.HTML
	Roles       []string // empty: no credential
	Parameters  []member // In says where each is
	In          []string
	Body        *body
	Answers     []answer
}

// body is what a request carries.
type body struct {
	Required bool
	About    template.HTML
	Contents []content
}

// content is one form of a body or an answer.
type content struct {
	MediaType string
	Shape     shape
	Examples  []example
}

// example is one value, as it goes over the wire.
type example struct{ Summary, Text string }

// answer is one status of an operation.
type answer struct {
	Status   string
	Codes    []string // of its problem; empty for what is no error
	Entries  []string // codes that an entry of a batch may carry inside this answer
	About    template.HTML
	Headers  []member // those that not every answer has
	Contents []content
}

// everywhere are the headers that every answer of the API has: said once.
func everywhere(name string) bool {
	return name == "Request-Id" || name == "Cache-Control" || name == "X-Content-Type-Options"
}

// newView reads the whole document.
func newView(t *tree) (*view, error) {
	r := &reader{tree: t, markdown: newMarkdown()}
	v := &view{
		Title:  text(t.get(t.root, "info", "title")),
		Server: text(own(items(t.get(t.root, "servers"))[0], "url")),
	}
	var err error
	if v.Opening, v.Sections, err = r.markdown.sections(text(t.get(t.root, "info", "description"))); err != nil {
		return nil, err
	}
	schemas := t.get(t.root, "components", "schemas")
	if v.Problem, err = r.shape(t.get(schemas, "Problem")); err != nil {
		return nil, err
	}
	for _, name := range texts(t.get(schemas, "ProblemCode", "enum")) {
		entry, ok := problem.Lookup(problem.Kind(name))
		if !ok {
			return nil, fmt.Errorf("the document names the problem code %s, which the table does not have", name)
		}
		v.Codes = append(v.Codes, code{name, entry.Status, entry.Title})
	}
	return v, v.readGroups(r)
}

// readGroups sorts the operations under their tags.
func (v *view) readGroups(r *reader) error {
	for _, tag := range items(r.tree.get(r.tree.root, "tags")) {
		about, err := r.markdown.inline(text(own(tag, "description")))
		if err != nil {
			return err
		}
		title := text(own(tag, "name"))
		v.Groups = append(v.Groups, group{ID: anchor(title), Title: title, About: about})
	}
	for path, methods := range members(r.tree.get(r.tree.root, "paths")) {
		for method, node := range members(methods) {
			o, err := r.operation(method, path, node)
			if err != nil {
				return fmt.Errorf("%s %s: %w", method, path, err)
			}
			i := slices.IndexFunc(v.Groups, func(g group) bool { return slices.Contains(texts(own(node, "tags")), g.Title) })
			if i < 0 {
				return fmt.Errorf("%s %s: has no tag that the document lists", method, path)
			}
			v.Groups[i].Operations = append(v.Groups[i].Operations, o)
		}
	}
	return nil
}

func (r *reader) operation(method, path string, node *yaml.Node) (o operation, err error) {
	o = operation{
		ID: text(own(node, "operationId")), Method: strings.ToUpper(method), Path: path,
		Summary: text(own(node, "summary")), Roles: texts(own(node, "x-onceward-roles")),
	}
	if o.Description, err = r.markdown.blocks(text(own(node, "description"))); err != nil {
		return o, err
	}
	for _, parameter := range items(own(node, "parameters")) {
		parameter = r.tree.follow(parameter)
		m, err := r.described(text(own(parameter, "name")), parameter)
		if err != nil {
			return o, err
		}
		o.Parameters, o.In = append(o.Parameters, m), append(o.In, text(own(parameter, "in")))
	}
	if request := r.tree.get(node, "requestBody"); request != nil {
		o.Body = &body{Required: text(own(request, "required")) == "true"}
		if o.Body.About, err = r.markdown.inline(text(own(request, "description"))); err != nil {
			return o, err
		}
		if o.Body.Contents, err = r.contents(own(request, "content")); err != nil {
			return o, err
		}
	}
	for status, response := range members(own(node, "responses")) {
		a, err := r.answer(status, r.tree.follow(response))
		if err != nil {
			return o, err
		}
		o.Answers = append(o.Answers, a)
	}
	return o, nil
}

// described is a parameter or a header: a schema with a description and an
// example of its own.
func (r *reader) described(name string, node *yaml.Node) (m member, err error) {
	m = member{Name: name, Required: text(own(node, "required")) == "true"}
	if m.shape, err = r.shape(own(node, "schema")); err != nil {
		return m, err
	}
	if m.Example == "" {
		m.Example = text(own(node, "example"))
	}
	m.Description, err = r.markdown.inline(text(own(node, "description")))
	return m, err
}

func (r *reader) answer(status string, node *yaml.Node) (a answer, err error) {
	a.Status = status
	if a.About, err = r.markdown.inline(text(own(node, "description"))); err != nil {
		return a, err
	}
	for name, header := range members(own(node, "headers")) {
		if everywhere(name) {
			continue
		}
		m, err := r.described(name, r.tree.follow(header))
		if err != nil {
			return a, err
		}
		a.Headers = append(a.Headers, m)
	}
	if a.Codes = r.codes(node); len(a.Codes) > 0 {
		return a, nil // every problem has the same members: said once
	}
	if a.Contents, err = r.contents(own(node, "content")); err != nil {
		return a, err
	}
	for _, c := range a.Contents {
		a.Entries = append(a.Entries, entryCodes(c.Shape)...)
		asAnswer(c.Shape)
	}
	return a, nil
}

// entryCodes are the problem codes inside an answer that is no problem itself.
func entryCodes(s shape) (codes []string) {
	for _, m := range s.Members {
		if m.Name == "problem" {
			for _, inner := range m.Members {
				if inner.Name == "code" {
					codes = append(codes, inner.Values...)
				}
			}
		}
		codes = append(codes, entryCodes(m.shape)...)
	}
	for _, v := range s.Variants {
		codes = append(codes, entryCodes(v.shape)...)
	}
	return codes
}

// asAnswer marks the members of what the service sends: there the exception is
// the member that may be absent, not the one that is required.
func asAnswer(s shape) {
	for i := range s.Members {
		s.Members[i].InAnswer = true
		asAnswer(s.Members[i].shape)
	}
	for i := range s.Variants {
		asAnswer(s.Variants[i].shape)
	}
}

// codes are the problem codes that an answer may carry.
func (r *reader) codes(response *yaml.Node) []string {
	schema := r.tree.get(response, "content", "application/problem+json", "schema")
	code := r.tree.get(schema, "properties", "code")
	if one := own(code, "const"); one != nil {
		return []string{one.Value}
	}
	return texts(own(code, "enum"))
}

func (r *reader) contents(node *yaml.Node) (list []content, err error) {
	for mediaType, media := range members(node) {
		c := content{MediaType: mediaType}
		if c.Shape, err = r.shape(own(media, "schema")); err != nil {
			return nil, err
		}
		for _, e := range members(own(media, "examples")) {
			e = r.tree.follow(e)
			value, err := wire(own(e, "value"), mediaType)
			if err != nil {
				return nil, err
			}
			c.Examples = append(c.Examples, example{text(own(e, "summary")), value})
		}
		list = append(list, c)
	}
	return list, nil
}

// wire is an example as it goes over the wire, laid out for reading.
func wire(value *yaml.Node, mediaType string) (string, error) {
	if strings.HasSuffix(mediaType, "json") {
		return layOut(value, "")
	}
	return strings.ReplaceAll(text(value), "\r\n", "\n"), nil
}
