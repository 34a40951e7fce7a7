package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
)

// provider is a server on bare TCP that does what it reads: it answers the
// first request of a connection, and closes the connection without an answer
// after it has read a second one (B005).
type provider struct {
	listener net.Listener
	conns    sync.WaitGroup

	mu   sync.Mutex // guards read
	read []*http.Request
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{listener: listener}
	p.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.conns.Wait()
	})
	return p
}

func (p *provider) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // it is cut off
	reader := bufio.NewReader(conn)
	for n := 1; n <= 2; n++ {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		p.mu.Lock()
		p.read = append(p.read, r)
		p.mu.Unlock()
		if n == 1 {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	}
}

func (p *provider) url() string { return "http://" + p.listener.Addr().String() }

// requests are those read of a method, as the values of their Idempotency-Key.
func (p *provider) requests(method string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for _, r := range p.read {
		if r.Method == method {
			keys = append(keys, r.Header.Get("Idempotency-Key"))
		}
	}
	return keys
}

// warm makes a connection that is kept for the next request.
func warm(t *testing.T, transport http.RoundTripper, address string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

func post(t *testing.T, address, body string) *http.Request {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(client.WithKey(t.Context(), "order-42-charge"), http.MethodPost, address, reader)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func newBase(t *testing.T) *http.Transport {
	t.Helper()
	base := &http.Transport{MaxIdleConnsPerHost: 1}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// TestNetHTTPSendsAKeyedPostTwice is why Transport exists. Where it fails, net/http
// has changed, and what Transport does about it has to be looked at again.
func TestNetHTTPSendsAKeyedPostTwice(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"a body": "amount=4999", "no body": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, base := newProvider(t), newBase(t)
			warm(t, base, p.url())
			req := post(t, p.url(), body)
			req.Header.Set("Idempotency-Key", "order-42-charge")
			if resp, err := base.RoundTrip(req); err == nil {
				_ = resp.Body.Close()
			}
			if got := p.requests(http.MethodPost); len(got) != 2 {
				t.Errorf("%d POSTs were read, want 2", len(got))
			}
		})
	}
}

func TestAPostThatMayHaveArrivedIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"a body": "amount=4999", "no body": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			transport := &client.Transport{Base: newBase(t)}
			warm(t, transport, p.url())
			resp, err := transport.RoundTrip(post(t, p.url(), body))
			if err == nil {
				_ = resp.Body.Close()
			}
			if !errors.Is(err, client.ErrCallUnknown) || client.VerdictOf(nil, err) != client.VerdictUnknown {
				t.Errorf("error %v, want its outcome unknown", err)
			}
			if diff := cmp.Diff([]string{"order-42-charge"}, p.requests(http.MethodPost)); diff != "" {
				t.Errorf("POSTs read, by their key (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAProviderThatHonoursKeysIsAskedAgainUnderTheSameKey(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	transport := &client.Transport{Base: newBase(t), HonoursKey: true}
	warm(t, transport, p.url())
	resp, err := transport.RoundTrip(post(t, p.url(), "amount=4999"))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if diff := cmp.Diff([]string{"order-42-charge", "order-42-charge"}, p.requests(http.MethodPost)); diff != "" || client.VerdictOf(resp, nil) != client.VerdictDone {
		t.Errorf("POSTs read, by their key (-want +got):\n%s", diff)
	}
}

// TestAReverseProxyBehindTheMiddlewareSendsOnce is B005 as it is told: the proxy
// has read the body for the fingerprint, so that net/http could send it again.
func TestAReverseProxySendsOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	transport := &client.Transport{Base: newBase(t)}
	warm(t, transport, p.url())
	target, err := url.Parse(p.url())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
	}
	recorder := httptest.NewRecorder()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("amount=4999"))
	req.Header.Set("Idempotency-Key", "an-end-users-key")
	proxy.ServeHTTP(recorder, req)
	if recorder.Code != http.StatusBadGateway {
		t.Errorf("status %d, want 502", recorder.Code)
	}
	if diff := cmp.Diff([]string{"an-end-users-key"}, p.requests(http.MethodPost)); diff != "" {
		t.Errorf("POSTs read, by their key (-want +got):\n%s", diff)
	}
}

// TestABeginIsSentOncePerTry holds the client's own calls to the same.
func TestABeginIsSentOncePerTry(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	base := newBase(t)
	warm(t, base, p.url())
	c, err := client.New(client.Config{BaseURL: p.url(), APIKey: "k", HTTP: base, RetryFor: -1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Begin(t.Context(), client.Operation{Key: "order-42-charge", Name: "charge", Request: &client.Request{}})
	if !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("error %v, want unreachable", err)
	}
	if got := p.requests(http.MethodPost); len(got) != 1 {
		t.Errorf("%d begins were read, want 1", len(got))
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAReadIsSentAgain(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	transport := &client.Transport{Base: newBase(t)}
	warm(t, transport, p.url())
	warm(t, transport, p.url()) // the kept connection is cut
	if got := p.requests(http.MethodGet); len(got) != 3 {
		t.Errorf("%d GETs were read, want 3", len(got))
	}
}

func TestWhatNeverLeftIsNotDone(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + closed.Addr().String()
	_ = closed.Close()
	dials := 0
	base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}}
	resp, err := (&client.Transport{Base: base, MaxTries: 2}).RoundTrip(post(t, address, "amount=4999"))
	if err == nil {
		_ = resp.Body.Close()
	}
	if !errors.Is(err, client.ErrNotSent) || client.VerdictOf(nil, err) != client.VerdictRefused {
		t.Errorf("error %v, want not_sent", err)
	}
	if dials != 2 {
		t.Errorf("%d connections were tried, want 2: to try again is safe", dials)
	}

	noKey, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&client.Transport{Base: base}).RoundTrip(noKey) //nolint:bodyclose // there is none
	if !errors.Is(err, client.ErrNotSent) || dials != 2 {
		t.Errorf("a POST without a key: error %v, %d connections; want it refused", err, dials)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]client.Verdict{
		200: client.VerdictDone, 201: client.VerdictDone, 204: client.VerdictDone,
		302: client.VerdictUnknown,
		400: client.VerdictRefused, 402: client.VerdictRefused, 404: client.VerdictRefused, 422: client.VerdictRefused, 425: client.VerdictRefused, 429: client.VerdictRefused,
		408: client.VerdictUnknown, 409: client.VerdictUnknown,
		500: client.VerdictUnknown, 502: client.VerdictUnknown, 503: client.VerdictUnknown, 504: client.VerdictUnknown,
	} {
		resp := &http.Response{StatusCode: status}
		if got := client.VerdictOf(resp, nil); got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
		if err := client.AfterCall(resp, nil); (err == nil) != (want == client.VerdictDone) {
			t.Errorf("AfterCall of %d is %v", status, err)
		}
	}
	if client.VerdictOf(nil, nil) != client.VerdictUnknown || client.AfterCall(nil, nil) == nil {
		t.Error("no answer and no error counts as done")
	}
	if client.VerdictOf(nil, context.DeadlineExceeded) != client.VerdictUnknown {
		t.Error("a time-out counts as refused")
	}
}

// TestARetryAfterThatIsTooLongIsNotWaitedFor returns the answer instead.
func TestARetryAfterThatIsTooLongIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(server.Close)
	started := time.Now()
	resp, err := (&client.Transport{Base: newBase(t), HonoursKey: true}).RoundTrip(post(t, server.URL, ""))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || n != 1 || time.Since(started) > 10*time.Second {
		t.Errorf("status %d after %d requests", resp.StatusCode, n)
	}
}
