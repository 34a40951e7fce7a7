package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/onceward/onceward/client"
)

// endpoint is somebody's HTTP service, protected by the middleware.
type endpoint struct {
	url string
}

// protect serves a handler behind the middleware.
func protect(tb testing.TB, c *client.Client, m client.Middleware, handler http.Handler, around ...func(http.Handler) http.Handler) endpoint {
	tb.Helper()
	if m.Caller == nil {
		m.Caller = client.SingleCaller()
	}
	wrap, err := c.Protect(m)
	if err != nil {
		tb.Fatal(err)
	}
	handler = wrap(handler)
	for _, outer := range around {
		handler = outer(handler)
	}
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	return endpoint{server.URL}
}

// got is an answer as an end user sees it.
type got struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
	length  int64
	err     error // of reading the body
}

// charge asks the endpoint for a charge.
func (e endpoint) charge(tb testing.TB, key string) got {
	tb.Helper()
	return e.send(tb, http.MethodPost, "/v1/charges", `{"amount":4999}`, "Idempotency-Key", key, "Content-Type", "application/json")
}

// send makes one request of an end user, with headers given as names and
// values, on a connection of its own.
func (e endpoint) send(tb testing.TB, method, path, body string, headers ...string) got {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, e.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		tb.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i+1] != "" {
			req.Header.Add(headers[i], headers[i+1])
		}
	}
	return e.do(tb, req)
}

func (e endpoint) do(tb testing.TB, req *http.Request) got {
	tb.Helper()
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		tb.Fatalf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	content, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, resp.Trailer, string(content), resp.ContentLength, err}
}

// wantProblem fails the test unless the answer is that problem document.
func (g got) wantProblem(tb testing.TB, status int, code client.Code) map[string]any {
	tb.Helper()
	var document map[string]any
	if err := json.Unmarshal([]byte(g.body), &document); err != nil {
		tb.Fatalf("status %d, %v: %s", g.status, err, g.body)
	}
	if g.status != status || document["code"] != string(code) || document["status"] != float64(status) || g.header.Get("Content-Type") != "application/problem+json" {
		tb.Fatalf("status %d: %s; want %d %s", g.status, g.body, status, string(code))
	}
	for _, member := range []string{"type", "title", "detail"} {
		if text, _ := document[member].(string); text == "" {
			tb.Errorf("the problem has no %s: %s", member, g.body)
		}
	}
	return document
}

// wantReplay fails the test unless the answer is a replay.
func (g got) wantReplay(tb testing.TB) got {
	tb.Helper()
	if g.header.Get("Idempotent-Replay") != "true" {
		tb.Fatalf("status %d, %v, %q: not a replay", g.status, g.header, g.body)
	}
	return g
}

// recordOf finds the record of a key by beginning it again: the one way that a
// service has. It must be completed.
func recordOf(tb testing.TB, c *client.Client, op client.Operation) client.Record {
	tb.Helper()
	outcome, err := c.Begin(context.WithoutCancel(tb.Context()), op)
	if err != nil {
		tb.Fatal(err)
	}
	replay, ok := outcome.(*client.Replay)
	if !ok {
		tb.Fatalf("the record is not completed: %T", outcome)
	}
	return inspect(tb, c, replay.ID)
}

// newServer serves a handler as it is.
func newServer(tb testing.TB, handler http.Handler) endpoint {
	tb.Helper()
	server := httptest.NewServer(handler)
	tb.Cleanup(server.Close)
	return endpoint{server.URL}
}
