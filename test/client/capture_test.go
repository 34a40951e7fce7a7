package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// TestAStreamedResponseArrivesAsItIsWritten reads each event before the handler
// writes the next: nothing is held back but the end, and the end comes after
// the record is completed (B079).
func TestAStreamedResponseArrivesAsItIsWritten(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network))
	for name, flush := range map[string]func(http.ResponseWriter) error{
		"Flusher":            func(rw http.ResponseWriter) error { rw.(http.Flusher).Flush(); return nil },
		"ResponseController": func(rw http.ResponseWriter) error { return http.NewResponseController(rw).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := make(chan struct{})
			e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/event-stream")
				for n := range 3 {
					_, _ = fmt.Fprintf(rw, "data: %d\n\n", n)
					if err := flush(rw); err != nil {
						t.Error(err)
					}
					<-next
				}
			}))
			key := newKey()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/v1/charges", strings.NewReader(`{"amount":4999}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", key)
			req.Header.Set("Content-Type", "application/json")
			transport := &http.Transport{DisableKeepAlives: true}
			resp, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // it is read to its end
			events := bufio.NewReader(resp.Body)
			for n := range 3 {
				for _, want := range []string{fmt.Sprintf("data: %d\n", n), "\n"} {
					if line, err := events.ReadString('\n'); err != nil || line != want {
						t.Fatalf("%q, %v; want %q", line, err, want)
					}
				}
				next <- struct{}{}
			}
			if _, err := events.ReadByte(); err != io.EOF {
				t.Errorf("%v after the last event", err)
			}
			again := e.charge(t, key).wantReplay(t)
			if again.body != "data: 0\n\ndata: 1\n\ndata: 2\n\n" || again.header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("the replay is %q, %v", again.body, again.header)
			}
		})
	}
}

// TestAResponseIsStoredBeforeItsLastByteIsSent holds back the completion: when
// it arrives at the service, the end of the answer has not been sent. That is
// the last byte of a declared length, or else what net/http sends when the
// handlers have returned.
func TestAResponseIsStoredBeforeItsLastByteIsSent(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		before  int64 // bytes that are sent before the completion
	}{
		"buffered": {func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "0123456789") }, 0},
		"flushed, chunked": {func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "0123456789")
			rw.(http.Flusher).Flush()
		}, 10},
		"flushed, of a declared length": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "10")
			for _, part := range []string{"01234", "56789"} {
				_, _ = io.WriteString(rw, part)
				rw.(http.Flusher).Flush()
			}
		}, 9},
		"over the limit, of a declared length": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "100")
			for range 10 {
				_, _ = io.WriteString(rw, "0123456789")
			}
		}, 99},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := newWire(t)
			c := newClient(t, w, over(network))
			var sent, sentBefore atomic.Int64
			var returned atomic.Bool
			sentBefore.Store(-1)
			network.cut(func(r *http.Request) fault {
				if r.Method == http.MethodPut && sentBefore.CompareAndSwap(-1, sent.Load()) && returned.Load() {
					t.Error("the handlers have returned before the record is told")
				}
				return passes
			})
			e := protect(t, c, client.Middleware{Default: client.Route{MaxStoredBytes: 50}}, tc.handler, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					defer returned.Store(true)
					next.ServeHTTP(countingWriter{rw, &sent}, r)
				})
			})
			key := newKey()
			first := e.charge(t, key)
			if sentBefore.Load() != tc.before {
				t.Errorf("%d bytes were sent before the completion, want %d", sentBefore.Load(), tc.before)
			}
			if first.err != nil || !strings.HasSuffix(first.body, "0123456789") || len(first.body)%10 != 0 {
				t.Errorf("%+v", first)
			}
			returned.Store(false)
			again := e.charge(t, key).wantReplay(t)
			if omitted := len(first.body) > 50; omitted != (again.header.Get("Onceward-Body-Omitted") == "true") || !omitted && again.body != first.body {
				t.Errorf("the replay is %+v", again)
			}
		})
	}
}

// countingWriter counts the bytes of the body that pass.
type countingWriter struct {
	http.ResponseWriter

	n *atomic.Int64
}

func (w countingWriter) Write(p []byte) (int, error) {
	w.n.Add(int64(len(p)))
	return w.ResponseWriter.Write(p)
}

func (w countingWriter) Flush() { w.ResponseWriter.(http.Flusher).Flush() }

// TestARecordHasWhatTheHandlerDecided breaks the delivery outside, in three
// ways: the handler's own response is stored (B105).
func TestARecordHasWhatTheHandlerDecided(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	large := strings.Repeat("x", 100_000)

	t.Run("a time-out outside", func(t *testing.T) {
		t.Parallel()
		key, at, late, ended := newKey(), make(chan struct{}), make(chan struct{}), make(chan struct{})
		e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			close(at)
			<-late
			if r.Context().Err() != nil {
				t.Error("the work was stopped")
			}
			_, _ = io.WriteString(rw, "done")
		}), func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { // as http.TimeoutHandler, but on a signal
				ctx, timeOut := context.WithCancel(r.Context())
				go func() {
					defer close(ended)
					next.ServeHTTP(&deafWriter{header: make(http.Header)}, r.WithContext(ctx))
				}()
				<-at
				timeOut()
				rw.WriteHeader(http.StatusServiceUnavailable)
			})
		})
		if answer := e.charge(t, key); answer.status != http.StatusServiceUnavailable {
			t.Fatalf("%+v, want the outer handler's 503", answer)
		}
		close(late)
		<-ended
		op := charge(key)
		if record := recordOf(t, c, op); record.Status != 200 || string(record.Response.Body) != "done" {
			t.Errorf("record %+v", record)
		}
	})
	t.Run("a connection that breaks", func(t *testing.T) {
		t.Parallel()
		key, gone := newKey(), make(chan struct{})
		var wrote error
		e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.(http.Flusher).Flush()
			<-gone
			for range 100 { // until the connection says that it is gone, and beyond
				if _, err := io.WriteString(rw, large[:1000]); err != nil {
					wrote = err
				}
				rw.(http.Flusher).Flush()
			}
		}))
		conn, err := net.Dial("tcp", strings.TrimPrefix(e.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "POST /v1/charges HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\nContent-Length: 15\r\n\r\n{\"amount\":4999}", key)
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
		close(gone)
		op := charge(key)
		op.Wait = 20 * time.Second
		if record := recordOf(t, c, op); string(record.Response.Body) != large {
			t.Errorf("%d bytes are stored, want %d", record.BodyBytes, len(large))
		}
		if wrote != nil {
			t.Errorf("the handler was told of the end user's connection: %v", wrote)
		}
	})
	t.Run("a compressor outside", func(t *testing.T) {
		t.Parallel()
		e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "plain")
		}), func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { next.ServeHTTP(upperWriter{rw}, r) })
		})
		key := newKey()
		first, again := e.charge(t, key), e.charge(t, key).wantReplay(t)
		if first.body != "PLAIN" || again.body != "PLAIN" {
			t.Errorf("first %q, again %q; want both through the outer writer", first.body, again.body)
		}
	})
}

// deafWriter takes nothing any more, as that of a handler that timed out.
type deafWriter struct{ header http.Header }

func (w *deafWriter) Header() http.Header       { return w.header }
func (w *deafWriter) WriteHeader(int)           {}
func (w *deafWriter) Write([]byte) (int, error) { return 0, http.ErrHandlerTimeout }

// upperWriter changes what passes, as a compressor does.
type upperWriter struct{ http.ResponseWriter }

func (w upperWriter) Write(p []byte) (int, error) {
	_, err := w.ResponseWriter.Write([]byte(strings.ToUpper(string(p))))
	return len(p), err
}

// TestReplaysAreFramedAsTheFirstAnswer compares first and replay of every kind
// of response.
func TestReplaysAreFramedAsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	for name, tc := range map[string]struct {
		method  string
		handler http.HandlerFunc
	}{
		"nothing":                {"POST", func(http.ResponseWriter, *http.Request) {}},
		"204":                    {"POST", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }},
		"304":                    {"POST", func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Etag", `"1"`); rw.WriteHeader(304) }},
		"a sniffed content type": {"POST", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "<html>") }},
		"no content type": {"POST", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Content-Type"] = nil
			_, _ = io.WriteString(rw, "<html>")
		}},
		"headers twice": {"POST", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header()["Link"] = []string{"<b>", "<a>"}
			rw.Header()["x-lower"] = []string{"1"}
		}},
		"every byte": {"POST", func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(everyByte()) }},
		"an error":   {"POST", func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "declined", http.StatusPaymentRequired) }},
		"HEAD": {"HEAD", func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "a body that HEAD does not send")
		}},
		"HEAD without a body":       {"HEAD", func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("X-A", "1") }},
		"headers after WriteHeader": {"POST", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(201); rw.Header().Set("X-Late", "1") }},
		"a length that it keeps": {"POST", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(rw, "ok")
		}},
		"an outer header, changed":    {"POST", func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Add("Vary", "Accept") }},
		"an outer header, taken away": {"POST", func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Del("X-Outer-Default") }},
		"an outer content type":       {"POST", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "{}") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			e := protect(t, c, client.Middleware{Methods: []string{"POST", "HEAD"}}, tc.handler, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					n++
					rw.Header().Set("X-Request-Number", fmt.Sprint(n))
					rw.Header().Set("Vary", "Origin")
					if name == "an outer content type" {
						rw.Header().Set("Content-Type", "application/vnd.outer+json")
					}
					next.ServeHTTP(rw, r)
				})
			})
			key := newKey()
			first := e.send(t, tc.method, "/v1/charges", "", "Idempotency-Key", key)
			again := e.send(t, tc.method, "/v1/charges", "", "Idempotency-Key", key).wantReplay(t)
			if first.header.Get("X-Request-Number") != "1" || again.header.Get("X-Request-Number") != "2" {
				t.Errorf("the outer handler's own header is %q, then %q", first.header.Get("X-Request-Number"), again.header.Get("X-Request-Number"))
			}
			for _, h := range []string{"X-Request-Number", "Date", "Idempotent-Replay", "Idempotent-Replayed", "Connection"} {
				first.header.Del(h)
				again.header.Del(h)
			}
			if diff := cmp.Diff(first, again, cmp.AllowUnexported(got{}), cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) })); diff != "" {
				t.Errorf("(-first +replay):\n%s", diff)
			}
		})
	}
}

// TestInformationalAnswersPassAndAreNotStored sends 103 before the answer.
func TestInformationalAnswersPassAndAreNotStored(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	e := protect(t, newClient(t, w), client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Link", "</style.css>; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.Header().Set("X-Final", "1")
		rw.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(rw, "made")
	}))
	key := newKey()
	send := func() (hints int, answer got) {
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			if code == 103 && header.Get("Link") != "" && header.Get("X-Final") == "" {
				hints++
			}
			return nil
		}})
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", key)
		answer = e.do(t, req)
		return hints, answer
	}
	if hints, first := send(); hints != 1 || first.status != 201 || first.body != "made" {
		t.Errorf("%d hints, %+v", hints, first)
	}
	if hints, again := send(); hints != 0 || again.wantReplay(t).status != 201 || again.header.Get("X-Final") != "1" {
		t.Errorf("%d hints, %+v", hints, again)
	}
}

func TestTrailersReachTheEndUser(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	e := protect(t, newClient(t, w), client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Trailer", "X-Declared")
		_, _ = io.WriteString(rw, "body")
		rw.Header().Set("X-Declared", "1")
		rw.Header().Set(http.TrailerPrefix+"X-Surprise", "2")
	}))
	answer := e.charge(t, newKey())
	if answer.body != "body" || answer.trailer.Get("X-Declared") != "1" || answer.trailer.Get("X-Surprise") != "2" || answer.header.Get("X-Declared") != "" {
		t.Errorf("%+v", answer)
	}
}

// TestWhatCannotBeKeptIsKnownToBeDone answers with more than is stored, and
// takes the connection over: the work is not done again.
func TestWhatCannotBeKeptIsKnownToBeDone(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BodyLimit(1000))
	c := newClient(t, w)
	for name, tc := range map[string]struct {
		limit   int
		handler http.HandlerFunc
		sent    string
	}{
		"over the middleware's limit": {500, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/csv")
			rw.Header().Set("X-Rows", "60")
			for range 60 {
				_, _ = io.WriteString(rw, "0123456789")
			}
		}, strings.Repeat("0123456789", 60)},
		"in one piece": {500, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("X-Rows", "60")
			_, _ = io.WriteString(rw, strings.Repeat("0123456789", 60))
		}, strings.Repeat("0123456789", 60)},
		"over the tenant's limit": {0, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("X-Rows", "60")
			_, _ = io.WriteString(rw, strings.Repeat("0123456789", 101))
		}, strings.Repeat("0123456789", 101)},
		"compressed": {500, func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("X-Rows", "60")
			rw.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(rw, strings.Repeat("0123456789", 60))
		}, strings.Repeat("0123456789", 60)},
		"a connection that is taken over": {0, func(rw http.ResponseWriter, _ *http.Request) {
			conn, buffered, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = buffered.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nby hand")
			_ = buffered.Flush()
			_ = conn.Close()
			if _, err := rw.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
				t.Errorf("Write after Hijack: %v", err)
			}
		}, "by hand"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			e := protect(t, c, client.Middleware{Default: client.Route{MaxStoredBytes: tc.limit}}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				runs++
				tc.handler(rw, r)
			}))
			key := newKey()
			if first := e.charge(t, key); first.status != 200 || first.body != tc.sent || first.err != nil {
				t.Errorf("status %d, %d bytes, %v", first.status, len(first.body), first.err)
			}
			again := e.charge(t, key).wantReplay(t)
			if again.status != 200 || again.body != "" || again.header.Get("Onceward-Body-Omitted") != "true" || again.header.Get("Content-Type") != "" ||
				again.header.Get("Content-Encoding") != "" || again.length != 0 || name != "a connection that is taken over" && again.header.Get("X-Rows") != "60" {
				t.Errorf("the replay is %+v", again)
			}
			if runs != 1 {
				t.Errorf("it ran %d times", runs)
			}
		})
	}
}

// TestTheRulesOfAResponseWriterHold breaks them.
func TestTheRulesOfAResponseWriterHold(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/no-body":
			rw.WriteHeader(204)
			if _, err := io.WriteString(rw, "x"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Errorf("a body of 204: %v", err)
			}
			rw.WriteHeader(500) // the second decision counts for nothing
		case "/too-long":
			rw.Header().Set("Content-Length", "2")
			_, _ = io.WriteString(rw, "ok")
			if _, err := io.WriteString(rw, "x"); !errors.Is(err, http.ErrContentLength) {
				t.Errorf("a body over its length: %v", err)
			}
		case "/deadline":
			if err := http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Errorf("the deadline of the writer below: %v", err)
			}
		}
	}))
	for path, status := range map[string]int{"/no-body": 204, "/too-long": 200, "/deadline": 200} {
		if answer := e.send(t, http.MethodPost, path, "", "Idempotency-Key", newKey()); answer.status != status {
			t.Errorf("%s: %+v", path, answer)
		}
	}
	// Where the writer below cannot flush, nobody is made to believe it can.
	wrap, err := c.Protect(client.Middleware{Caller: client.SingleCaller()})
	if err != nil {
		t.Fatal(err)
	}
	asked := false
	handler := http.TimeoutHandler(wrap(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		asked = true
		if _, ok := rw.(http.Flusher); ok {
			t.Error("it says that it can flush")
		}
		if err := http.NewResponseController(rw).Flush(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Flush: %v", err)
		}
	})), time.Minute, "")
	server := newServer(t, handler)
	server.send(t, http.MethodPost, "/", "", "Idempotency-Key", newKey())
	if !asked {
		t.Error("it did not run")
	}
}

func TestAHandlerThatPanicsLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	runs := 0
	recovered := make(chan any, 1)
	e := protect(t, newClient(t, w), client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		runs++
		rw.WriteHeader(201)
		panic("halfway")
	}), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			defer func() {
				if said := recover(); said != nil {
					recovered <- said
					rw.WriteHeader(500)
				}
			}()
			next.ServeHTTP(rw, r)
		})
	})
	key := newKey()
	if answer := e.charge(t, key); answer.status != 500 || <-recovered != "halfway" {
		t.Errorf("%+v", answer)
	}
	conflict := e.charge(t, key)
	conflict.wantProblem(t, 409, client.ErrOutcomeUnknown)
	if conflict.header.Get("Retry-After") != "" || runs != 1 {
		t.Errorf("%v after %d runs; want no Retry-After: waiting decides nothing", conflict.header, runs)
	}
}

func TestAHandlerCanSayThatNothingHappened(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	runs := 0
	e := protect(t, newClient(t, w), client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if runs++; runs == 1 {
			if !client.NotDoneHere(r.Context()) {
				t.Error("nothing protects it")
			}
			http.Error(rw, "the provider refused the connection", http.StatusServiceUnavailable)
			return
		}
		rw.WriteHeader(http.StatusCreated)
	}))
	key := newKey()
	if first := e.charge(t, key); first.status != 503 || first.header.Get("Onceward-Stored") != "" {
		t.Errorf("first %+v", first)
	}
	if again := e.charge(t, key); again.status != 201 || again.header.Get("Idempotent-Replay") != "" || runs != 2 {
		t.Errorf("again %+v after %d runs", again, runs)
	}
	if client.NotDoneHere(context.Background()) {
		t.Error("something protects a bare context")
	}
}

// TestAHandlerCanSayThatNobodyKnows answers 504, as after a time-out at a
// provider: it goes out as it is, and no retry runs or is told 504 for good.
func TestAHandlerCanSayThatNobodyKnows(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	for name, flush := range map[string]bool{"buffered": false, "streamed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			var id client.RecordID
			e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				runs++
				lease, _ := client.LeaseFrom(r.Context())
				id = lease.ID
				client.NotDoneHere(r.Context()) // in a first step; the second outweighs it
				if !client.UnknownHere(r.Context()) {
					t.Error("nothing protects it")
				}
				client.NotDoneHere(r.Context())
				http.Error(rw, "the provider did not answer", http.StatusGatewayTimeout)
				if flush {
					rw.(http.Flusher).Flush()
				}
			}))
			key := newKey()
			if first := e.charge(t, key); first.status != 504 || first.body != "the provider did not answer\n" || first.header.Get("Onceward-Stored") != "" || first.err != nil {
				t.Errorf("first %+v", first)
			}
			e.charge(t, key).wantProblem(t, 409, client.ErrOutcomeUnknown)
			if record := inspect(t, c, id); record.State != client.StateUnknown || runs != 1 {
				t.Errorf("the record is %s after %d runs, want unknown after 1", record.State, runs)
			}
		})
	}
	if client.UnknownHere(context.Background()) {
		t.Error("something protects a bare context")
	}
}

// TestAnEndUserWhoHangsUpDoesNotStopTheWork closes the connection while the
// handler works.
func TestAnEndUserWhoHangsUpDoesNotStopTheWork(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	at, left := make(chan struct{}), make(chan struct{})
	outer := make(chan struct{})
	e := protect(t, newClient(t, w), client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		close(at)
		<-left
		if r.Context().Err() != nil {
			t.Error("its context ended")
		}
		_, _ = io.WriteString(rw, "done")
	}), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-First") != "" {
				context.AfterFunc(r.Context(), func() { close(outer) })
			}
			next.ServeHTTP(rw, r)
		})
	})
	ctx, hangUp := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v1/charges", strings.NewReader(`{"amount":4999}`))
	if err != nil {
		t.Fatal(err)
	}
	key := newKey()
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-First", "1")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-at
	hangUp()
	<-outer // the server has noticed
	close(left)
	<-ended
	if again := e.charge(t, key).wantReplay(t); again.body != "done" {
		t.Errorf("%+v", again)
	}
}
