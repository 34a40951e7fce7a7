// Package reference owns what the service tells about itself: the OpenAPI
// document as YAML and JSON, the reference page made from it, one page for
// every problem code, and one for every guide of docs/.
//
// Everything is made once, from the embedded document and the problem table; a
// request only sends bytes. It must not describe anything by hand that
// the document or the table already says, must not run a script in a browser,
// and reads nothing of a request but its path and If-None-Match.
package reference

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
	"go.yaml.in/yaml/v3"

	apispec "github.com/onceward/onceward/api"
	"github.com/onceward/onceward/internal/problem"
)

const (
	mediaJSON = "application/json"
	mediaYAML = "application/yaml" // RFC 9512
	mediaHTML = "text/html; charset=utf-8"

	// maxAge is how long a page may be kept: a new version of the service is
	// seen after that long at the latest.
	maxAge = "max-age=300"
)

// Reference is the set of finished pages. It is read-only and shared.
type Reference struct {
	asYAML   page
	asJSON   page
	docs     page
	problems map[string]page
	noSuch   page
	guides   map[string]page
	noGuide  page
}

// New makes every page for a service at baseURL, such as
// https://api.example.com: http or https, no slash at its end. Empty, the
// documents name no host, and their server is the one they were read from.
func New(baseURL string) (*Reference, error) {
	if baseURL != "" {
		u, err := url.Parse(baseURL)
		if err != nil || u.Host == "" || !baseForm.MatchString(baseURL) || strings.HasSuffix(baseURL, "/") {
			return nil, fmt.Errorf("the base URL must be http:// or https://, a host and perhaps a port and a path, without a slash at its end, such as https://api.example.com; it is %q", baseURL)
		}
	}
	r, err := rendered()
	if err != nil {
		return nil, err
	}
	return r.at(baseURL), nil
}

// rendered are the pages with the placeholder for an address. They depend on
// what is embedded alone and take 0.1 s to make, so a process that serves at
// several addresses, as tests do, makes them once.
//
//nolint:gochecknoglobals // compiled once; a constant that Go cannot declare
var rendered = sync.OnceValues(render)

func render() (*Reference, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(apispec.YAML(), &root); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	asJSON, err := toJSON(&root)
	if err != nil {
		return nil, fmt.Errorf("convert openapi.yaml to JSON: %w", err)
	}
	t := &tree{root: root.Content[0]}
	if err := t.checkReferences(); err != nil {
		return nil, fmt.Errorf("read openapi.yaml: %w", err)
	}
	r := &Reference{
		asYAML:   page{status: http.StatusOK, contentType: mediaYAML, body: apispec.YAML()},
		asJSON:   page{status: http.StatusOK, contentType: mediaJSON, body: asJSON},
		problems: make(map[string]page), guides: make(map[string]page),
	}
	return r, r.renderHTML(t)
}

// renderHTML makes the pages for people.
func (r *Reference) renderHTML(t *tree) error {
	v, err := newView(t)
	if err != nil {
		return err
	}
	html, err := newRenderer()
	if err != nil {
		return err
	}
	if r.docs, err = html.page(http.StatusOK, "docs.html", v); err != nil {
		return err
	}
	for _, entry := range problem.Table() {
		p, err := html.page(http.StatusOK, "problem.html", v.problemPage(entry))
		if err != nil {
			return err
		}
		r.problems[string(entry.Kind)] = p
	}
	if r.noSuch, err = html.page(http.StatusNotFound, "no_such_problem.html", v); err != nil {
		return err
	}
	if err := r.renderGuides(html); err != nil {
		return err
	}
	r.noGuide, err = html.page(http.StatusNotFound, "guide.html", guidePage{"No such guide", "<p>There is no guide of this name.</p>"})
	return err
}

// at returns the pages with baseURL in place of the placeholder.
func (r *Reference) at(baseURL string) *Reference {
	there := &Reference{
		asYAML: r.asYAML.at(baseURL), asJSON: r.asJSON.at(baseURL), docs: r.docs.at(baseURL),
		problems: make(map[string]page, len(r.problems)), noSuch: r.noSuch.at(baseURL),
		guides: make(map[string]page, len(r.guides)), noGuide: r.noGuide.at(baseURL),
	}
	for name, p := range r.guides {
		there.guides[name] = p.at(baseURL)
	}
	for code, p := range r.problems {
		there.problems[code] = p.at(baseURL)
	}
	return there
}

// OpenAPIYAML serves the document as it was written, with this service's address.
func (r *Reference) OpenAPIYAML() http.Handler { return r.asYAML }

// OpenAPIJSON serves the document as JSON, its members in the same order.
func (r *Reference) OpenAPIJSON() http.Handler { return r.asJSON }

// Docs serves the reference as one HTML page.
func (r *Reference) Docs() http.Handler { return r.docs }

// Problem serves the page of the code in chi's URL parameter "code"; 404 for a
// code that no kind has.
func (r *Reference) Problem() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p, ok := r.problems[chi.URLParam(req, "code")]
		if !ok {
			p = r.noSuch
		}
		p.ServeHTTP(w, req)
	})
}

// baseForm is what an address may look like that is written into the pages:
// nothing in it means anything to YAML, JSON or HTML.
var baseForm = regexp.MustCompile(`^https?://[A-Za-z0-9.:\[\]_~/-]+$`)

// page is one finished answer.
type page struct {
	status      int
	contentType string
	policy      string // Content-Security-Policy; empty for what is no HTML
	etag        string // empty for what is not found
	body        []byte
}

// at returns the page with baseURL in place of the placeholder, and with the
// etag of what it is then. Without an address what was absolute is relative to
// this service, and the service itself is "/".
func (p page) at(baseURL string) page {
	placeholder := []byte(apispec.PlaceholderURL)
	if baseURL == "" {
		p.body = bytes.ReplaceAll(p.body, append(placeholder, '/'), []byte("/"))
		baseURL = "/"
	}
	p.body = bytes.ReplaceAll(p.body, placeholder, []byte(baseURL))
	if p.status == http.StatusOK {
		sum := sha256.Sum256(p.body)
		p.etag = `"` + hex.EncodeToString(sum[:8]) + `"`
	}
	return p
}

// ServeHTTP sends the page, or 304 to whoever has it already.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", maxAge)
	h.Set("X-Content-Type-Options", "nosniff")
	if p.policy != "" { // of a 304 too: it replaces what the browser has kept
		h.Set("Content-Security-Policy", p.policy)
		h.Set("Referrer-Policy", "no-referrer")
	}
	if p.etag != "" {
		h.Set("ETag", p.etag)
		if matches(r.Header.Values("If-None-Match"), p.etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.Set("Content-Type", p.contentType)
	h.Set("Content-Length", strconv.Itoa(len(p.body)))
	w.WriteHeader(p.status)
	_, _ = w.Write(p.body) // the reader may be gone; there is nothing left to do for it
}

// matches compares weakly, as If-None-Match does (RFC 9110, section 13.1.2).
// No etag of ours has a comma in it.
func matches(ifNoneMatch []string, etag string) bool {
	for _, line := range ifNoneMatch {
		for candidate := range strings.SplitSeq(line, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// stylePolicy allows the one style sheet of a page, by its digest, and nothing
// else: no script, no image, no frame, no request to anywhere.
func stylePolicy(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
