package reference

import (
	"html/template"
	"io/fs"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/onceward/onceward/docs"
)

// guideIndex is the name under which the list of guides is shown.
const guideIndex = "guides"

// link is one in a rendered guide.
var link = regexp.MustCompile(`(?s)<a href="([^"]*)">(.*?)</a>`)

// guidePage is what the page of one guide shows.
type guidePage struct {
	Title string
	Body  template.HTML
}

// renderGuides makes a page of each file of docs/.
func (r *Reference) renderGuides(html *renderer) error {
	files, err := fs.Glob(docs.Guides(), "*.md")
	if err != nil {
		return err
	}
	known := make(map[string]string, len(files)) // from file to page
	for _, file := range files {
		known[file] = guideName(file)
	}
	m := newGuideMarkdown()
	for file, name := range known {
		source, err := fs.ReadFile(docs.Guides(), file)
		if err != nil {
			return err
		}
		body, err := m.blocks(string(source))
		if err != nil {
			return err
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(source), "# "), "\n")
		p, err := html.page(http.StatusOK, "guide.html", guidePage{title, template.HTML(relinked(string(body), known))}) //nolint:gosec // as in blocks
		if err != nil {
			return err
		}
		r.guides[name] = p
	}
	return nil
}

func guideName(file string) string {
	if file == "README.md" {
		return guideIndex
	}
	return strings.TrimSuffix(file, ".md")
}

// relinked makes links between files lead to their pages. What the service does
// not show, such as a file of the source, keeps its text and loses its link.
func relinked(html string, known map[string]string) string {
	return link.ReplaceAllStringFunc(html, func(found string) string {
		parts := link.FindStringSubmatch(found)
		target, text := parts[1], parts[2]
		file, fragment, hasFragment := strings.Cut(target, "#")
		if hasFragment {
			fragment = "#" + fragment
		}
		page, ok := known[file]
		switch {
		case strings.Contains(target, "://") || file == "":
			return found
		case ok:
			return `<a href="` + page + fragment + `">` + text + `</a>`
		case file == "../api/openapi.yaml":
			return `<a href="../openapi.yaml">` + text + `</a>`
		case file == "../README.md":
			return `<a href="../docs#quick-start">` + text + `</a>`
		default:
			return text
		}
	})
}

// Guide serves the guide in chi's URL parameter "page"; 404 for one that is not
// there.
func (r *Reference) Guide() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p, ok := r.guides[chi.URLParam(req, "page")]
		if !ok {
			p = r.noGuide
		}
		p.ServeHTTP(w, req)
	})
}
