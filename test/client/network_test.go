package client_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// road is a real network between a client and the service, which can be closed.
type road struct {
	toxi *toxiproxy.Proxy
	url  string // of the service, over this road
}

func newRoad(tb testing.TB, serviceURL string) *road {
	tb.Helper()
	at, err := url.Parse(serviceURL)
	if err != nil {
		tb.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	r := &road{toxi: toxiproxy.NewProxy(server, "onceward", "127.0.0.1:0", at.Host)}
	if err := r.toxi.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.toxi.Stop)
	r.url = "http://" + r.toxi.Listen
	return r
}

// block ends every connection, and refuses new ones until open.
func (r *road) block() { r.toxi.Stop() }

func (r *road) open(tb testing.TB) {
	tb.Helper()
	if err := r.toxi.Update(&toxiproxy.Proxy{Listen: r.toxi.Listen, Upstream: r.toxi.Upstream, Enabled: true}); err != nil {
		tb.Fatal(err)
	}
}

// TestALongOutageUnderHoldEndsInTheResponseStored blocks the road to the
// service while the handler works, for far longer than the lease. The end user
// is answered; meanwhile nobody can run the operation, and nobody is told what
// is not so; when the road opens, the response is stored.
func TestALongOutageUnderHoldEndsInTheResponseStored(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	toService, clock, logs := newRoad(t, w.URL), newManualClock(), new(logbook)
	c := newClient(t, w, onClock(clock), logging(logs), func(c *client.Config) { c.BaseURL = toService.url })
	direct := newClient(t, w)
	key, id := newKey(), make(chan client.RecordID, 1)
	var runs atomic.Int64
	e := protect(t, c, client.Middleware{Default: client.Route{Hold: true, Lease: 30 * time.Second}}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		lease, _ := client.LeaseFrom(r.Context())
		id <- lease.ID
		toService.block()
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, "paid")
	}))
	answered := make(chan got, 1)
	go func() { answered <- e.charge(t, key) }()
	record := <-id
	op := charge(key)
	op.Wait = -1

	var first got
	for passed := time.Duration(0); passed < 5*time.Minute; passed += 2 * time.Second {
		clock.waitForTimer(t, 10*time.Second)
		clock.advance(2 * time.Second)
		w.Advance(t, string(record), 2*time.Second)
		select {
		case first = <-answered:
		default:
		}
	}
	if first.status == 0 {
		first = <-answered
	}
	if first.status != http.StatusCreated || first.body != "paid" || first.header.Get("Onceward-Stored") != "false" {
		t.Errorf("the end user got %+v, want the real answer, not stored yet", first)
	}
	_, err := direct.Begin(t.Context(), op)
	wantCode(t, err, client.ErrOutcomeUnknown) // and so no other attempt
	if n := len(logs.said("told so yet")); n != 1 {
		t.Errorf("%d lines say that it is not stored, want 1", n)
	}

	toService.open(t)
	eventually(t, "it is stored", func() bool {
		clock.advance(5 * time.Second)
		return inspect(t, direct, record).State == client.StateCompleted
	})
	eventually(t, "the retry is answered", func() bool {
		clock.advance(5 * time.Second)
		again := e.charge(t, key)
		return again.status == http.StatusCreated && again.wantReplay(t).body == "paid"
	})
	if done := inspect(t, direct, record); runs.Load() != 1 || done.Attempt != 1 {
		t.Errorf("it ran %d times, in %d attempts", runs.Load(), done.Attempt)
	}
}

// TestWhatAnOutageKeptIsSaidAtShutdown is the same, for a process that ends
// before the road opens.
func TestWhatAnOutageKeptIsSaidAtShutdown(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	toService, logs := newRoad(t, w.URL), new(logbook)
	c, err := client.New(client.Config{BaseURL: toService.url, APIKey: w.Tenant.Service, StoreTimeout: time.Millisecond, Logger: slog.New(logs.handler())})
	if err != nil {
		t.Fatal(err)
	}
	var id client.RecordID
	e := protect(t, c, client.Middleware{Default: client.Route{Hold: true}}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		lease, _ := client.LeaseFrom(r.Context())
		id = lease.ID
		toService.block()
		rw.WriteHeader(http.StatusAccepted)
	}))
	if answer := e.charge(t, newKey()); answer.status != http.StatusAccepted || answer.header.Get("Onceward-Stored") != "false" {
		t.Errorf("%+v", answer)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(over); err == nil {
		t.Error("Close returned no error")
	}
	if given := logs.said("given up at shutdown"); len(given) != 1 || given[0]["id"] != string(id) || given[0]["status"] != 202.0 {
		t.Errorf("logged %v, want the id %s and the status 202", given, id)
	}
}

// TestConnectionsAreUsedAgain counts those that reach the service.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	at, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			opened.Add(1)
			go forward(conn, at.Host)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	c := newClient(t, w, func(c *client.Config) { c.BaseURL = "http://" + listener.Addr().String() }) // its own transport
	for range 10 {
		op := charge(newKey())
		if _, err := c.Do(t.Context(), op, (&charging{}).do); err != nil {
			t.Fatal(err)
		}
		_, err := c.Inspect(t.Context(), "none") // an answer that is an error leaves it usable too
		wantCode(t, err, client.ErrNotFound)
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for 30 calls one after the other, want 1", n)
	}
}

func forward(conn net.Conn, address string) {
	defer conn.Close() //nolint:errcheck // it was read to its end
	up, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer up.Close() //nolint:errcheck // as above
	down := make(chan struct{})
	go func() {
		defer close(down)
		_, _ = io.Copy(conn, up)
		_ = conn.Close()
	}()
	_, _ = io.Copy(up, conn)
	_ = up.Close()
	<-down
}

// TestAProxiedPostIsSentOnceAndItsKeyNotHandedOutAgain puts the middleware
// before a reverse proxy whose upstream reads a POST on a kept connection and
// closes it without an answer (B005).
func TestAProxiedPostIsSentOnceAndItsKeyNotHandedOutAgain(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var posts atomic.Int64
	upstream := newServer(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			posts.Add(1)
			panic(http.ErrAbortHandler) // net/http closes the connection
		}
	}))
	target, err := url.Parse(upstream.url)
	if err != nil {
		t.Fatal(err)
	}
	base := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(base.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &client.Transport{Base: base},
		ErrorHandler: func(rw http.ResponseWriter, r *http.Request, err error) {
			if client.VerdictOf(nil, err) == client.VerdictRefused {
				client.NotDoneHere(r.Context())
			} else {
				client.UnknownHere(r.Context())
			}
			rw.WriteHeader(http.StatusBadGateway)
		},
	}
	c := newClient(t, w)
	e := protect(t, c, client.Middleware{}, proxy)
	for _, send := range []func(key string) got{
		func(key string) got { return e.charge(t, key) },
		func(key string) got { return e.send(t, http.MethodPost, "/v1/charges", "", "Idempotency-Key", key) },
	} {
		if warm := e.send(t, http.MethodGet, "/", ""); warm.status != 200 { // so that the connection is a kept one
			t.Fatalf("%+v", warm)
		}
		posts.Store(0)
		key := newKey()
		if first := send(key); first.status != http.StatusBadGateway || first.header.Get("Onceward-Stored") != "" {
			t.Errorf("%+v, want 502", first)
		}
		send(key).wantProblem(t, 409, client.ErrOutcomeUnknown)
		if n := posts.Load(); n != 1 {
			t.Errorf("the upstream has read %d POSTs, want 1", n)
		}
	}

	// What certainly never reached the upstream frees the key.
	gone := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "127.0.0.1:1"}) }, Transport: &client.Transport{Base: base, MaxTries: 1}, ErrorHandler: proxy.ErrorHandler}
	e = protect(t, c, client.Middleware{}, &gone)
	key := newKey()
	for range 2 {
		if answer := e.charge(t, key); answer.status != http.StatusBadGateway || answer.header.Get("Idempotent-Replay") != "" {
			t.Errorf("%+v, want 502, each time anew", answer)
		}
	}
}

// TestExpectContinueIsAnsweredOnlyWhereTheBodyIsWanted waits with the body, as a
// client does that sent Expect: 100-continue (B077).
func TestExpectContinueIsAnsweredOnlyWhereTheBodyIsWanted(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var read atomic.Value
	e := protect(t, newClient(t, w), client.Middleware{Default: client.Route{MaxBodyBytes: 1000}}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		read.Store(string(body))
		rw.WriteHeader(http.StatusCreated)
	}))
	send := func(key string, length int) (conn net.Conn, answers *bufio.Reader, line string) {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(e.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = fmt.Fprintf(conn, "POST /v1/charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", key, length)
		answers = bufio.NewReader(conn)
		line, err = answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return conn, answers, strings.TrimSpace(line)
	}
	conn, answers, line := send(newKey(), 7)
	if line != "HTTP/1.1 100 Continue" {
		t.Fatalf("%q, want to be told to go on", line)
	}
	if blank, err := answers.ReadString('\n'); err != nil || strings.TrimSpace(blank) != "" {
		t.Fatalf("%q, %v", blank, err)
	}
	_, _ = io.WriteString(conn, "payload")
	if line, _ = answers.ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 201") || read.Load() != "payload" {
		t.Errorf("%q after %v was read", line, read.Load())
	}
	if _, _, line = send(newKey(), 1001); !strings.HasPrefix(line, "HTTP/1.1 413") {
		t.Errorf("%q, want 413 before a byte of the body", line)
	}
	if _, _, line = send("short", 7); !strings.HasPrefix(line, "HTTP/1.1 400") {
		t.Errorf("%q, want 400 before a byte of the body", line)
	}
}
