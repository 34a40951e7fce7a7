package api_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/web"
)

const ownPage = "Onceward-Dashboard: 1"

// visitor is a browser that keeps one cookie by hand, so that a test can send
// it from wherever it wants.
type visitor struct {
	*apitest.Client
	url    string
	cookie string
}

func visit(i *apitest.Instance) *visitor { return &visitor{i.Client(""), i.URL, ""} }

// call is one that the page would make.
func (v *visitor) call(t *testing.T, method, path string, body any, headers ...string) *apitest.Answer {
	t.Helper()
	headers = append([]string{ownPage, "Origin: " + v.url}, headers...)
	if v.cookie != "" {
		headers = append(headers, "Cookie: "+v.cookie)
	}
	return v.Do(t, method, path, body, headers...)
}

func (v *visitor) signIn(t *testing.T, key string) {
	t.Helper()
	v.keep(t, v.call(t, http.MethodPost, "/dashboard/session", apitest.Object{"credential": key}).Expect(t, 200))
}

func (v *visitor) keep(t *testing.T, a *apitest.Answer) {
	t.Helper()
	cookie, attributes, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	if attributes != " Path=/; Max-Age=43200; HttpOnly; SameSite=Strict" {
		t.Errorf("the cookie is set with %q", attributes)
	}
	v.cookie = cookie
}

// reads says whether the session still opens the API.
func (v *visitor) reads(t *testing.T) bool {
	t.Helper()
	return v.call(t, http.MethodGet, "/v1/policy", nil).Status == http.StatusOK
}

func TestASessionOpensTheAPIForOurOwnPageAlone(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	v := visit(w.Instance)
	v.signIn(t, w.Tenant.Admin)
	cookie := "Cookie: " + v.cookie
	own := "Origin: " + w.URL
	for name, headers := range map[string][]string{
		"from our page":                       {cookie, ownPage, own},
		"a GET, to which browsers add a site": {cookie, ownPage, "Sec-Fetch-Site: same-origin"},
	} {
		if a := w.Client("").Do(t, http.MethodGet, "/v1/policy", nil, headers...); a.Status != 200 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	for name, headers := range map[string][]string{
		"without the header":              {cookie, own},
		"with another value in it":        {cookie, "Onceward-Dashboard: 2", own},
		"from another origin":             {cookie, ownPage, "Origin: https://evil.example"},
		"from another port":               {cookie, ownPage, "Origin: http://127.0.0.1:1"},
		"from an origin that is none":     {cookie, ownPage, "Origin: null"},
		"from two origins":                {cookie, ownPage, own, own},
		"without an origin":               {cookie, ownPage},
		"from another site":               {cookie, ownPage, "Sec-Fetch-Site: cross-site"},
		"from another host of our domain": {cookie, ownPage, "Sec-Fetch-Site: same-site"},
	} {
		if a := w.Client("").Do(t, http.MethodGet, "/v1/policy", nil, headers...); a.Status != 403 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	// A call that changes something needs the Origin itself.
	w.Client("").Do(t, http.MethodPost, "/v1/namespaces", apitest.Object{"name": "new"}, cookie, ownPage, "Sec-Fetch-Site: same-origin").Problem(t, 403, "forbidden")
	// A credential decides alone where there is one.
	w.Client(w.Tenant.Service).Do(t, http.MethodGet, "/v1/policy", nil, cookie, ownPage, own).Problem(t, 403, "forbidden")
	// The operator's listener knows no sessions.
	w.OperatorClient().Do(t, http.MethodGet, "/v1/admin/tenants", nil, cookie, ownPage, own).Problem(t, 401, "unauthenticated")
	// Two cookies of the name: which one is meant cannot be told.
	w.Client("").Do(t, http.MethodGet, "/v1/policy", nil, cookie+"; "+v.cookie, ownPage, own).Problem(t, 401, "unauthenticated")
}

func TestNoAnswerEverHasACORSHeader(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for _, path := range []string{"/dashboard", "/dashboard/session", "/v1/policy", "/openapi.json"} {
		for _, method := range []string{http.MethodGet, http.MethodOptions, http.MethodPost} {
			a := w.Client(w.Tenant.Ops).Do(t, method, path, nil, "Origin: https://evil.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: onceward-dashboard")
			for name := range a.Header {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("%s %s has %s", method, path, name)
				}
			}
		}
	}
}

func TestSigningIn(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	session := func(t *testing.T, body any) *apitest.Answer {
		t.Helper()
		return visit(w.Instance).call(t, http.MethodPost, "/dashboard/session", body)
	}
	t.Run("200 for ops, resolver and admin", func(t *testing.T) {
		t.Parallel()
		for role, key := range map[string]string{"ops": w.Tenant.Ops, "resolver": w.Tenant.Resolver, "admin": w.Tenant.Admin} {
			var s struct {
				Role   string `json:"role"`
				Tenant struct {
					Name string `json:"name"`
				} `json:"tenant"`
			}
			a := session(t, apitest.Object{"credential": " " + key + "\n"}).Expect(t, 200)
			loosely(t, a, &s)
			if s.Role != role || s.Tenant.Name == "" || strings.Contains(string(a.Body)+a.Header.Get("Set-Cookie"), key) {
				t.Errorf("%s: %+v", role, s)
			}
		}
	})
	t.Run("403 for service, which is told what it may not", func(t *testing.T) {
		t.Parallel()
		a := session(t, apitest.Object{"credential": w.Tenant.Service})
		p := a.Problem(t, 403, "forbidden")
		if !strings.Contains(p.Detail, "neither analytics, policy nor other credentials") || a.Header.Get("Set-Cookie") != "" {
			t.Errorf("%q, %q", p.Detail, a.Header.Get("Set-Cookie"))
		}
	})
	t.Run("401 for what is no credential", func(t *testing.T) {
		t.Parallel()
		session(t, apitest.Object{"credential": "owk_nobody"}).Problem(t, 401, "unauthenticated")
		session(t, apitest.Object{"link": "nothing"}).Problem(t, 401, "unauthenticated")
	})
	t.Run("401 for a token, which is no key", func(t *testing.T) {
		t.Parallel()
		var token struct {
			Token string `json:"token"`
		}
		loosely(t, w.Client(w.Tenant.Admin).Do(t, http.MethodPost, "/v1/auth/token", nil).Expect(t, 200), &token)
		session(t, apitest.Object{"credential": token.Token}).Problem(t, 401, "unauthenticated")
	})
	t.Run("400 and 413 for another body", func(t *testing.T) {
		t.Parallel()
		session(t, apitest.Object{}).Problem(t, 400, "invalid_request")
		session(t, apitest.Object{"credential": w.Tenant.Ops, "link": "x"}).Problem(t, 400, "invalid_request")
		session(t, apitest.Object{"credential": strings.Repeat("x", 5000)}).Problem(t, 413, "request_too_large")
	})
	t.Run("403 from another page", func(t *testing.T) {
		t.Parallel()
		w.Client("").Do(t, http.MethodPost, "/dashboard/session", apitest.Object{"credential": w.Tenant.Ops}, ownPage, "Origin: https://evil.example").Problem(t, 403, "forbidden")
	})
}

func TestASessionEnds(t *testing.T) {
	t.Parallel()
	// Each way to end it moves the row in the database; what a process knows of
	// it is at most 4 s old.
	ends := map[string]func(t *testing.T, w *apitest.World, v *visitor){
		"by signing out": func(t *testing.T, _ *apitest.World, v *visitor) {
			t.Helper()
			cookie := v.cookie
			if a := v.call(t, http.MethodDelete, "/dashboard/session", nil).Expect(t, 204); !strings.Contains(a.Header.Get("Set-Cookie"), "Max-Age=0") {
				t.Errorf("the cookie stays: %q", a.Header.Get("Set-Cookie"))
			}
			v.cookie = cookie // a copy of it is worth nothing
		},
		"by revoking its credential": func(t *testing.T, w *apitest.World, v *visitor) {
			t.Helper()
			w.Issue(t, w.Tenant, auth.IssueParams{Name: "another admin", Role: auth.RoleAdmin})
			key, err := auth.ParseKey(w.Tenant.Admin)
			if err != nil {
				t.Fatal(err)
			}
			v.call(t, http.MethodDelete, "/v1/credentials/"+key.ID().String(), nil).Expect(t, 204)
		},
		"by suspending its tenant": func(t *testing.T, w *apitest.World, _ *visitor) {
			t.Helper()
			w.Operator().Do(t, http.MethodPatch, "/v1/admin/tenants/"+w.Tenant.ID.String(), apitest.Object{"state": "suspended", "reason": "unpaid bills"}).Expect(t, 200)
		},
		"by an idle hour": func(t *testing.T, w *apitest.World, _ *visitor) {
			t.Helper()
			exec(t, w, "update dashboard_sessions set last_used_at = now() - interval '1 hour'")
		},
		"by twelve hours, however much it is used": func(t *testing.T, w *apitest.World, _ *visitor) {
			t.Helper()
			exec(t, w, "update dashboard_sessions set created_at = now() - interval '12 hours'")
		},
		"by another sign-in from the same browser": func(t *testing.T, w *apitest.World, v *visitor) {
			t.Helper()
			cookie := v.cookie
			v.signIn(t, w.Tenant.Ops)
			if !v.reads(t) {
				t.Error("the new session does not open the API")
			}
			v.cookie = cookie
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := apitest.New(t)
			v := visit(w.Instance)
			v.signIn(t, w.Tenant.Admin)
			if !v.reads(t) {
				t.Fatal("the session does not open the API")
			}
			end(t, w, v)
			eventually(t, "the session opens nothing", func() bool { return !v.reads(t) })
			if a := v.call(t, http.MethodGet, "/dashboard/session", nil); a.Status == 200 {
				t.Errorf("the page still believes in its session: %s", a.Body)
			}
		})
	}
}

func TestUsingAPageRenewsItsSession(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	v := visit(w.Instance)
	v.signIn(t, w.Tenant.Ops)
	exec(t, w, "update dashboard_sessions set last_used_at = now() - interval '59 minutes', created_at = now() - interval '2 hours'")
	var s struct {
		EndsAt     time.Time `json:"ends_at"`
		LastsUntil time.Time `json:"lasts_until"`
	}
	loosely(t, v.call(t, http.MethodPatch, "/dashboard/session", nil).Expect(t, 200), &s)
	if left := time.Until(s.EndsAt); left < 59*time.Minute || left > time.Hour {
		t.Errorf("a renewed session ends in %v, want an hour", left)
	}
	if left := time.Until(s.LastsUntil); left < 9*time.Hour+59*time.Minute || left > 10*time.Hour {
		t.Errorf("it lasts %v at most, want what is left of twelve hours", left)
	}
	// Reading, as an open page does by itself, renews nothing.
	exec(t, w, "update dashboard_sessions set last_used_at = now() - interval '30 minutes'")
	v.reads(t)
	var idle float64
	if err := w.Pool.QueryRow(t.Context(), "select extract(epoch from now() - last_used_at)::float8 from dashboard_sessions").Scan(&idle); err != nil || idle < 1790 {
		t.Errorf("idle for %v s, %v: reading counted as use", idle, err)
	}
}

func TestWhatNeedsTheKeyNeedsItWithinTenMinutes(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	v := visit(w.Instance)
	v.signIn(t, w.Tenant.Admin)
	issue := func(name string) *apitest.Answer {
		return v.call(t, http.MethodPost, "/v1/credentials", apitest.Object{"name": name, "role": "ops"})
	}
	issue("at once").Expect(t, 201)
	exec(t, w, "update dashboard_sessions set presented_at = now() - interval '10 minutes'")
	eventually(t, "the key has to be presented again", func() bool { return issue("later").Status == 403 })
	issue("much later").Problem(t, 403, "reauthenticate")
	v.signIn(t, w.Tenant.Admin)
	issue("presented again").Expect(t, 201)
}

func TestALinkSignsInOnce(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	sessions, err := auth.NewSessions(w.Pool)
	if err != nil {
		t.Fatal(err)
	}
	key, err := auth.ParseKey(w.Tenant.Admin)
	if err != nil {
		t.Fatal(err)
	}
	newLink := func() string {
		link, err := sessions.NewLink(t.Context(), w.Tenant.ID, key.ID())
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	link := newLink()
	v := visit(w.Instance)
	v.keep(t, v.call(t, http.MethodPost, "/dashboard/session", apitest.Object{"link": link}).Expect(t, 200))
	if !v.reads(t) {
		t.Error("the link's session does not open the API")
	}
	v.call(t, http.MethodPost, "/v1/credentials", apitest.Object{"name": "x", "role": "ops"}).Problem(t, 403, "reauthenticate")
	visit(w.Instance).call(t, http.MethodPost, "/dashboard/session", apitest.Object{"link": link}).Problem(t, 401, "unauthenticated")

	old := newLink()
	exec(t, w, "update dashboard_links set expires_at = now()")
	visit(w.Instance).call(t, http.MethodPost, "/dashboard/session", apitest.Object{"link": old}).Problem(t, 401, "unauthenticated")

	// Another tenant's name before the secret finds nothing.
	other := w.NewTenant(t)
	mine := newLink()
	foreign, err := sessions.NewLink(t.Context(), other.ID, mustID(t, other.Admin))
	if err != nil {
		t.Fatal(err)
	}
	visit(w.Instance).call(t, http.MethodPost, "/dashboard/session", apitest.Object{"link": foreign[:20] + mine[20:]}).Problem(t, 401, "unauthenticated")
}

func TestSignInsAreInTheAuditTrail(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	v := visit(w.Instance)
	v.signIn(t, w.Tenant.Ops)
	v.call(t, http.MethodDelete, "/dashboard/session", nil).Expect(t, 204)
	v.call(t, http.MethodPost, "/dashboard/session", apitest.Object{"credential": w.Tenant.Service}).Expect(t, 403)
	for _, action := range []string{"session.start", "session.end", "session.refuse"} {
		var trail struct {
			Items []struct {
				Actor struct {
					Role string `json:"role"`
				} `json:"actor"`
			} `json:"items"`
		}
		loosely(t, w.Client(w.Tenant.Admin).Do(t, http.MethodGet, "/v1/audit?action="+action, nil).Expect(t, 200), &trail)
		if len(trail.Items) != 1 || trail.Items[0].Actor.Role == "" {
			t.Errorf("%s: %+v, want one entry with who it was", action, trail.Items)
		}
	}
}

func TestTheDashboardsFilesAreStrictAndSmall(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	a := w.Client("").Do(t, http.MethodGet, "/dashboard/operations", nil, "Accept-Encoding: gzip")
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	policy := a.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy %q lacks %q, or allows what is unsafe", policy, part)
		}
	}
	if _, built := web.Dist(); !built {
		return // TestWithoutABuildTheDashboardSaysHowToMakeOne has the rest
	}
	page := unzipped(t, a)
	total, rest := len(a.Body), page
	for {
		var path string
		_, after, found := strings.Cut(rest, `"/dashboard/assets/`)
		if !found {
			break
		}
		path, rest, _ = strings.Cut(after, `"`)
		file := w.Client("").Do(t, http.MethodGet, "/dashboard/assets/"+path, nil, "Accept-Encoding: gzip").Expect(t, 200)
		if got := file.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
			t.Errorf("%s: Cache-Control %q", path, got)
		}
		plain := w.Client("").Do(t, http.MethodGet, "/dashboard/assets/"+path, nil, "Accept-Encoding: gzip;q=0").Expect(t, 200)
		if string(plain.Body) != unzipped(t, file) {
			t.Errorf("%s is another file when it is compressed", path)
		}
		total += len(file.Body)
	}
	if total < 10_000 || total > 150_000 {
		t.Errorf("the first view is %d bytes, want at most 150,000", total)
	}
	if strings.Contains(page, "<style") || strings.Contains(strings.ReplaceAll(page, "<script type=\"module\" crossorigin src=", ""), "<script") {
		t.Errorf("the page has script or style of its own:\n%s", page)
	}
	w.Client("").Do(t, http.MethodGet, "/dashboard/assets/nothing.js", nil).Problem(t, 404, "not_found")
}

// loosely reads a part of an answer.
func loosely(t *testing.T, a *apitest.Answer, into any) {
	t.Helper()
	if err := json.Unmarshal(a.Body, into); err != nil {
		t.Fatalf("%v: %s", err, a.Body)
	}
}

func unzipped(t *testing.T, a *apitest.Answer) string {
	t.Helper()
	if a.Header.Get("Content-Encoding") != "gzip" {
		return string(a.Body)
	}
	r, err := gzip.NewReader(strings.NewReader(string(a.Body)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func mustID(t *testing.T, key string) auth.CredentialID {
	t.Helper()
	parsed, err := auth.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.ID()
}
