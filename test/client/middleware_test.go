package client_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// charges is a handler that charges, and counts.
type charges struct{ made atomic.Int64 }

func (c *charges) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	n := c.made.Add(1)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("/v1/charges/%d", n))
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"charge":%d}`, n)
}

func TestARequestRunsOnceAndItsRetriesGetItsResponse(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	for name, route := range map[string]client.Route{"the service's fingerprint": {}, "a local one": {LocalFingerprint: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var made charges
			e := protect(t, c, client.Middleware{Default: route}, &made)
			key := newKey()
			first := e.charge(t, key)
			if first.status != 201 || first.body != `{"charge":1}` || first.header.Get("Idempotent-Replay") != "" || first.header.Get("Onceward-Stored") != "" {
				t.Fatalf("first %+v", first)
			}
			again := e.charge(t, key).wantReplay(t)
			if again.status != 201 || again.body != first.body || again.header.Get("Location") != "/v1/charges/1" ||
				again.header.Get("Content-Type") != "application/json" || again.header.Get("Idempotent-Replayed") != "true" || again.length != int64(len(first.body)) {
				t.Errorf("again %+v, want what was answered first", again)
			}
			mismatch := e.send(t, http.MethodPost, "/v1/charges", `{"amount":1}`, "Idempotency-Key", key, "Content-Type", "application/json")
			differs := mismatch.wantProblem(t, 409, client.ErrMismatch)["differs"]
			want := []any{"body"}
			if route.LocalFingerprint {
				want = []any{"fingerprint"}
			}
			if diff := cmp.Diff(any(want), differs); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
			if e.charge(t, newKey()); made.made.Load() != 2 {
				t.Errorf("%d charges for two keys", made.made.Load())
			}
		})
	}
}

// TestTheHeaderOfOlderClientsCanBeLeftOut replays without Idempotent-Replayed.
func TestTheHeaderOfOlderClientsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	e := protect(t, newClient(t, apitest.New(t)), client.Middleware{OnlyIdempotentReplay: true}, &charges{})
	key := newKey()
	e.charge(t, key)
	if again := e.charge(t, key).wantReplay(t); again.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%v", again.header)
	}
}

// TestFiveTapsAreOneCharge sends a request five times at once, while the first
// is at work.
func TestFiveTapsAreOneCharge(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var made charges
	e := protect(t, newClient(t, w), client.Middleware{}, &made)
	key := newKey()
	var taps sync.WaitGroup
	for range 5 {
		taps.Go(func() {
			if answer := e.charge(t, key); answer.status != 201 || answer.body != `{"charge":1}` {
				t.Errorf("%+v", answer)
			}
		})
	}
	taps.Wait()
	if made.made.Load() != 1 {
		t.Errorf("%d charges, want 1", made.made.Load())
	}
}

func TestWhoDoesNotWaitIsToldWhen(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	at, leave := make(chan struct{}), make(chan struct{})
	e := protect(t, newClient(t, w), client.Middleware{Default: client.Route{Wait: -1}}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(at)
		<-leave
	}))
	key := newKey()
	done := make(chan got, 1)
	go func() { done <- e.charge(t, key) }()
	<-at
	conflict := e.charge(t, key)
	document := conflict.wantProblem(t, 409, client.ErrInProgress)
	if conflict.header.Get("Retry-After") == "" || document["retry_after"] == nil || document["attempt"] != 1.0 || document["lease_expires_at"] == nil {
		t.Errorf("%v %v, want when to come back", conflict.header, document)
	}
	close(leave)
	if first := <-done; first.status != 200 {
		t.Errorf("first %+v", first)
	}
}

func TestAMissingOrMalformedKeyIsRefusedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var made charges
	optional := client.Middleware{Routes: map[string]client.Route{"POST /v1/notes": {KeyOptional: true}}, ProblemBaseURL: "https://docs.example/errors"}
	e := protect(t, newClient(t, w), optional, &made)
	missing := e.charge(t, "").wantProblem(t, 400, client.ErrMissingKey)
	if missing["type"] != "https://docs.example/errors/missing_key" {
		t.Errorf("type %v", missing["type"])
	}
	e.charge(t, "short").wantProblem(t, 400, client.ErrInvalidKey)
	e.send(t, http.MethodPost, "/v1/notes", "", "Idempotency-Key", "short").wantProblem(t, 400, client.ErrInvalidKey)
	two := e.send(t, http.MethodPost, "/v1/charges", "{}", "Idempotency-Key", "12345678", "Idempotency-Key", "12345678")
	two.wantProblem(t, 400, client.ErrInvalidKey)
	if made.made.Load() != 0 {
		t.Errorf("%d ran", made.made.Load())
	}
	// Where a key is optional, a request without one runs each time; none is made up.
	for range 2 {
		if answer := e.send(t, http.MethodPost, "/v1/notes", ""); answer.status != 201 {
			t.Errorf("%+v", answer)
		}
	}
	if e.send(t, http.MethodGet, "/v1/charges", ""); made.made.Load() != 3 {
		t.Errorf("%d ran, want 3: GET is not protected", made.made.Load())
	}
}

// TestTheKeyIsTheSameInAnyLetterCase sends it on the wire as three clients do,
// over HTTP/1.1 and HTTP/2, bare and in quotes (B121).
func TestTheKeyIsTheSameInAnyLetterCase(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var made charges
	wrap, err := newClient(t, w).Protect(client.Middleware{Caller: client.SingleCaller()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(wrap(&made))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	plain := httptest.NewServer(wrap(&made))
	t.Cleanup(plain.Close)

	key := newKey()
	for _, line := range []string{"idempotency-key: " + key, "IDEMPOTENCY-KEY: " + key, "Idempotency-Key: " + key, `idempotency-Key: "` + key + `"`} {
		conn, err := net.Dial("tcp", plain.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "POST /v1/charges HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+line+"\r\nContent-Length: 2\r\n\r\n{}")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != 201 {
			t.Errorf("%s: status %d", line, resp.StatusCode)
		}
		_ = resp.Body.Close()
		_ = conn.Close()
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/charges", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.Header.Get("idempotent-replay") != "true" {
		t.Errorf("%s: %v, want a replay over HTTP/2", resp.Proto, resp.Header)
	}
	if made.made.Load() != 1 {
		t.Errorf("%d charges, want 1", made.made.Load())
	}
}

func TestTheCallerIsPartOfWhoseKeyItIs(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	if _, err := c.Protect(client.Middleware{}); err == nil || !strings.Contains(err.Error(), "Caller") {
		t.Errorf("a middleware without a caller starts: %v", err)
	}
	var made charges
	e := protect(t, c, client.Middleware{Caller: func(r *http.Request) (string, error) {
		switch account := r.Header.Get("X-Test-Account"); account {
		case "":
			return "", errors.New("nobody is signed in")
		case "empty":
			return "", nil
		default:
			return account, nil
		}
	}}, &made)
	key := newKey()
	as := func(account string) got {
		return e.send(t, http.MethodPost, "/v1/charges", "{}", "Idempotency-Key", key, "X-Test-Account", account)
	}
	if a, b := as("a"), as("b"); a.body != `{"charge":1}` || b.body != `{"charge":2}` {
		t.Errorf("a %+v, b %+v; want a charge for each", a, b)
	}
	if again := as("a").wantReplay(t); again.body != `{"charge":1}` {
		t.Errorf("a was answered with %s", again.body)
	}
	as("").wantProblem(t, 403, client.ErrForbidden)
	as("empty").wantProblem(t, 500, client.ErrInternal) // or all customers would be one
	if made.made.Load() != 2 {
		t.Errorf("%d charges, want 2", made.made.Load())
	}
}

// TestTheRecordIsThatOfTheRequestAsItCame lets the handler change everything
// (B015).
func TestTheRecordIsThatOfTheRequestAsItCame(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	runs := 0
	e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		runs++
		body, _ := io.ReadAll(r.Body)
		for i := range body {
			body[i] = 'x'
		}
		r.Method, r.URL.Path, r.URL.RawQuery, r.RequestURI, r.Pattern = "DELETE", "/elsewhere", "b=2", "/elsewhere?b=2", "DELETE /elsewhere"
		r.Header.Set("Idempotency-Key", "another-key")
		r.Header.Set("Content-Type", "text/plain")
		r.Body = io.NopCloser(strings.NewReader("another body"))
		rw.WriteHeader(http.StatusCreated)
	}))
	key := newKey()
	send := func() got {
		return e.send(t, http.MethodPost, "/v1/charges?a=1", `{"amount":4999}`, "Idempotency-Key", key, "Content-Type", "application/json")
	}
	if first := send(); first.status != 201 {
		t.Fatalf("%+v", first)
	}
	send().wantReplay(t)
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
	record := recordOf(t, c, client.Operation{Key: key, Name: "POST /v1/charges", Request: &client.Request{
		Method: "POST", Path: "/v1/charges", Query: "a=1", ContentType: "application/json", Body: []byte(`{"amount":4999}`),
	}})
	if record.Attempt != 1 || record.Status != 201 {
		t.Errorf("record %+v", record)
	}
	only := found(t, newClient(t, w, withKey(w.Tenant.Admin)), client.Search{}, 1)[0]
	if only.ID != record.ID || only.Key != key || only.Operation != "POST /v1/charges" {
		t.Errorf("found %+v", only)
	}
}

// TestTheBodyReachesTheHandlerAsItWasSent passes every kind of body (B077).
func TestTheBodyReachesTheHandlerAsItWasSent(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BodyLimit(8<<20))
	c := newClient(t, w)
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = zip.Write([]byte(`{"amount":4999}`))
	_ = zip.Close()
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	_ = parts.WriteField("amount", "4999")
	file, _ := parts.CreateFormFile("receipt", "r.bin")
	_, _ = file.Write(everyByte())
	_ = parts.Close()

	for name, tc := range map[string]struct {
		body    []byte
		headers []string
		chunked bool
	}{
		"nothing":       {nil, nil, false},
		"one byte":      {[]byte("x"), nil, false},
		"5 MB":          {bytes.Repeat([]byte("0123456789abcdef"), 5<<16), nil, false},
		"chunked":       {[]byte(`{"amount":4999}`), []string{"Content-Type", "application/json"}, true},
		"empty chunked": {nil, nil, true},
		"gzip":          {zipped.Bytes(), []string{"Content-Encoding", "gzip", "Content-Type", "application/json"}, false},
		"multipart":     {form.Bytes(), []string{"Content-Type", parts.FormDataContentType()}, false},
		"a form":        {[]byte("amount=4999&amount=1"), []string{"Content-Type", "application/x-www-form-urlencoded"}, false},
		"Expect":        {[]byte("to be continued"), []string{"Expect", "100-continue"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []byte
			var length int64
			var amount string
			var files int
			e := protect(t, c, client.Middleware{Default: client.Route{MaxBodyBytes: 8 << 20}}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				length = r.ContentLength
				if strings.Contains(r.Header.Get("Content-Type"), "form") {
					amount = r.PostFormValue("amount")
					if r.MultipartForm != nil {
						files = len(r.MultipartForm.File["receipt"])
					}
					return
				}
				var err error
				if seen, err = io.ReadAll(r.Body); err != nil {
					t.Error(err)
				}
			}))
			send := func(key string) got {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/v1/charges?q", bytes.NewReader(tc.body))
				if err != nil {
					t.Fatal(err)
				}
				if tc.chunked {
					req.ContentLength, req.Body = -1, io.NopCloser(struct{ io.Reader }{bytes.NewReader(tc.body)})
				}
				req.Header.Set("Idempotency-Key", key)
				for i := 0; i < len(tc.headers); i += 2 {
					req.Header.Set(tc.headers[i], tc.headers[i+1])
				}
				return e.do(t, req)
			}
			key := newKey()
			if answer := send(key); answer.status != 200 {
				t.Fatalf("%+v", answer)
			}
			want := int64(len(tc.body))
			if tc.chunked {
				want = -1
			}
			if length != want {
				t.Errorf("ContentLength %d, want %d", length, want)
			}
			switch {
			case amount != "":
				if amount != "4999" || name == "multipart" && files != 1 {
					t.Errorf("the form has amount %q and %d files", amount, files)
				}
			case !bytes.Equal(seen, tc.body):
				t.Errorf("the handler read %d bytes, want the %d sent", len(seen), len(tc.body))
			}
			send(key).wantReplay(t)
		})
	}
}

// TestTheSamePayloadCompressedAgainIsTheSame sends other bytes of gzip, as a
// client does that writes the time into them.
func TestTheSamePayloadCompressedAgainIsTheSame(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	e := protect(t, newClient(t, w), client.Middleware{}, &charges{})
	compressed := func(payload string, at time.Time) string {
		var b bytes.Buffer
		zip, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		zip.ModTime = at
		_, _ = zip.Write([]byte(payload))
		_ = zip.Close()
		return b.String()
	}
	key := newKey()
	send := func(payload string, at time.Time) got {
		return e.send(t, http.MethodPost, "/v1/charges", compressed(payload, at), "Idempotency-Key", key, "Content-Encoding", "gzip", "Content-Type", "application/json")
	}
	send(`{"amount":4999}`, time.Unix(1, 0))
	send(`{"amount": 4999}`, time.Unix(2, 0)).wantReplay(t)
	send(`{"amount":1}`, time.Unix(1, 0)).wantProblem(t, 409, client.ErrMismatch)
}

func TestABodyThatIsNotWholeDoesNotRun(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var made charges
	readsFirst := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/consumed" {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			next.ServeHTTP(rw, r)
		})
	}
	e := protect(t, newClient(t, w), client.Middleware{Default: client.Route{MaxBodyBytes: 1000}}, &made, readsFirst)
	e.send(t, http.MethodPost, "/", strings.Repeat("x", 1001), "Idempotency-Key", newKey()).wantProblem(t, 413, client.ErrBodyTooLarge)
	e.send(t, http.MethodPost, "/consumed", "payload", "Idempotency-Key", newKey()).wantProblem(t, 500, client.ErrInternal)
	chunked, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url, struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 1001))})
	if err != nil {
		t.Fatal(err)
	}
	chunked.Header.Set("Idempotency-Key", newKey())
	e.do(t, chunked).wantProblem(t, 413, client.ErrBodyTooLarge)
	// A small body that grows (B057 as well: it is never walked recursively).
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = zip.Write(bytes.Repeat([]byte("["), 5<<20))
	_ = zip.Close()
	if bomb.Len() < 1000 {
		t.Fatal("the bomb is no bomb")
	}
	e.send(t, http.MethodPost, "/", bomb.String(), "Idempotency-Key", newKey(), "Content-Encoding", "gzip", "Content-Type", "application/json").wantProblem(t, 413, client.ErrBodyTooLarge)
	if made.made.Load() != 0 {
		t.Errorf("%d ran", made.made.Load())
	}
}

// TestFiveMegabytesOfBracketsAreAPayloadLikeAnother feeds them to the local
// fingerprint (B057).
func TestFiveMegabytesOfBracketsAreAPayloadLikeAnother(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var made charges
	e := protect(t, newClient(t, w), client.Middleware{Default: client.Route{LocalFingerprint: true, MaxBodyBytes: 8 << 20}}, &made)
	key, brackets := newKey(), strings.Repeat("[", 5<<20)
	for range 2 {
		if answer := e.send(t, http.MethodPost, "/", brackets, "Idempotency-Key", key, "Content-Type", "application/json"); answer.status != 201 {
			t.Fatalf("status %d", answer.status)
		}
	}
	if made.made.Load() != 1 {
		t.Errorf("%d ran, want 1", made.made.Load())
	}
}

// TestTheOperationIsTheRoute goes through each of the places where a middleware
// can stand.
func TestTheOperationIsTheRoute(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	operation := make(chan string, 1)
	handler := func(_ http.ResponseWriter, r *http.Request) {
		lease, ok := client.LeaseFrom(r.Context())
		if !ok {
			operation <- "unprotected"
			return
		}
		operation <- lease.Operation
	}
	wrap := func(m client.Middleware) func(http.Handler) http.Handler {
		m.Caller = client.SingleCaller()
		middleware, err := c.Protect(m)
		if err != nil {
			t.Fatal(err)
		}
		return middleware
	}
	routes := map[string]client.Route{"POST /v1/charges/{id}/refund": {}, "PUT /v1/plans/{id}": {}, "POST /v1/ping": {Unprotected: true}, "/v1/any/{rest...}": {}}

	inside := http.NewServeMux()
	inside.Handle("POST /v1/charges/{id}/refund", wrap(client.Middleware{})(http.HandlerFunc(handler)))
	inside.Handle("/v1/any/{id}", wrap(client.Middleware{})(http.HandlerFunc(handler)))
	outside := wrap(client.Middleware{Routes: routes})(http.HandlerFunc(handler))
	ofChi := chi.NewRouter()
	ofChi.With(wrap(client.Middleware{})).Post("/v1/charges/{id}/refund", handler)
	ofChi.With(wrap(client.Middleware{Operation: func(*http.Request) string { return "refund" }})).Post("/v1/named", handler)
	aroundChi := chi.NewRouter()
	aroundChi.Use(wrap(client.Middleware{Routes: routes}))
	aroundChi.Route("/v1", func(r chi.Router) { r.Post("/charges/{id}/refund", handler) })

	for name, tc := range map[string]struct {
		handler      http.Handler
		method, path string
		want         string
	}{
		"inside a ServeMux":                {inside, "POST", "/v1/charges/7/refund", "POST /v1/charges/{id}/refund"},
		"a pattern for every method":       {inside, "PATCH", "/v1/any/7", "PATCH /v1/any/{id}"},
		"around a router":                  {outside, "POST", "/v1/charges/7/refund", "POST /v1/charges/{id}/refund"},
		"another method by its route":      {outside, "PUT", "/v1/plans/7", "PUT /v1/plans/{id}"},
		"a method that is not protected":   {outside, "PUT", "/v1/charges", "unprotected"},
		"a route that is not protected":    {outside, "POST", "/v1/ping", "unprotected"},
		"a route that nobody named":        {outside, "POST", "/v1/charges", "POST /v1/charges"},
		"a route for every method, by GET": {outside, "GET", "/v1/any/7/8", "GET /v1/any/{rest...}"},
		"inside chi":                       {ofChi, "POST", "/v1/charges/7/refund", "POST /v1/charges/{id}/refund"},
		"a name of its own":                {ofChi, "POST", "/v1/named", "refund"},
		"around chi":                       {aroundChi, "POST", "/v1/charges/7/refund", "POST /v1/charges/{id}/refund"},
	} {
		recorder := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), tc.method, tc.path, nil)
		req.Header.Set("Idempotency-Key", newKey())
		tc.handler.ServeHTTP(recorder, req)
		if recorder.Code != 200 {
			t.Errorf("%s: status %d: %s", name, recorder.Code, recorder.Body)
			continue
		}
		if got := <-operation; got != tc.want {
			t.Errorf("%s: operation %q, want %q", name, got, tc.want)
		}
	}

	for name, bad := range map[string]client.Middleware{
		"a pattern that is none": {Routes: map[string]client.Route{"POST charges": {}}},
		"two that conflict":      {Routes: map[string]client.Route{"/a/{x}": {}, "/{y}/b": {}}},
		"half a second":          {Default: client.Route{Lease: time.Second / 2}},
		"pointers for nobody":    {Default: client.Route{IgnorePointers: []string{"/a"}}},
	} {
		bad.Caller = client.SingleCaller()
		if _, err := c.Protect(bad); err == nil {
			t.Errorf("%s: it starts", name)
		}
	}
}
