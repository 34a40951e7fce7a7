// Package client_test holds the Go client against the real service: its HTTP
// edge, its domain and a PostgreSQL of its own for every test. Nothing here
// stands in for the service; what is broken on purpose is the network.
package client_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, // but for the database server of the whole run
		goleak.IgnoreAnyFunction("github.com/onceward/onceward/internal/postgres/devpg.startProcess.func1"),
		goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"),
		// The proxy leaves one behind where a connection breaks while it has
		// something to pass on: nobody takes it any more (its link.go, write).
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
}

// newKey is a fresh idempotency key.
func newKey() string { return "key-" + rand.Text() }

// longest is the longest lease there is: for whatever is not about its length,
// so that none lapses under a machine that is slow.
const longest = time.Hour

// charge is an operation that is right in every member.
func charge(key string) client.Operation {
	return client.Operation{
		Key: key, Name: "POST /v1/charges", Lease: longest,
		Request: &client.Request{Method: "POST", Path: "/v1/charges", ContentType: "application/json", Body: []byte(`{"amount":4999}`)},
	}
}

// created is the response of a charge that was made.
func created() client.Response {
	return client.Response{
		Status: 201, Headers: []client.Header{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(`{"charge":"ch_1"}`),
	}
}

// option changes the configuration of a client under test.
type option func(*client.Config)

func over(transport http.RoundTripper) option {
	return func(c *client.Config) { c.HTTP = transport }
}

func onClock(clock client.Clock) option { return func(c *client.Config) { c.Clock = clock } }

func withKey(key string) option { return func(c *client.Config) { c.APIKey = key } }

func logging(b *logbook) option { return func(c *client.Config) { c.Logger = slog.New(b.handler()) } }

func storingWithin(d time.Duration) option {
	return func(c *client.Config) { c.StoreTimeout = d }
}

// newClient is a client of the world's first instance, with the credential of
// its tenant's service. It is closed with the test, and has then delivered
// everything.
func newClient(tb testing.TB, w *apitest.World, options ...option) *client.Client {
	tb.Helper()
	config := client.Config{BaseURL: w.URL, APIKey: w.Tenant.Service, Logger: slog.New(slog.DiscardHandler)}
	for _, o := range options {
		o(&config)
	}
	c, err := client.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			tb.Errorf("close the client: %v", err)
		}
	})
	return c
}

// acquire begins an operation that nobody has begun before.
func acquire(tb testing.TB, c *client.Client, op client.Operation) *client.Acquired {
	tb.Helper()
	outcome, err := c.Begin(tb.Context(), op)
	if err != nil {
		tb.Fatalf("begin: %v", err)
	}
	acquired, ok := outcome.(*client.Acquired)
	if !ok {
		tb.Fatalf("begin answered %T, want *client.Acquired", outcome)
	}
	return acquired
}

// replayOf begins an operation that is done.
func replayOf(tb testing.TB, c *client.Client, op client.Operation) *client.Replay {
	tb.Helper()
	outcome, err := c.Begin(tb.Context(), op)
	if err != nil {
		tb.Fatalf("begin: %v", err)
	}
	replay, ok := outcome.(*client.Replay)
	if !ok {
		tb.Fatalf("begin answered %T, want *client.Replay", outcome)
	}
	return replay
}

// inspect reads a record.
func inspect(tb testing.TB, c *client.Client, id client.RecordID) client.Record {
	tb.Helper()
	record, err := c.Inspect(tb.Context(), id, client.IncludeResponse)
	if err != nil {
		tb.Fatalf("inspect: %v", err)
	}
	return record
}

// wantCode fails the test unless err has the code.
func wantCode(tb testing.TB, err error, code client.Code) {
	tb.Helper()
	if !errors.Is(err, code) {
		tb.Fatalf("error %v, want the code %s", err, string(code))
	}
}

// eventually looks until ok, and fails the test after twenty seconds.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(20 * time.Second); !ok(); <-look.C {
		if time.Now().After(deadline) {
			tb.Fatalf("did not happen within 20 s: %s", what)
		}
	}
}

// wire is a network whose faults a test decides: it carries each request for
// real, and may cut it off before or after. It records what was sent.
type wire struct {
	transport *http.Transport
	// fault decides what happens to a request: nil lets it pass.
	mu       sync.Mutex // guards what follows
	faultFor func(r *http.Request) fault
	begun    []http.Header
	sent     []sentRequest
}

type sentRequest struct {
	method, path string
	header       http.Header
	body         string
	status       int // 0: no answer was let through
}

// fault is what goes wrong with one request.
type fault int

const (
	passes     fault = iota
	neverComes       // the request is lost on its way there
	answerLost       // the service does it, and the answer is lost
)

var errCut = errors.New("the network was cut")

func newWire(tb testing.TB) *wire {
	tb.Helper()
	w := &wire{transport: &http.Transport{DisableCompression: true}}
	tb.Cleanup(w.transport.CloseIdleConnections)
	return w
}

// cut makes the next requests for which it says so fail.
func (w *wire) cut(faultFor func(r *http.Request) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faultFor = faultFor
}

func (w *wire) heal() { w.cut(nil) }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(strings.NewReader(string(body)))
	}
	sent := sentRequest{method: r.Method, path: r.URL.Path, header: r.Header.Clone(), body: string(body)}
	w.mu.Lock()
	w.begun = append(w.begun, sent.header)
	decided := passes
	if w.faultFor != nil {
		decided = w.faultFor(r)
	}
	w.mu.Unlock()
	var resp *http.Response
	err := errCut
	if decided != neverComes {
		resp, err = w.transport.RoundTrip(r)
		if err == nil && decided == answerLost {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			resp, err = nil, errCut
		}
	}
	if resp != nil {
		sent.status = resp.StatusCode
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, sent)
	return resp, err
}

// requests are those of a method whose path ends so.
func (w *wire) requests(method, suffix string) []sentRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []sentRequest
	for _, s := range w.sent {
		if s.method == method && strings.HasSuffix(s.path, suffix) {
			list = append(list, s)
		}
	}
	return list
}

// started is how many requests with that header were sent, answered or not.
func (w *wire) started(header string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.begun {
		if h.Get(header) != "" {
			n++
		}
	}
	return n
}

// manualClock is time that passes when a test says so.
type manualClock struct {
	mu     sync.Mutex // guards what follows
	now    time.Time
	timers []*manualTimer
}

type manualTimer struct {
	at    time.Time
	fired chan time.Time
}

func newManualClock() *manualClock {
	return &manualClock{now: time.Now()}
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) After(d time.Duration) (fired <-chan time.Time, stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &manualTimer{at: c.now.Add(d), fired: make(chan time.Time, 1)}
	c.timers = append(c.timers, t)
	return t.fired, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timers = slices.DeleteFunc(c.timers, func(other *manualTimer) bool { return other == t })
	}
}

// advance lets d pass.
func (c *manualClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.timers = slices.DeleteFunc(c.timers, func(t *manualTimer) bool {
		due := !t.at.After(c.now)
		if due {
			t.fired <- c.now
		}
		return due
	})
}

// waitForTimer returns once somebody waits for a time within d from now.
func (c *manualClock) waitForTimer(tb testing.TB, d time.Duration) {
	tb.Helper()
	eventually(tb, "somebody waits on the clock", func() bool { return c.hasTimer(d) })
}

func (c *manualClock) hasTimer(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.timers, func(t *manualTimer) bool { return !t.at.After(c.now.Add(d)) })
}

// logbook keeps what is logged.
type logbook struct {
	mu    sync.Mutex // guards lines
	lines []map[string]any
	raw   strings.Builder
}

func (b *logbook) handler() slog.Handler {
	return slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug})
}

func (b *logbook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var line map[string]any
	if err := json.Unmarshal(p, &line); err != nil {
		return 0, err
	}
	b.lines = append(b.lines, line)
	b.raw.Write(p)
	return len(p), nil
}

// said are the lines with that message.
func (b *logbook) said(message string) []map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []map[string]any
	for _, line := range b.lines {
		if text, _ := line["msg"].(string); strings.Contains(text, message) {
			list = append(list, line)
		}
	}
	return list
}

func (b *logbook) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.raw.String()
}
