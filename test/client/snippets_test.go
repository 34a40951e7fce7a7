package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// The code of docs/integrate-go.md and of the package's own page, as it stands
// there: compiled, run, and compared with the pages.

// theBank is a provider that honours keys.
type theBank struct{ url string }

func (b theBank) Charge(ctx context.Context, order []byte) (map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/charges", strings.NewReader(string(order)))
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: &client.Transport{HonoursKey: true, MaxTries: 1, Base: &http.Transport{DisableKeepAlives: true}}}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // an example
	return map[string]string{"charge": "ch_1"}, nil
}

func (b theBank) PayOut(ctx context.Context, payload []byte) (map[string]string, error) {
	return b.Charge(client.WithKey(ctx, "payout-42"), payload)
}

func protectARouter(router chi.Router, accountOf client.Caller, charge http.HandlerFunc) error {
	onceward, err := client.New(client.Config{BaseURL: os.Getenv("ONCEWARD_URL"), APIKey: os.Getenv("ONCEWARD_KEY")})
	if err != nil {
		return err
	}
	protect, err := onceward.Protect(client.Middleware{Caller: accountOf})
	if err != nil {
		return err
	}
	router.With(protect).Post("/v1/charges", charge)
	return nil
}

func protectAsThePackageSays(url, key string, router chi.Router, accountOf client.Caller, charge http.HandlerFunc) error {
	onceward, err := client.New(client.Config{BaseURL: url, APIKey: key})
	if err != nil {
		return err
	}
	protect, err := onceward.Protect(client.Middleware{Caller: accountOf})
	if err != nil {
		return err
	}
	router.With(protect).Post("/v1/charges", charge)
	return nil
}

func doAsThePackageSays(ctx context.Context, onceward *client.Client, key string, order []byte, bank theBank) (client.Result, error) {
	op := client.Operation{Key: key, Name: "charge", Request: &client.Request{Body: order}}
	result, err := onceward.Do(ctx, op, func(ctx context.Context, lease *client.Lease) (client.Response, error) {
		charge, err := bank.Charge(client.WithKey(ctx, lease.DownstreamKey("bank", "charge")), order)
		if err != nil {
			return client.Response{}, err // nobody knows whether it was charged: nothing runs again by itself
		}
		return client.JSONResponse(201, charge)
	})
	return result, err
}

// tellApart has the switch of both pages, which says nothing more.
func tellApart(err error) {
	switch {
	case errors.Is(err, client.ErrInProgress): // another attempt is at it
	case errors.Is(err, client.ErrMismatch): // the key was used for another request
	case errors.Is(err, client.ErrOutcomeUnknown): // nobody knows; waiting does not help
	case errors.Is(err, client.ErrLeaseLost): // another attempt may have done it too
	case client.OutOfReach(err): // nothing is known; try again later
	}
}

func chargeHandler(bank theBank) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		lease, _ := client.LeaseFrom(r.Context())
		order, _ := io.ReadAll(r.Body)
		charge, err := bank.Charge(client.WithKey(r.Context(), lease.DownstreamKey("bank", "charge")), order)
		switch {
		case errors.Is(err, client.ErrNotSent): // nothing happened: the key is free at once
			client.NotDoneHere(r.Context())
			http.Error(w, "the bank is away", http.StatusServiceUnavailable)
			return
		case err != nil: // it may have happened: retries get 409 outcome_unknown until a person decides
			client.UnknownHere(r.Context())
			http.Error(w, "the bank did not answer", http.StatusGatewayTimeout)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, charge["charge"])
	}
}

func proxyTo(upstream *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport: &client.Transport{},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if client.VerdictOf(nil, err) == client.VerdictRefused {
				client.NotDoneHere(r.Context()) // it never reached the upstream
			} else {
				client.UnknownHere(r.Context())
			}
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	return proxy
}

func payOut(ctx context.Context, onceward *client.Client, key string, payload []byte, bank theBank) (client.Result, error) {
	result, err := onceward.Do(ctx, client.Operation{
		Key: key, Name: "payout", Request: &client.Request{Body: payload}, Hold: true,
	}, func(ctx context.Context, lease *client.Lease) (client.Response, error) {
		payout, err := bank.PayOut(ctx, payload)
		if err != nil {
			return client.Response{}, err
		}
		return client.JSONResponse(200, payout)
	})
	return result, err
}

func consume(ctx context.Context, onceward *client.Client, ops []client.Operation, messages []string, book func(context.Context, string) error) error {
	results := onceward.Batch(ctx, ops, func(ctx context.Context, i int, lease *client.Lease) (client.Response, error) {
		if err := book(ctx, messages[i]); err != nil {
			return client.Response{}, err
		}
		return client.Response{Status: 200}, nil
	})
	for i, result := range results {
		if result.Err != nil {
			return fmt.Errorf("message %d is to be delivered again: %w", i, result.Err)
		}
	}
	return nil
}

func callTheBank(ctx context.Context, lease *client.Lease, req *http.Request) (client.Response, error) {
	bank := &http.Client{Transport: &client.Transport{HonoursKey: true}}
	ctx = client.WithKey(ctx, lease.DownstreamKey("bank", "charge"))
	resp, err := bank.Do(req.WithContext(ctx))
	if err == nil {
		defer resp.Body.Close() //nolint:errcheck // as the page has it
	}
	if err := client.AfterCall(resp, err); err != nil {
		return client.Response{}, err
	}
	return client.Response{Status: 200}, nil
}

// TestThePagesSayThisCode finds each block of Go on the pages in this file, line
// by line.
func TestThePagesSayThisCode(t *testing.T) {
	t.Parallel()
	source := "\n" + strings.Join(linesOf(t, "snippets_test.go"), "\n") + "\n"
	page, packagePage := linesOf(t, "../../docs/integrate-go.md"), linesOf(t, "../../client/doc.go")
	var blocks [][]string
	var block []string
	inside := false
	for _, line := range page {
		switch {
		case line == "```go":
			inside, block = true, nil
		case line == "```" && inside:
			inside, blocks = false, append(blocks, block)
		case inside:
			block = append(block, line)
		}
	}
	block = nil
	for _, line := range append(packagePage, "") {
		code, ok := strings.CutPrefix(line, "//\t")
		switch {
		case ok:
			block = append(block, plain(code))
		case len(block) > 0:
			blocks, block = append(blocks, block), nil
		}
	}
	if len(blocks) != 7+3 {
		t.Errorf("%d blocks of code are on the pages, want 10", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(source, "\n"+strings.Join(block, "\n")+"\n") {
			t.Errorf("this is on a page and not here:\n%s", strings.Join(block, "\n"))
		}
	}
}

// plain is a line without its indentation and what it says to linters, and with
// one space before a comment.
func plain(line string) string {
	line, _, _ = strings.Cut(line, " //nolint:")
	if code, comment, ok := strings.Cut(line, " // "); ok {
		line = strings.TrimRight(code, " ") + " // " + comment
	}
	return strings.TrimSpace(line)
}

// linesOf are a file's lines, plain.
func linesOf(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		lines[i] = plain(line)
	}
	return lines
}

// TestTheCodeOfThePages runs it.
func TestTheCodeOfThePages(t *testing.T) {
	w := apitest.New(t)
	t.Setenv("ONCEWARD_URL", w.URL)
	t.Setenv("ONCEWARD_KEY", w.Tenant.Service)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	var mu sync.Mutex // guards keysAtTheBank
	var keysAtTheBank []string
	var broken atomic.Bool
	server := newServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keysAtTheBank = append(keysAtTheBank, r.Header.Get("Idempotency-Key"))
		mu.Unlock()
		if broken.Load() {
			panic(http.ErrAbortHandler)
		}
	}))
	bank, away := theBank(server), theBank{"http://127.0.0.1:1"}
	accountOf := func(*http.Request) (string, error) { return "cus_1", nil }
	send := func(handler http.Handler, key string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/charges", strings.NewReader("{}"))
		req.Header.Set("Idempotency-Key", key)
		handler.ServeHTTP(recorder, req)
		return recorder
	}

	// A router, and what a handler can say.
	for name, set := range map[string]func(chi.Router, http.HandlerFunc) error{
		"docs": func(r chi.Router, charge http.HandlerFunc) error { return protectARouter(r, accountOf, charge) },
		"package": func(r chi.Router, charge http.HandlerFunc) error {
			return protectAsThePackageSays(w.URL, w.Tenant.Service, r, accountOf, charge)
		},
	} {
		good, none := chi.NewRouter(), chi.NewRouter()
		if err := errors.Join(set(good, chargeHandler(bank)), set(none, chargeHandler(away))); err != nil {
			t.Fatal(err)
		}
		key := newKey()
		if first := send(none, key); first.Code != 503 {
			t.Errorf("%s: a bank that is away: %d", name, first.Code)
		}
		if first, again := send(good, key), send(good, key); first.Code != 201 || again.Header().Get("Idempotent-Replay") != "true" {
			t.Errorf("%s: %d, then %v", name, first.Code, again.Header())
		}
		key = newKey()
		broken.Store(true)
		if first, again := send(good, key), send(good, key); first.Code != 504 || again.Code != 409 {
			t.Errorf("%s: a bank that does not answer: %d, then %d", name, first.Code, again.Code)
		}
		broken.Store(false)
	}

	// A function, a proxy, a queue and a call to a provider.
	c := newClient(t, w)
	mu.Lock()
	keysAtTheBank = nil
	mu.Unlock()
	for _, do := range []func(key string) (client.Result, error){
		func(key string) (client.Result, error) {
			return doAsThePackageSays(t.Context(), c, key, []byte("42"), bank)
		},
		func(key string) (client.Result, error) { return payOut(t.Context(), c, key, []byte("42"), bank) },
		func(key string) (client.Result, error) {
			return c.Do(t.Context(), client.Operation{Key: key, Name: "call", Request: &client.Request{}}, func(ctx context.Context, lease *client.Lease) (client.Response, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.url, nil)
				if err != nil {
					return client.Response{}, client.NotDone(err)
				}
				return callTheBank(ctx, lease, req)
			})
		},
	} {
		key := newKey()
		first, err := do(key)
		again, againErr := do(key)
		if err != nil || againErr != nil || first.Replay || !again.Replay {
			t.Errorf("%+v, %v; then %+v, %v", first, err, again, againErr)
		}
	}
	mu.Lock()
	asked := slices.Clone(keysAtTheBank)
	mu.Unlock()
	if len(asked) != 3 || asked[0] == "" || asked[2] == "" {
		t.Errorf("the bank was asked under the keys %q, want three", asked)
	}
	booked := 0
	ops, messages := messages(3), []string{"a", "b", "c"}
	for range 2 {
		err := consume(t.Context(), c, ops, messages, func(context.Context, string) error { booked++; return nil })
		if err != nil {
			t.Error(err)
		}
	}
	if booked != 3 {
		t.Errorf("%d messages are booked, want 3", booked)
	}
	upstream, err := url.Parse(server.url)
	if err != nil {
		t.Fatal(err)
	}
	wrap, err := c.Protect(client.Middleware{Caller: client.SingleCaller()})
	if err != nil {
		t.Fatal(err)
	}
	key := newKey()
	if first, again := send(wrap(proxyTo(upstream)), key), send(wrap(proxyTo(upstream)), key); first.Code != 200 || again.Header().Get("Idempotent-Replay") != "true" {
		t.Errorf("through the proxy: %d, then %v", first.Code, again.Header())
	}
	tellApart(client.ErrInProgress)
}
