package api_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
)

// calls is every call of the API with a body that its checks let pass.
var calls = []struct { //nolint:gochecknoglobals // a table of tests
	method, path string
	body         any
	held         bool // needs Onceward-Lease
}{
	{http.MethodPost, "/v1/keys", apitest.Charge("12345678"), false},
	{http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{apitest.Charge("12345678")}}, false},
	{http.MethodPost, "/v1/responses/batch", apitest.Object{"responses": []any{apitest.Object{}}}, false},
	{http.MethodGet, "/v1/contract", nil, false},
	{http.MethodGet, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA", nil, false},
	{http.MethodPut, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/response", apitest.Object{"status": 200}, true},
	{http.MethodPatch, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/lease", apitest.Object{}, true},
	{http.MethodDelete, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/lease", nil, true},
	{http.MethodPost, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/unknown", nil, true},
	{http.MethodPut, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/recovery-point", apitest.Object{"name": "a", "data": 1}, true},
}

const aToken = "Onceward-Lease: AAZhbaA6LwBkq9ZJ3mVxT0uC1fYpW8sE"

func TestTheTableOfCallsIsWhole(t *testing.T) {
	t.Parallel()
	var got, want []string
	for _, c := range calls {
		got = append(got, c.method+" "+strings.ReplaceAll(c.path, "AAAAAAAAAAAAAAAAAAAAAA", "{id}"))
	}
	for _, r := range api.Routes() {
		if r.Roles != nil && !r.Admin {
			want = append(want, r.Method+" "+r.Pattern)
		}
	}
	less := func(a, b string) bool { return a < b }
	if diff := cmp.Diff(got, want, cmpSorted(less)); diff != "" {
		t.Errorf("calls (-tested +table):\n%s", diff)
	}
}

func Test401WithoutAValidCredentialOnEveryCall(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for _, c := range calls {
		for name, headers := range map[string][]string{
			"no header":          {"Authorization:"},
			"a bearer of spaces": {"Authorization: Bearer   "},
			"another scheme":     {"Authorization: Basic YTpi"},
			"two headers":        {"Authorization: Bearer " + w.Tenant.Service, "Authorization: Bearer " + w.Tenant.Service},
			"two tokens":         {"Authorization: Bearer " + w.Tenant.Service + " " + w.Tenant.Service},
			"a wrong secret":     {"Authorization: Bearer " + w.Tenant.Service[:len(w.Tenant.Service)-1] + "!"},
			"no key at all":      {"Authorization: Bearer abc"},
		} {
			t.Run(c.method+" "+c.path+" with "+name, func(t *testing.T) {
				t.Parallel()
				// Everything that comes later in the order of checks is wrong too.
				a := w.Client("").Do(t, c.method, c.path+"?nosuch=1", "{{{", append(headers, "Content-Type: text/plain", "Content-Encoding: gzip")...)
				a.Problem(t, 401, "unauthenticated")
				if got := a.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer") {
					t.Errorf("WWW-Authenticate %q, want a Bearer challenge", got)
				}
				checkCommonHeaders(t, a)
			})
		}
	}
}

func TestTheSchemeIsReadInAnyLetterCase(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for _, scheme := range []string{"bearer", "BEARER", "bEaReR"} {
		w.Client("").Do(t, http.MethodGet, "/v1/contract", nil, "Authorization: "+scheme+" "+w.Tenant.Service).Expect(t, 200)
	}
}

func checkCommonHeaders(t *testing.T, a *apitest.Answer) {
	t.Helper()
	if got := a.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q, want no-store", got)
	}
	if got := a.Header.Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options %q, want nosniff", got)
	}
	id := a.Header.Get("Request-Id")
	if id == "" {
		t.Error("there is no Request-Id")
	}
	if a.Header.Get("Content-Type") == "application/problem+json" {
		var p apitest.Problem
		a.Decode(t, &p)
		if p.RequestID != id {
			t.Errorf("request_id %q, want that of the header, %q", p.RequestID, id)
		}
	}
}

func Test404And405ComeBeforeTheCredential(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	tests := map[string]struct {
		method, path string
		allow        string // empty: 404
	}{
		"nothing there":                 {"GET", "/v1/nothing", ""},
		"the root":                      {"GET", "/", ""},
		"a slash too many":              {"POST", "/v1/keys/", ""},
		"two slashes":                   {"POST", "//v1/keys", ""},
		"an escape that is none":        {"POST", "/v1/ke%79s", ""},
		"a method that nobody knows":    {"BREW", "/v1/nothing", ""},
		"begin by GET":                  {"GET", "/v1/keys", "POST"},
		"begin by OPTIONS":              {"OPTIONS", "/v1/keys", "POST"},
		"begin by a method of no one":   {"BREW", "/v1/keys", "POST"},
		"a record by POST":              {"POST", "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA", "GET, HEAD"},
		"a record by a method's kin":    {"get", "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA", "GET, HEAD"},
		"a lease by PUT":                {"PUT", "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/lease", "DELETE, PATCH"},
		"a batch by DELETE":             {"DELETE", "/v1/keys/batch", "GET, HEAD, POST"},
		"the metrics, from outside":     {"GET", "/metrics", ""},
		"the contract by PUT":           {"PUT", "/v1/contract", "GET, HEAD"},
		"health by POST":                {"POST", "/healthz", "GET, HEAD"},
		"an encoded slash in a pattern": {"GET", "/v1/keys/a%2Fb/lease", "DELETE, PATCH"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.Client("").Do(t, tt.method, tt.path, nil)
			if tt.allow == "" {
				a.Problem(t, 404, "not_found")
			} else {
				a.Problem(t, 405, "method_not_allowed")
			}
			if got := a.Header.Get("Allow"); got != tt.allow {
				t.Errorf("Allow %q, want %q", got, tt.allow)
			}
			checkCommonHeaders(t, a)
		})
	}
}

func TestHEADIsAnsweredLikeGETWithoutABody(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	get := c.Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	head := c.Do(t, http.MethodHead, "/v1/contract", nil).Expect(t, 200)
	if len(head.Body) != 0 {
		t.Errorf("HEAD has a body of %d bytes", len(head.Body))
	}
	if got, want := head.Header.Get("Content-Length"), get.Header.Get("Content-Length"); got != want {
		t.Errorf("Content-Length %s, want that of GET, %s", got, want)
	}
}

// Each role on each call: what is not allowed is 403 and names both roles,
// whatever else is wrong with the request.
func Test403ForEveryRoleThatACallIsNotFor(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	tokens := map[string]string{"service": w.Tenant.Service, "ops": w.Tenant.Ops, "resolver": w.Tenant.Resolver, "admin": w.Tenant.Admin}
	for _, c := range calls {
		for role, token := range tokens {
			t.Run(c.method+" "+c.path+" as "+role, func(t *testing.T) {
				t.Parallel()
				everybody := c.method == http.MethodGet && strings.HasPrefix(c.path, "/v1/keys/")
				a := w.Client(token).Do(t, c.method, c.path+"?nosuch=1", "{{{", "Content-Type: text/plain")
				if role == "service" || everybody {
					if a.Status == 403 || a.Status == 401 {
						t.Fatalf("status %d for a role that the call is for: %s", a.Status, a.Body)
					}
					return
				}
				p := a.Problem(t, 403, "forbidden")
				if !strings.Contains(p.Detail, "role service") || !strings.Contains(p.Detail, "role "+role) {
					t.Errorf("detail %q does not name the role needed and the role held", p.Detail)
				}
			})
		}
	}
}

func Test403ForASuspendedTenantButNotOnWhatItHolds(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	released := acquire(t, c, newKey(t))
	unknown := acquire(t, c, newKey(t))

	if err := w.Tenants.Suspend(t.Context(), w.Tenant.ID, "the invoice is unpaid"); err != nil {
		t.Fatal(err)
	}
	other := w.Start(t) // has never seen the tenant active
	c = other.Client(w.Tenant.Service)
	p := c.Begin(t, apitest.Charge(newKey(t))).Problem(t, 403, "suspended")
	if !strings.Contains(p.Detail, "the invoice is unpaid") {
		t.Errorf("detail %q does not give the reason", p.Detail)
	}
	// The suspension comes before the role.
	other.Client(w.Tenant.Admin).Begin(t, apitest.Charge(newKey(t))).Problem(t, 403, "suspended")
	c.Do(t, http.MethodGet, "/v1/contract", nil).Problem(t, 403, "suspended")
	c.Inspect(t, held.ID, "").Problem(t, 403, "suspended")
	c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{apitest.Charge(newKey(t))}}).Problem(t, 403, "suspended")

	c.Renew(t, held, nil).Expect(t, 200)
	c.SetRecoveryPoint(t, held, apitest.Object{"name": "half", "data": nil}).Expect(t, 204)
	c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
	c.Release(t, released).Expect(t, 204)
	c.DeclareUnknown(t, unknown).Expect(t, 204)
	results := c.Do(t, http.MethodPost, "/v1/responses/batch", apitest.Object{"responses": []any{
		apitest.Object{"id": held.ID, "lease_token": held.Lease.Token, "status": 200},
	}}).Results(t)
	if results[0].Status != 200 {
		t.Errorf("batch completion of a suspended tenant: status %d, want 200: %s", results[0].Status, results[0].Body)
	}
	other.Client(w.Tenant.Ops).Renew(t, held, nil).Problem(t, 403, "forbidden")
}

func Test415BeforeTheSizeAndTheJSON(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BodyLimit(10))
	c := w.Client(w.Tenant.Service)
	tooLarge := strings.Repeat("[", 200_000)
	for _, call := range calls {
		if call.body == nil {
			continue
		}
		for name, header := range map[string]string{
			"no type":             "Content-Type:",
			"another type":        "Content-Type: text/plain",
			"a form":              "Content-Type: application/x-www-form-urlencoded",
			"JSON in Latin-1":     "Content-Type: application/json; charset=latin1",
			"an encoding":         "Content-Encoding: gzip",
			"an encoding of none": "Content-Encoding: identity",
		} {
			t.Run(call.method+" "+call.path+" with "+name, func(t *testing.T) {
				t.Parallel()
				a := c.Do(t, call.method, call.path+"?nosuch=1", tooLarge, header)
				checkCommonHeaders(t, a)
				a.Problem(t, 415, "unsupported_media_type")
			})
		}
	}
	t.Run("application/http is for completions only", func(t *testing.T) {
		t.Parallel()
		c.Begin(t, "HTTP/1.1 200 \r\n\r\n", "Content-Type: application/http").Problem(t, 415, "unsupported_media_type")
	})
	t.Run("an encoding is refused where there is no body to encode", func(t *testing.T) {
		t.Parallel()
		c.Do(t, http.MethodGet, "/v1/contract", nil, "Content-Encoding: gzip").Problem(t, 415, "unsupported_media_type")
	})
}

func TestCallsWithoutABodyIgnoreWhatIsSentWithThem(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	for _, body := range []string{"{{{", strings.Repeat("x", 4<<20)} {
		released, unknown := acquire(t, c, newKey(t)), acquire(t, c, newKey(t))
		c.Do(t, http.MethodDelete, "/v1/keys/"+released.ID+"/lease", body, "Content-Type: text/plain", "Onceward-Lease: "+released.Lease.Token).Expect(t, 204)
		c.Do(t, http.MethodPost, "/v1/keys/"+unknown.ID+"/unknown", body, "Content-Type: text/plain", "Onceward-Lease: "+unknown.Lease.Token).Expect(t, 204)
	}
}

// The limits of a call: exactly that many bytes are read, one more is 413,
// whether the length is announced or not, and before the JSON is looked at.
func Test413AtOneByteMoreThanACallMayHave(t *testing.T) {
	t.Parallel()
	const bodyLimit = 1000
	const jsonLimit, messageLimit, batchLimit = 6*bodyLimit + 64<<10, bodyLimit + 64<<10, 16 << 20
	w := apitest.New(t, apitest.BodyLimit(bodyLimit))
	c := w.Client(w.Tenant.Service)
	const response = "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/response"
	tests := map[string]struct {
		method, path, mediaType string
		limit                   int
	}{
		"begin":                  {"POST", "/v1/keys", "application/json", jsonLimit},
		"complete as JSON":       {"PUT", response, "application/json", jsonLimit},
		"complete as a message":  {"PUT", response, "application/http", messageLimit},
		"renew":                  {"PATCH", "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/lease", "application/json", jsonLimit},
		"recovery point":         {"PUT", "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/recovery-point", "application/json", jsonLimit},
		"a batch of begins":      {"POST", "/v1/keys/batch", "application/json", batchLimit},
		"a batch of completions": {"POST", "/v1/responses/batch", "application/json", batchLimit},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, announced := range []bool{true, false} {
				send := func(size int) *apitest.Answer {
					body := bytes.Repeat([]byte("]"), size)
					var reader io.Reader = bytes.NewReader(body)
					if !announced {
						reader = io.MultiReader(reader) // hides the length
					}
					req, err := http.NewRequestWithContext(t.Context(), tt.method, w.URL+tt.path, reader)
					if err != nil {
						t.Fatal(err)
					}
					req.Header = http.Header{"Authorization": {"Bearer " + w.Tenant.Service}, "Content-Type": {tt.mediaType}, "Onceward-Lease": {"x"}}
					a, err := c.Send(req, nil)
					if err != nil {
						t.Fatal(err)
					}
					return a
				}
				send(tt.limit).Problem(t, 400, "invalid_request")
				send(tt.limit+1).Problem(t, 413, "request_too_large")
			}
		})
	}
}

func TestAnUnknownQueryParameterIsNamed(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	for _, call := range calls {
		t.Run(call.method+" "+call.path, func(t *testing.T) {
			t.Parallel()
			// Before the JSON, which is wrong too where there is one.
			body := call.body
			if body != nil {
				body = "{{{"
			}
			p := c.Do(t, call.method, call.path+"?wait=5&b=%20", body, aToken).Problem(t, 400, "invalid_request")
			var named []string
			for _, e := range p.Errors {
				named = append(named, e.Parameter)
			}
			if diff := cmp.Diff(named, []string{"b", "wait"}); diff != "" {
				t.Errorf("parameters (-got +want):\n%s", diff)
			}
		})
	}
	t.Run("a value never comes back", func(t *testing.T) {
		t.Parallel()
		if a := c.Do(t, http.MethodGet, "/v1/contract?a=canary", nil); bytes.Contains(a.Body, []byte("canary")) {
			t.Errorf("the answer repeats the value: %s", a.Body)
		}
	})
	t.Run("what is no query string is refused", func(t *testing.T) {
		t.Parallel()
		c.Do(t, http.MethodGet, "/v1/contract?a=%zz", nil).Problem(t, 400, "invalid_request")
		c.Do(t, http.MethodGet, "/v1/contract?a;b", nil).Problem(t, 400, "invalid_request")
	})
	t.Run("nothing after the question mark is nothing", func(t *testing.T) {
		t.Parallel()
		c.Do(t, http.MethodGet, "/v1/contract?", nil).Expect(t, 200)
	})
}

func Test400WithoutTheLeaseHeaderBeforeTheRecordIsLookedFor(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	for _, call := range calls {
		if !call.held {
			continue
		}
		t.Run(call.method+" "+call.path, func(t *testing.T) {
			t.Parallel()
			for _, headers := range [][]string{nil, {aToken, aToken}} {
				p := c.Do(t, call.method, call.path, call.body, headers...).Problem(t, 400, "invalid_request")
				if len(p.Errors) != 1 || p.Errors[0].Parameter != "Onceward-Lease" {
					t.Errorf("errors %+v, want one that names the header", p.Errors)
				}
			}
			c.Do(t, call.method, call.path, call.body, aToken).Problem(t, 404, "not_found")
		})
	}
}

// B057: what kills a recursive parser is a 400 here, quickly, while another
// tenant is served.
func TestADepthBombIsA400(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	stranger := w.NewTenant(t)
	bomb := bytes.Repeat([]byte("["), 5<<20)
	bodies := map[string]struct {
		path string
		body []byte
	}{
		"begin":            {"/v1/keys", bomb},
		"a request's body": {"/v1/keys", append([]byte(`{"key":"12345678","request":{"body":`), bomb...)},
		"metadata":         {"/v1/keys", append([]byte(`{"key":"12345678","metadata":`), bomb...)},
		"batch":            {"/v1/keys/batch", append([]byte(`{"operations":`), bomb...)},
		"an entry":         {"/v1/keys/batch", append([]byte(`{"operations":[`), bomb...)},
	}
	for name, tt := range bodies { //nolint:paralleltest // one after the other: each is large
		t.Run(name, func(t *testing.T) {
			w.Client(w.Tenant.Service).Do(t, http.MethodPost, tt.path, tt.body).Problem(t, 400, "invalid_request")
			acquire(t, w.Client(stranger.Service), newKey(t))
		})
	}
	t.Run("compressed", func(t *testing.T) {
		t.Parallel()
		w.Client(w.Tenant.Service).Begin(t, bomb, "Content-Encoding: gzip").Problem(t, 415, "unsupported_media_type")
	})
}

func TestABodyThatIsCutOffIsA400(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	conn := dial(t, w.URL)
	conn.send(t, "POST /v1/keys HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+w.Tenant.Service+"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"key\"")
	conn.closeWrite(t)
	if got := conn.readAll(t); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, "before it was whole") {
		t.Errorf("answer %.300q, want 400 that says that the body was cut off", got)
	}
}
