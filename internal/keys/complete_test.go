package keys

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

func (h *house) tryComplete(a Acquired, r Response) (Completion, error) {
	return h.service.Complete(h.t.Context(), h.caller, CompleteRequest{ID: a.ID.String(), Token: string(a.Lease.Token), Response: r})
}

// B039, B041: what is replayed is what was sent, to the byte.
func TestBodiesAreReplayedAsTheyWere(t *testing.T) {
	t.Parallel()
	h := setup(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, body := range map[string][]byte{
		"absent": nil, "empty": {}, "null": []byte("null"), "every byte": all,
		"odd JSON":               []byte("{ \"b\" : 1.10,\r\n \"a\":1e2, \"a\" : 2 }\n"),
		"just small enough":      bytes.Repeat([]byte("x"), inlineBodyBytes),
		"read separately":        bytes.Repeat([]byte("y\x00"), inlineBodyBytes),
		"as large as it may get": bytes.Repeat([]byte("z"), tenants.DefaultBodyLimit),
	} {
		for _, status := range []int{202, 204} {
			req := charge()
			a := h.acquire(h.caller, req)
			h.complete(h.caller, a, Response{Status: status, Body: body})
			replay := as[Replay](t, h.begin(h.caller, anew(req)))
			if sha256.Sum256(replay.Response.Body) != sha256.Sum256(body) || replay.Response.Status != status {
				t.Errorf("%s: %v replayed for %d bytes", name, replay.Response, len(body))
			}
			if got := h.inspect(a); got.BodyBytes != len(body) || !bytes.Equal(got.Response.Body, body) {
				t.Errorf("%s: inspect shows %v", name, got.Response)
			}
		}
	}
}

// B043: repeated names stay repeated, in order and letter case.
func TestHeadersAreReplayedInOrder(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	sent := []Header{
		{"Link", "</1>"}, {"Vary", "Accept"}, {"Link", "</2>"}, {"X-Trace", "a"}, {"x-trace", "B"}, {"Vary", "Origin"}, {"Link", "</3>"}, {"Empty", ""}, {"Tab", "a\tb"}, {"Utf", "é"},
	}
	done := h.complete(h.caller, a, Response{Status: 200, Headers: sent})
	if done.StoredHeaders != len(sent) || len(done.DroppedHeaders) != 0 {
		t.Errorf("got %+v", done)
	}
	if diff := cmp.Diff(as[Replay](t, h.begin(h.caller, anew(req))).Response.Headers, sent); diff != "" {
		t.Error(diff)
	}
}

func TestHeadersThatAreNeverStoredAreSaidByName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		policy tenants.Policy
		line   Header
		stored bool
	}{
		{"cookie", tenants.Policy{}, Header{"Set-Cookie", "a=b"}, false},
		{"cookie, other case", tenants.Policy{}, Header{"sEt-cOOkie2", "a=b"}, false},
		{"authorization", tenants.Policy{}, Header{"Authorization", "x"}, false},
		{"proxy authorization", tenants.Policy{}, Header{"Proxy-Authorization", "x"}, false},
		{"proxy authenticate", tenants.Policy{}, Header{"Proxy-Authenticate", "x"}, false},
		{"authentication info", tenants.Policy{}, Header{"Authentication-Info", "x"}, false},
		{"keep alive", tenants.Policy{}, Header{"Keep-Alive", "x"}, false},
		{"te", tenants.Policy{}, Header{"TE", "x"}, false},
		{"trailer", tenants.Policy{}, Header{"Trailer", "x"}, false},
		{"transfer encoding", tenants.Policy{}, Header{"Transfer-Encoding", "chunked"}, false},
		{"upgrade", tenants.Policy{}, Header{"Upgrade", "x"}, false},
		{"content length", tenants.Policy{}, Header{"Content-Length", "3"}, false},
		{"date", tenants.Policy{}, Header{"Date", "x"}, false},
		{"age", tenants.Policy{}, Header{"Age", "1"}, false},
		{"bearer elsewhere", tenants.Policy{}, Header{"X-Auth", "beaRer abc.def"}, false},
		{"bearer in a sentence", tenants.Policy{}, Header{"X-Auth", "Bearer of bad news"}, true},
		{"basic with a colon inside", tenants.Policy{}, Header{"X-Auth", "Basic dXNlcjpwYXNz"}, false},
		{"basic, padded", tenants.Policy{}, Header{"X-Auth", "basic dTpwdw=="}, false},
		{"basic without a colon", tenants.Policy{}, Header{"X-Auth", "Basic Zm9v"}, true},
		{"basic in words", tenants.Policy{}, Header{"X-Auth", "Basic training!"}, true},
		{"www-authenticate", tenants.Policy{}, Header{"WWW-Authenticate", "Bearer abc"}, true},
		{"no token as a name", tenants.Policy{}, Header{"X Foo", "1"}, false},
		{"empty name", tenants.Policy{}, Header{"", "1"}, false},
		{"line feed in the value", tenants.Policy{}, Header{"X", "a\r\nSet-Cookie: a=b"}, false},
		{"delete in the value", tenants.Policy{}, Header{"X", "a\x7fb"}, false},
		{"no UTF-8", tenants.Policy{}, Header{"X", "\xff"}, false},
		{"stripped by the policy", tenants.Policy{StripHeaders: []string{"x-internal"}}, Header{"X-Internal", "1"}, false},
		{"kept by the policy", tenants.Policy{KeepHeaders: []string{"x-a"}}, Header{"X-A", "1"}, true},
		{"not among those kept", tenants.Policy{KeepHeaders: []string{"x-a"}}, Header{"X-B", "1"}, false},
		{"outer blanks are trimmed", tenants.Policy{}, Header{"X", " \ta \t"}, true},
	} {
		stored, dropped := filterHeaders([]Header{test.line}, test.policy)
		if got := len(stored) == 1; got != test.stored {
			t.Errorf("%s: stored %v, want %v", test.name, got, test.stored)
		}
		if !test.stored && (len(dropped) != 1 || dropped[0] != test.line.Name) {
			t.Errorf("%s: dropped %q, want the name", test.name, dropped)
		}
	}
	stored, dropped := filterHeaders([]Header{{"X-Hop", "1"}, {"Connection", "close, x-hop"}, {"X", " a "}}, tenants.Policy{})
	if diff := cmp.Diff(stored, []Header{{"X", "a"}}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(dropped, []string{"X-Hop", "Connection"}); diff != "" {
		t.Error(diff)
	}
}

func TestHeadersBeyondTheLimitsAreDroppedNotRefused(t *testing.T) {
	t.Parallel()
	var lines []Header
	for i := range MaxHeaders + 1 {
		lines = append(lines, Header{fmt.Sprintf("X-%03d", i), "v"})
	}
	stored, dropped := filterHeaders(lines, tenants.Policy{})
	if len(stored) != MaxHeaders || !cmp.Equal(dropped, []string{"X-100"}) {
		t.Errorf("%d stored, dropped %v", len(stored), dropped)
	}
	fits := Header{"A", strings.Repeat("v", MaxHeaderBytes-1)}
	if stored, dropped = filterHeaders([]Header{fits}, tenants.Policy{}); len(stored) != 1 {
		t.Errorf("32 KiB together were not stored: %v", dropped)
	}
	over := Header{"A", strings.Repeat("v", MaxHeaderBytes)}
	stored, dropped = filterHeaders([]Header{over, {"B", "1"}}, tenants.Policy{})
	if len(stored) != 1 || stored[0].Name != "B" || !cmp.Equal(dropped, []string{"A"}) {
		t.Errorf("stored %v, dropped %v", stored, dropped)
	}
}

func TestTheSameCompletionAgainAnswersTheSame(t *testing.T) {
	t.Parallel()
	h := setup(t)
	a := h.acquire(h.caller, charge())
	response := Response{Status: 200, Headers: []Header{{"Set-Cookie", "a=b"}, {"X", " v "}, {"Date", "now"}, {"X", "v"}}, Body: nil}
	first := h.complete(h.caller, a, response)
	// The answer is worked out from what was stored: a later policy changes nothing.
	h.policy("", func(o *tenants.Override) {
		o.StripHeaders, o.StoreErrors = &[]string{"x"}, new(tenants.StoreErrorsNone)
	})
	same := response
	same.Body = []byte{}
	same.Headers = []Header{{"Set-Cookie", "a=b"}, {"X", "v"}, {"Date", "now"}, {"X", "v"}}
	if diff := cmp.Diff(h.complete(h.caller, a, same), first); diff != "" {
		t.Error(diff)
	}
	for name, other := range map[string]Response{
		"status":       {Status: 201, Headers: response.Headers},
		"body":         {Status: 200, Headers: response.Headers, Body: []byte(" ")},
		"header":       {Status: 200, Headers: append([]Header{{"Set-Cookie", "a=c"}}, response.Headers[1:]...)},
		"order":        {Status: 200, Headers: []Header{response.Headers[1], response.Headers[0], response.Headers[2], response.Headers[3]}},
		"body omitted": {Status: 200, Headers: response.Headers, BodyOmitted: true},
	} {
		if _, err := h.tryComplete(a, other); err == nil {
			t.Errorf("another response (%s) was taken for the same", name)
		} else {
			wantKind(t, err, problem.AlreadyCompleted)
		}
	}
	if h.seen.lateCount() != 0 {
		t.Error("another response by the holder itself is no late completion")
	}
}

func TestStoreErrorsReleases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy   tenants.StoreErrors
		released []int
		stored   []int
	}{
		{tenants.StoreErrorsAll, nil, []int{200, 301, 400, 404, 408, 409, 422, 425, 429, 500, 503, 599}},
		{tenants.StoreErrorsClient, []int{408, 409, 425, 429, 500, 503, 599}, []int{200, 399, 400, 404, 422}},
		{tenants.StoreErrorsNone, []int{400, 404, 499, 500, 599}, []int{200, 204, 399}},
	} {
		for _, status := range test.released {
			if !releases(test.policy, status) {
				t.Errorf("%s stores %d", test.policy, status)
			}
		}
		for _, status := range test.stored {
			if releases(test.policy, status) {
				t.Errorf("%s releases %d", test.policy, status)
			}
		}
	}
}

func TestACompletionThatReleases(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.policy("POST /v1/charges", func(o *tenants.Override) { o.StoreErrors = new(tenants.StoreErrorsClient) })
	req := charge()
	a := h.acquire(h.caller, req)
	failed := Response{Status: 503, Body: []byte("busy")}
	first := h.complete(h.caller, a, failed)
	if !first.Released || first.StoredHeaders != 0 || len(first.DroppedHeaders) != 0 || !first.CompletedAt.IsZero() || first.ExpiresAt.IsZero() {
		t.Fatalf("got %+v", first)
	}
	if diff := cmp.Diff(h.complete(h.caller, a, failed), first); diff != "" {
		t.Error(diff)
	}
	_, err := h.tryComplete(a, created)
	wantKind(t, err, problem.LeaseLost)
	as[Mismatch](t, h.begin(h.caller, with(anew(req), func(r *BeginRequest) { r.Request = payload("{}") })))
	second := h.acquire(h.caller, anew(req))
	if second.Attempt != 2 || second.TakenOver {
		t.Errorf("got %+v", second)
	}
	_, err = h.tryComplete(a, failed) // a new attempt exists: the repeat is a former holder's
	wantKind(t, err, problem.LeaseLost)
	if got := h.seen.lateCount(); got != 2 {
		t.Errorf("%d late completions, want the two that got lease_lost", got)
	}
}

func TestStoreBodyNoneKeepsStatusAndHeaders(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.policy("", func(o *tenants.Override) { o.StoreBody = new(tenants.StoreBodyNone) })
	req := charge()
	a := h.acquire(h.caller, req)
	h.complete(h.caller, a, created)
	want := created
	want.Body, want.BodyOmitted = nil, true
	if diff := cmp.Diff(as[Replay](t, h.begin(h.caller, anew(req))).Response, want, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	h.complete(h.caller, a, created) // and its repeat is the same
}

func TestResponseLimits(t *testing.T) {
	t.Parallel()
	h := setup(t)
	try := func(r Response) error {
		_, err := h.tryComplete(h.acquire(h.caller, charge()), r)
		return err
	}
	for name, r := range map[string]Response{
		"status 200":      {Status: 200},
		"status 599":      {Status: 599},
		"longest ref":     {Status: 200, BodyOmitted: true, BodyRef: strings.Repeat("r", MaxBodyRefBytes)},
		"omitted, no ref": {Status: 200, BodyOmitted: true},
		"as large as may": {Status: 200, Body: make([]byte, tenants.DefaultBodyLimit)},
	} {
		if err := try(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, r := range map[string]Response{
		"status 199":         {Status: 199},
		"status 600":         {Status: 600},
		"ref too long":       {Status: 200, BodyOmitted: true, BodyRef: strings.Repeat("r", MaxBodyRefBytes+1)},
		"ref not ASCII":      {Status: 200, BodyOmitted: true, BodyRef: "é"},
		"ref without omit":   {Status: 200, BodyRef: "s3://b/k"},
		"omitted and a body": {Status: 200, BodyOmitted: true, Body: []byte("x")},
	} {
		if err := try(r); err == nil {
			t.Errorf("%s was taken", name)
		} else {
			wantKind(t, err, problem.InvalidRequest)
		}
	}
}

func TestABodyOverTheLimitKeepsTheLeaseForACompletionWithoutIt(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	_, err := h.tryComplete(a, Response{Status: 200, Body: make([]byte, tenants.DefaultBodyLimit+1)})
	wantKind(t, err, problem.BodyTooLarge)
	if got := h.inspect(a).State; got != StateInProgress {
		t.Fatalf("state %s: the lease must still be held", got)
	}
	h.complete(h.caller, a, Response{Status: 200, BodyOmitted: true, BodyRef: "s3://bucket/1"})
	got := as[Replay](t, h.begin(h.caller, anew(req))).Response
	if !got.BodyOmitted || got.BodyRef != "s3://bucket/1" || len(got.Body) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestAtMostFiveLateCompletionsAreKept(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	former := h.acquire(h.caller, req)
	h.pass(2 * time.Minute)
	current := h.acquire(h.caller, anew(req))
	body := bytes.Repeat([]byte("0123456789abcdef"), 2<<10) // 32 KiB
	atOnce(7, func(i int) {
		r := Response{Status: 200, Headers: []Header{{"X-N", fmt.Sprint(i)}}, Body: body}
		for range 2 { // a repeat is kept once
			if _, err := h.service.Complete(background(t), h.caller, CompleteRequest{ID: former.ID.String(), Token: string(former.Lease.Token), Response: r}); err == nil {
				t.Error("a former holder completed")
			}
		}
	})
	late := h.inspect(current).Late
	if len(late) != maxLate || h.seen.lateCount() != 14 {
		t.Fatalf("%d kept, %d counted", len(late), h.seen.lateCount())
	}
	for _, l := range late {
		if l.Fence != former.Lease.Fence || l.Status != 200 || l.BodyBytes != len(body) || l.BodySHA256 != sha256.Sum256(body) ||
			!bytes.Equal(l.BodyHead, body[:16<<10]) || !cmp.Equal(l.HeaderNames, []string{"X-N"}) {
			t.Errorf("kept %d bytes of head, %+v", len(l.BodyHead), l.HeaderNames)
		}
	}
}

// B009: where the result cannot be stored the answer is no success, and the
// key is not freed.
func TestACompletionThatCannotBeStoredIsNoSuccess(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	readOnly, err := postgres.Open(t.Context(), postgres.Config{
		URL: h.pool.Config().ConnString(), MaxConns: 2, RuntimeParams: map[string]string{"default_transaction_read_only": "on"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(readOnly.Close)
	broken := h.process(readOnly)
	_, err = broken.Complete(t.Context(), h.caller, CompleteRequest{ID: a.ID.String(), Token: string(a.Lease.Token), Response: created})
	wantKind(t, err, problem.KindUnavailable)
	as[InProgress](t, h.begin(h.caller, anew(req)))
	h.complete(h.caller, a, created)
	as[Replay](t, h.begin(h.caller, anew(req)))
}

func TestAClientThatIsGoneAcquiresNothing(t *testing.T) {
	t.Parallel()
	h := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := h.tenants.Snapshot(ctx, h.caller.Tenant, h.caller.Namespace); err != nil {
		t.Fatal(err)
	}
	cancel()
	req := charge()
	if _, err := h.service.Begin(ctx, h.caller, req); err == nil {
		t.Fatal("a client that was gone got an answer")
	}
	if got := h.acquire(h.caller, anew(req)); got.Attempt != 1 {
		t.Errorf("attempt %d: the one before was acquired for nobody", got.Attempt)
	}
}
