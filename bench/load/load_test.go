//go:build linux

package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// asker asks the same until it has asked often enough; each answer must be as
// wanted.
type asker struct {
	request []byte
	left    int // zero: no more
	want    string
}

func (a *asker) Next() []byte {
	if a.left == 0 {
		return nil
	}
	a.left--
	return a.request
}

func (a *asker) Answer(answer Answer) (Done, error) {
	if answer.Status != 200 || string(answer.Body) != a.want {
		return Done{}, fmt.Errorf("answered %d, %.100q", answer.Status, answer.Body)
	}
	return Done{Operations: 1}, nil
}

func serve(t *testing.T, handler http.HandlerFunc) (addr string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func get(body string) []byte {
	return fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestEveryRequestOfEveryConnectionIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ request, answer string }{
		"short":                                {"a", "b"},
		"an answer in chunks":                  {"a", strings.Repeat("0123456789", 5000)},
		"a request larger than a socket takes": {strings.Repeat("x", 8<<20), "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var answered atomic.Int64
			addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got, err := io.ReadAll(r.Body)
				if err != nil || string(got) != test.request {
					t.Errorf("the server read %d bytes, %v, want %d", len(got), err, len(test.request))
				}
				answered.Add(1)
				_, _ = io.WriteString(w, test.answer)
			})
			const conns, each = 7, 3
			config := Config{Addrs: []string{addr}, Measure: time.Minute, NowFunc: time.Now}
			for range conns {
				config.Scripts = append(config.Scripts, &asker{get(test.request), each, test.answer})
			}
			if _, err := Run(t.Context(), config); err != nil {
				t.Fatal(err)
			}
			if got := answered.Load(); got != conns*each {
				t.Errorf("%d requests were answered, want %d", got, conns*each)
			}
		})
	}
}

func TestOnlyWhatComesBetweenTheEdgesIsMeasured(t *testing.T) {
	t.Parallel()
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "b") })
	edges := 0
	result, err := Run(t.Context(), Config{
		Addrs: []string{addr}, Scripts: []Script{&asker{get("a"), -1, "b"}}, NowFunc: time.Now,
		Warmup: 50 * time.Millisecond, Measure: 100 * time.Millisecond, Edge: func() { edges++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if edges != 2 {
		t.Errorf("%d edges, want 2", edges)
	}
	if result.Requests == 0 || result.Operations != result.Requests || result.Latency[0].TotalCount() != result.Requests {
		t.Errorf("%d requests, %d operations, %d latencies, want the same and some", result.Requests, result.Operations, result.Latency[0].TotalCount())
	}
}

// A server that stands still for a while has kept everybody waiting who would
// have come meanwhile. A generator that waits with it would note one slow
// request.
func TestAnOpenLoopChargesAStallToAllThatWereDue(t *testing.T) {
	t.Parallel()
	const stall, rate = 400 * time.Millisecond, 100
	var first atomic.Bool
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if first.CompareAndSwap(false, true) {
			<-time.After(stall)
		}
		_, _ = io.WriteString(w, "b")
	})
	result, err := Run(t.Context(), Config{
		Addrs: []string{addr}, Scripts: []Script{&asker{get("a"), -1, "b"}}, NowFunc: time.Now, Measure: time.Second, Rate: rate,
	})
	if err != nil {
		t.Fatal(err)
	}
	// About 40 were due during the stall, and waited from 400 ms down to none.
	const long = 200 * time.Millisecond
	waited := int64(0)
	for _, bar := range result.Latency[0].Distribution() {
		if bar.From >= long.Microseconds() {
			waited += bar.Count
		}
	}
	if waited < 15 {
		t.Errorf("%d requests are noted with %s or more, want those that were due in the first half of the stall, about 20", waited, long)
	}
	if result.Requests > rate+rate/10 {
		t.Errorf("%d requests in a second, want the rate of %d", result.Requests, rate)
	}
}

func TestAWrongAnswerEndsTheRun(t *testing.T) {
	t.Parallel()
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	_, err := Run(t.Context(), Config{Addrs: []string{addr}, Scripts: []Script{&asker{get("a"), -1, "b"}}, NowFunc: time.Now, Measure: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "answered 500") {
		t.Errorf("the run ended with %v", err)
	}
}

func TestABrokenConnectionEndsTheRun(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	_, err = Run(t.Context(), Config{Addrs: []string{listener.Addr().String()}, Scripts: []Script{&asker{get("a"), -1, "b"}}, NowFunc: time.Now, Measure: time.Minute})
	if err == nil {
		t.Error("the run ended well")
	}
}

func TestAnAnswerIsWholeAtItsLastByteAndNotBefore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		raw, body string
		status    int
	}{
		"by length":       {"HTTP/1.1 201 Created\r\nContent-Type: a\r\nContent-Length: 5\r\n\r\nhello", "hello", 201},
		"without a body":  {"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", "", 204},
		"in chunks":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\nA\r\nlo\r\n0\r\n\r\nx\r\n0\r\n\r\n", "hello\r\n0\r\n\r\nx", 200},
		"an empty chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n := range len(test.raw) {
				if _, used, _, err := response([]byte(test.raw[:n]), nil); used != 0 || err != nil {
					t.Fatalf("after %d of %d bytes: used %d, %v", n, len(test.raw), used, err)
				}
			}
			answer, used, _, err := response([]byte(test.raw), nil)
			if err != nil || used != len(test.raw) || answer.Status != test.status || string(answer.Body) != test.body {
				t.Errorf("%d, %q, used %d, %v", answer.Status, answer.Body, used, err)
			}
		})
	}
}

func TestWhatIsNoAnswerIsRefused(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]error{
		"SSH-2.0-x\r\n\r\n":                                                    errHead,
		"HTTP/1.1 abc OK\r\n\r\n":                                              errHead,
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n":                        errHead,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n":          errChunk,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabcdef\r\n": errChunk,
	} {
		if _, _, _, err := response([]byte(raw), nil); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", raw, err, want)
		}
	}
}

func TestHeldConnectionsStayOpenUntilReleased(t *testing.T) {
	t.Parallel()
	open := make(chan int, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "b") }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open <- 1
		case http.StateClosed:
			open <- -1
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	const n = 5
	release, err := Hold(server.Listener.Addr().String(), n, bytes.Clone(get("a")))
	if err != nil {
		t.Fatal(err)
	}
	if len(open) != n {
		t.Errorf("%d connections came or went, want %d that came", len(open), n)
	}
	release()
	sum := 0
	for range 2 * n { // the deadline is the test's
		sum += <-open
	}
	if sum != 0 {
		t.Errorf("%d connections are open after release", sum)
	}
}
