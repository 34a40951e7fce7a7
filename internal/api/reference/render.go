package reference

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"
)

//go:embed templates
var templates embed.FS

// renderer turns views into pages.
type renderer struct {
	set   *template.Template
	style string
}

func newRenderer() (*renderer, error) {
	style, err := templates.ReadFile("templates/style.css")
	if err != nil {
		return nil, err
	}
	r := &renderer{style: string(style)}
	r.set, err = template.New("").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(r.style) }, //nolint:gosec // embedded
		"lower": strings.ToLower,
		"at":    func(list []string, i int) string { return list[i] },
		"kind":  statusKind,
	}).ParseFS(templates, "templates/*.html")
	return r, err
}

// page executes one template into a finished page.
func (r *renderer) page(status int, name string, data any) (page, error) {
	var out bytes.Buffer
	if err := r.set.ExecuteTemplate(&out, name, data); err != nil {
		return page{}, fmt.Errorf("render %s: %w", name, err)
	}
	return page{status: status, contentType: mediaHTML, policy: stylePolicy(r.style), body: out.Bytes()}, nil
}

// statusKind groups statuses for their colour: what to do is the same in one
// group.
func statusKind(status any) string {
	switch text := fmt.Sprint(status); {
	case text == fmt.Sprint(http.StatusCreated):
		return "run"
	case strings.HasPrefix(text, "2"), strings.HasPrefix(text, "3"):
		return "fine"
	default:
		return "not"
	}
}
