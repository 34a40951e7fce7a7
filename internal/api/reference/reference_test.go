package reference

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	apispec "github.com/onceward/onceward/api"
	"github.com/onceward/onceward/internal/problem"
)

const base = "https://api.example.com"

// server is the pages at the addresses that the service gives them.
func server(tb testing.TB, baseURL string) http.Handler {
	tb.Helper()
	r, err := New(baseURL)
	if err != nil {
		tb.Fatal(err)
	}
	mux := chi.NewMux()
	mux.Method(http.MethodGet, "/openapi.yaml", r.OpenAPIYAML())
	mux.Method(http.MethodGet, "/openapi.json", r.OpenAPIJSON())
	mux.Method(http.MethodGet, "/docs", r.Docs())
	mux.Method(http.MethodGet, "/problems/{code}", r.Problem())
	mux.Method(http.MethodHead, "/docs", r.Docs())
	mux.Method(http.MethodGet, "/docs/{page}", r.Guide())
	return mux
}

// response is what came back.
type response struct {
	StatusCode int
	Header     http.Header
	Body       string
}

func get(tb testing.TB, h http.Handler, path string, header ...string) response {
	tb.Helper()
	req := httptest.NewRequestWithContext(tb.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return response{w.Code, w.Header(), w.Body.String()}
}

func TestTheYAMLIsTheDocumentWithTheAddressOfTheService(t *testing.T) {
	t.Parallel()
	if strings.Count(string(apispec.YAML()), apispec.PlaceholderURL) < 20 {
		t.Error("the document does not name the service's address where it should")
	}
	resp := get(t, server(t, base), "/openapi.yaml")
	want := strings.ReplaceAll(string(apispec.YAML()), apispec.PlaceholderURL, base)
	if got := resp.Body; got != want {
		t.Errorf("the document differs:\n%s", cmp.Diff(got, want))
	}
	if got := resp.Header.Get("Content-Type"); got != "application/yaml" {
		t.Errorf("Content-Type %q", got)
	}
}

func TestTheJSONSaysWhatTheYAMLSaysInTheSameOrder(t *testing.T) {
	t.Parallel()
	for _, baseURL := range []string{base, "http://127.0.0.1:8080", "http://[::1]:8080", "https://example.com/onceward", ""} {
		h := server(t, baseURL)
		var fromYAML, fromJSON yaml.Node
		if err := yaml.Unmarshal([]byte(get(t, h, "/openapi.yaml").Body), &fromYAML); err != nil {
			t.Fatalf("%q: %v", baseURL, err)
		}
		asJSON := get(t, h, "/openapi.json").Body
		if !json.Valid([]byte(asJSON)) {
			t.Fatalf("%q: not JSON", baseURL)
		}
		if err := yaml.Unmarshal([]byte(asJSON), &fromJSON); err != nil { // JSON is YAML
			t.Fatalf("%q: %v", baseURL, err)
		}
		if diff := cmp.Diff(flat(&fromJSON), flat(&fromYAML)); diff != "" {
			t.Errorf("%q (-JSON +YAML):\n%s", baseURL, diff)
		}
		server := own(items(own(fromJSON.Content[0], "servers"))[0], "url").Value
		want := baseURL
		if want == "" {
			want = "/"
		}
		if server != want {
			t.Errorf("the server of %q is %q", baseURL, server)
		}
		if strings.Contains(asJSON, "onceward.example") {
			t.Errorf("%q: the placeholder is left", baseURL)
		}
	}
}

// flat is every scalar of a document with its type, in order.
func flat(n *yaml.Node) (list []string) {
	if n.Kind == yaml.ScalarNode {
		return []string{n.ShortTag() + " " + n.Value}
	}
	for _, child := range n.Content {
		list = append(list, flat(child)...)
	}
	return list
}

func TestNewRefusesAnAddressThatIsNone(t *testing.T) {
	t.Parallel()
	for _, baseURL := range []string{
		"api.example.com", "ftp://example.com", "https://", "https:///docs", "https://example.com/", "https://example.com?a=b",
		"https://user@example.com", "https://example.com/\nx: y", "https://example.com/<script>", "https://example.com/a b", `https://exa"mple.com`,
		"https://example.com #x", "http://[::1",
	} {
		if _, err := New(baseURL); err == nil {
			t.Errorf("%q is taken", baseURL)
		}
	}
}

func TestEveryPageMayBeKeptForFiveMinutesAndIsAskedForAgainByItsETag(t *testing.T) {
	t.Parallel()
	h := server(t, base)
	for _, path := range []string{"/openapi.yaml", "/openapi.json", "/docs", "/problems/in_progress"} {
		first := get(t, h, path)
		etag := first.Header.Get("ETag")
		if first.StatusCode != http.StatusOK || first.Header.Get("Cache-Control") != "max-age=300" || etag == "" || first.Body == "" {
			t.Errorf("%s: %d %v", path, first.StatusCode, first.Header)
		}
		for _, sent := range []string{etag, "W/" + etag, `"other", ` + etag, "*"} {
			again := get(t, h, path, "If-None-Match", sent)
			if again.StatusCode != http.StatusNotModified || again.Body != "" || again.Header.Get("ETag") != etag || again.Header.Get("Content-Type") != "" {
				t.Errorf("%s with If-None-Match %s: %d %v", path, sent, again.StatusCode, again.Header)
			}
		}
		if changed := get(t, h, path, "If-None-Match", `"other"`); changed.StatusCode != http.StatusOK {
			t.Errorf("%s with another etag: %d", path, changed.StatusCode)
		}
	}
}

func TestThePagesAreTheSameInEveryProcess(t *testing.T) {
	t.Parallel()
	one, two := server(t, base), server(t, base)
	for _, path := range []string{"/openapi.yaml", "/openapi.json", "/docs", "/problems/lease_lost"} {
		if a, b := get(t, one, path).Header.Get("ETag"), get(t, two, path).Header.Get("ETag"); a != b {
			t.Errorf("%s: %s and %s", path, a, b)
		}
	}
	if get(t, one, "/docs").Header.Get("ETag") == get(t, server(t, "https://other.example.com"), "/docs").Header.Get("ETag") {
		t.Error("the page of another address has the same ETag")
	}
}

// The policy allows one style and nothing else, so the style must be the one
// whose digest it names, and nothing on the page may need more.
func TestEveryHTMLPageKeepsToItsPolicy(t *testing.T) {
	t.Parallel()
	h := server(t, base)
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	forbidden := regexp.MustCompile(`(?i)<script|<img|<link|<iframe|<form|\sstyle=|\son[a-z]+=|javascript:|<!--`)
	for _, path := range []string{"/docs", "/problems/in_progress", "/problems/unknown_code"} {
		resp := get(t, h, path)
		body := resp.Body
		styles := style.FindAllStringSubmatch(body, -1)
		if len(styles) != 1 {
			t.Fatalf("%s has %d styles", path, len(styles))
		}
		if got, want := resp.Header.Get("Content-Security-Policy"), stylePolicy(styles[0][1]); got != want {
			t.Errorf("%s: policy %q, want %q", path, got, want)
		}
		if found := forbidden.FindString(body); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		if resp.Header.Get("X-Content-Type-Options") != "nosniff" || resp.Header.Get("Referrer-Policy") != "no-referrer" || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
}

func TestHeadGetsTheHeadersOfAPage(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(server(t, base))
	t.Cleanup(srv.Close)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, srv.URL+"/docs", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(body) > 0 || resp.ContentLength < 10_000 || resp.Header.Get("ETag") == "" {
		t.Errorf("%d bytes, Content-Length %d, %v", len(body), resp.ContentLength, resp.Header)
	}
}

func TestEveryProblemHasAPageThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	h := server(t, base)
	for _, entry := range problem.Table() {
		resp := get(t, h, problem.PagePath+string(entry.Kind))
		body := resp.Body
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", entry.Kind, resp.StatusCode)
		}
		a := adviceFor(entry.Kind)
		if a.Run == "" || a.Repeat == "" || len(a.Steps) == 0 {
			t.Errorf("%s has no advice", entry.Kind)
		}
		for _, want := range append([]string{string(entry.Kind), entry.Title, entry.Meaning, a.Run, a.Repeat}, a.Steps...) {
			if !strings.Contains(unescaped(body), want) {
				t.Errorf("the page of %s does not say %q", entry.Kind, want)
			}
		}
	}
	if got, want := len(adviceTable), len(problem.Table()); got != want {
		t.Errorf("advice for %d codes, the table has %d", got, want)
	}
}

func unescaped(html string) string {
	return strings.NewReplacer("&#39;", "'", "&#34;", `"`, "&amp;", "&", "&lt;", "<", "&gt;", ">").Replace(html)
}

func TestTheProblemPageNamesTheCallsThatAnswerWithIt(t *testing.T) {
	t.Parallel()
	h := server(t, base)
	for path, want := range map[string][]string{
		"/problems/in_progress":        {"#op-begin", "#op-beginBatch"},
		"/problems/lease_lost":         {"#op-complete", "#op-renew", "#op-release", "#op-declareUnknown", "#op-setRecoveryPoint", "#op-completeBatch"},
		"/problems/name_taken":         {"#op-issueCredential", "#op-revokeCredential", "#op-createNamespace", "#op-renameNamespace"},
		"/problems/method_not_allowed": nil,
	} {
		var got []string
		for _, found := range regexp.MustCompile(`docs(#op-\w+)`).FindAllStringSubmatch(get(t, h, path).Body, -1) {
			got = append(got, found[1])
		}
		less := func(a, b string) bool { return a < b }
		if diff := cmp.Diff(got, want, sortStrings(less)); diff != "" {
			t.Errorf("%s (-got +want):\n%s", path, diff)
		}
	}
}

func TestAnUnknownProblemIs404WithTheListOfThoseThereAre(t *testing.T) {
	t.Parallel()
	h := server(t, base)
	for _, path := range []string{"/problems/unknown_code", "/problems/IN_PROGRESS", "/problems/in_progress%20", "/problems/%3Cscript%3E"} {
		resp := get(t, h, path)
		body := resp.Body
		if resp.StatusCode != http.StatusNotFound || resp.Header.Get("ETag") != "" || !strings.Contains(body, "in_progress") {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
		if again := get(t, h, path, "If-None-Match", "*"); again.StatusCode != http.StatusNotFound {
			t.Errorf("%s with If-None-Match: %d", path, again.StatusCode)
		}
	}
}
