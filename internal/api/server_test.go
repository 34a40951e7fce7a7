package api_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
)

// slow holds every completion until the test lets it go on.
type slow struct {
	api.Keys
	entered, proceed chan struct{}
}

func (s slow) Complete(ctx context.Context, caller auth.Caller, req keys.CompleteRequest) (keys.Completion, error) {
	s.entered <- struct{}{}
	<-s.proceed
	return s.Keys.Complete(ctx, caller, req)
}

// B101: at the end nothing is cut off. A running completion is answered and
// stored, a wait is answered at once, /readyz says no and why, and nobody new
// is let in.
func TestAShutdownAnswersWhatIsRunning(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{})
	s := slow{entered: make(chan struct{}), proceed: make(chan struct{})}
	w := apitest.New(t, apitest.WrapKeys(func(service api.Keys) api.Keys {
		s.Keys = watched{service, waits}
		return s
	}))
	c := w.Client(w.Tenant.Service)
	completedKey, waitedKey := newKey(t), newKey(t)
	held := acquire(t, c, completedKey)
	acquire(t, c, waitedKey)
	w.OperatorClient().Do(t, http.MethodGet, "/readyz", nil).Expect(t, 200)

	completed := make(chan *apitest.Answer, 1)
	go func() {
		a, _ := w.Client(w.Tenant.Service).Try(t.Context(), http.MethodPut, "/v1/keys/"+held.ID+"/response", apitest.Object{"status": 200}, "Onceward-Lease: "+held.Lease.Token)
		completed <- a
	}()
	<-s.entered
	waited := parked(t, t.Context(), w.Client(w.Tenant.Service), waitedKey)
	<-waits

	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop() }()
	if a := receive(t, waited); a.Status != 409 || a.Header.Get("Retry-After") == "" {
		t.Errorf("a wait ended with %d and Retry-After %q, want a 409 that can be repeated", a.Status, a.Header.Get("Retry-After"))
	}
	eventually(t, "the public listener refuses connections", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(w.URL, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	a := w.OperatorClient().Do(t, http.MethodGet, "/readyz", nil).Expect(t, 503)
	if !strings.Contains(string(a.Body), "shutting down") {
		t.Errorf("/readyz says %s, want that the process is shutting down", a.Body)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Serve returned %v before the completion was answered", err)
	default:
	}
	close(s.proceed)
	if a := receive(t, completed); a.Status != 200 {
		t.Errorf("the running completion got %d: %s", a.Status, a.Body)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Serve returned %v, want nil after a clean end", err)
	}
	second := w.Start(t)
	second.Client(w.Tenant.Service).Begin(t, apitest.Charge(completedKey)).Replay(t)
}

func TestReadinessIsYesOrNoOutsideAndHasReasonsInside(t *testing.T) {
	t.Parallel()
	var failure atomic.Pointer[error]
	w := apitest.New(t, apitest.Checks(
		api.Check{Name: "database", Run: func(context.Context) error {
			if err := failure.Load(); err != nil {
				return *err
			}
			return nil
		}},
		api.Check{Name: "migrations", Run: func(context.Context) error { return nil }},
		api.Check{Name: "room", Advisory: true, Run: func(context.Context) error { return errors.New("no disk") }},
	))
	body := func(c *apitest.Client, status int) any {
		var got any
		c.Do(t, http.MethodGet, "/readyz", nil).Expect(t, status).Decode(t, &got)
		return got
	}
	public, operator := w.Client(""), w.OperatorClient()
	if diff := cmp.Diff(body(public, 200), any(map[string]any{"ready": true})); diff != "" {
		t.Errorf("public, ready (-got +want):\n%s", diff)
	}
	err := errors.New("connection refused")
	failure.Store(&err)
	eventually(t, "the failure is seen", func() bool { return public.Do(t, http.MethodGet, "/readyz", nil).Status == 503 })
	if diff := cmp.Diff(body(public, 503), any(map[string]any{"ready": false})); diff != "" {
		t.Errorf("public, not ready (-got +want):\n%s", diff)
	}
	want := map[string]any{"ready": false, "checks": []any{
		map[string]any{"name": "serving", "ok": true},
		map[string]any{"name": "database", "ok": false, "reason": "connection refused"},
		map[string]any{"name": "migrations", "ok": true},
		map[string]any{"name": "room", "ok": false, "reason": "no disk"},
	}}
	if diff := cmp.Diff(body(operator, 503), any(want)); diff != "" {
		t.Errorf("operator's, not ready (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(any(map[string]any{"alive": true}), decoded(t, public.Do(t, http.MethodGet, "/healthz", nil).Expect(t, 200))); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	failure.Store(nil)
	eventually(t, "it is ready again", func() bool { return public.Do(t, http.MethodGet, "/readyz", nil).Status == 200 })
}

func decoded(t *testing.T, a *apitest.Answer) (got any) {
	t.Helper()
	a.Decode(t, &got)
	return got
}

func TestAListenerThatIsTakenIsSaid(t *testing.T) {
	t.Parallel()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // only its address matters
	for _, s := range []api.ServeConfig{
		{PublicAddr: taken.Addr().String(), OperatorAddr: "127.0.0.1:0"},
		{PublicAddr: "127.0.0.1:0", OperatorAddr: taken.Addr().String()},
	} {
		err := api.Serve(t.Context(), api.Config{}, s)
		if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "listen for") {
			t.Errorf("Serve returned %v, want which listener failed, where and why", err)
		}
	}
}

func TestTheOperatorsListenerHasNoneOfThePublicRoutes(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	operator := w.OperatorClient()
	for _, r := range api.Routes() {
		path := strings.ReplaceAll(r.Pattern, "{id}", "AAAAAAAAAAAAAAAAAAAAAA")
		if r.Listener == api.Public && path != "/readyz" {
			operator.Do(t, r.Method, path, nil).Problem(t, 404, "not_found")
		}
	}
}

// B121: over HTTP/2 names of headers are in lower case, and nothing is
// different.
func TestTheAPIIsTheSameOverHTTP2(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	held := acquire(t, w.Client(w.Tenant.Service), newKey(t))
	a, err := api.New(api.Config{Auth: w.Auth, Tenants: w.Tenants, Keys: w.Keys})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(a.Public())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, server.URL+"/v1/keys/"+held.ID+"/lease", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"authorization": {"Bearer " + w.Tenant.Service}, "onceward-lease": {held.Lease.Token}}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only the header matters
	if resp.ProtoMajor != 2 || resp.StatusCode != 200 || resp.Header.Get("Request-Id") == "" {
		t.Errorf("HTTP/%d answered %d", resp.ProtoMajor, resp.StatusCode)
	}
}
