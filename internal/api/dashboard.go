package api

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/web"
)

const (
	dashboardPath = "/dashboard"
	assetsPath    = dashboardPath + "/assets/"
)

// dashboardTable is the rows of the dashboard: its files, which are open to
// everybody, and the session of whoever is signed in. What it shows comes from
// the calls of /v1 and from nowhere else.
func dashboardTable() []route {
	return []route{
		{method: http.MethodGet, pattern: dashboardPath, listener: Public, page: dashboardFiles},
		{method: http.MethodGet, pattern: dashboardPath + "/*", listener: Public, page: dashboardFiles},
		{method: http.MethodGet, pattern: sessionPath, listener: Public, page: sessionPage(readSession)},
		{method: http.MethodPost, pattern: sessionPath, listener: Public, page: sessionPage(startSession)},
		{method: http.MethodPatch, pattern: sessionPath, listener: Public, page: sessionPage(renewSession)},
		{method: http.MethodDelete, pattern: sessionPath, listener: Public, page: sessionPage(endSession)},
	}
}

// contentSecurityPolicy lets the page load its own files and call its own
// service, and nothing else: no inline script, no frame around it.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const notBuilt = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Onceward dashboard: not built</title>
<h1>The dashboard is not built into this binary</h1>
<p>In the checkout, run <code>make build</code> (or <code>make run</code>), which needs Node 20.19 or newer with npm,
and start the API again. The API itself is not affected: its reference is at <a href="/docs">/docs</a>.</p>
</html>
`

// asset is one built file as it is sent.
type asset struct {
	contentType string
	plain       []byte
	gzipped     []byte // nil where it would not be smaller
}

// builtAssets reads and compresses the built files once for the process.
//
//nolint:gochecknoglobals // what is embedded is a constant that Go cannot declare
var builtAssets = sync.OnceValues(func() (map[string]asset, error) {
	files, ok := web.Dist()
	if !ok {
		return nil, nil //nolint:nilnil // no build is a value: there is a page for it
	}
	return readAssets(files)
})

func readAssets(files fs.FS) (map[string]asset, error) {
	assets := map[string]asset{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		plain, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		assets[name] = asset{contentTypeOf(name), plain, gzipped(plain)}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the dashboard's files: %w", err)
	}
	return assets, nil
}

// contentTypeOf does not ask the machine, whose table differs from the next.
func contentTypeOf(name string) string {
	types := map[string]string{
		".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".svg": "image/svg+xml", ".json": mediaJSON, ".map": mediaJSON,
	}
	if t, ok := types[path.Ext(name)]; ok {
		return t
	}
	return "application/octet-stream"
}

func gzipped(plain []byte) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil // only for a level that there is not
	}
	_, _ = w.Write(plain) // a buffer takes everything
	if w.Close() != nil || out.Len() >= len(plain) {
		return nil
	}
	return out.Bytes()
}

func dashboardFiles(*API) http.Handler {
	return serveAssets(builtAssets())
}

// serveAssets serves the built files; nil: none are built. Every address that is
// no file is the page itself, which reads the address and shows that view.
func serveAssets(assets map[string]asset, err error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(w)
		h := x.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		switch {
		case err != nil:
			x.fail(problem.Internal(err))
			return
		case assets == nil:
			x.write(http.StatusServiceUnavailable, "text/html; charset=utf-8", []byte(notBuilt))
			return
		}
		name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, dashboardPath), "/")
		file, ok := assets[name]
		switch {
		case strings.HasPrefix(r.URL.Path, assetsPath) && ok:
			// Its name holds a digest of what is in it.
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		case strings.HasPrefix(r.URL.Path, assetsPath):
			x.fail(problem.New(problem.NotFound, "The dashboard has no such file: it may be of another version. Load %s%s again.", x.api.baseURL, dashboardPath))
			return
		case !ok:
			file = assets["index.html"]
		}
		sendAsset(x, r, file)
	})
}

func sendAsset(x *exchange, r *http.Request, file asset) {
	x.Header().Set("Vary", "Accept-Encoding")
	body := file.plain
	if file.gzipped != nil && acceptsGzip(r.Header) {
		x.Header().Set("Content-Encoding", "gzip")
		body = file.gzipped
	}
	x.write(http.StatusOK, file.contentType, body)
}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3) as far as
// browsers write it: gzip is named, and not with a weight of zero.
func acceptsGzip(h http.Header) bool {
	for coding := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.ReplaceAll(weight, " ", "")
			return q != "q=0" && q != "q=0.0" && q != "q=0.00" && q != "q=0.000"
		}
	}
	return false
}
