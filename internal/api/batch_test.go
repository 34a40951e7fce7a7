package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
)

func beginBatch(t *testing.T, c *apitest.Client, operations ...any) *apitest.Answer {
	t.Helper()
	return c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": operations})
}

func completeBatch(t *testing.T, c *apitest.Client, responses ...any) *apitest.Answer {
	t.Helper()
	return c.Do(t, http.MethodPost, "/v1/responses/batch", apitest.Object{"responses": responses})
}

// B075: a batch that names keys twice is decided entry by entry, in order.
func TestABatchIsDecidedInItsOrder(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	twice, changed := newKey(t), newKey(t)
	other := apitest.Charge(changed)
	other["request"] = other["request"].(apitest.Object).With(apitest.Object{"body": "other"})
	operations := []any{apitest.Charge(twice), apitest.Charge(changed), apitest.Charge(twice), other}
	for range 96 {
		operations = append(operations, apitest.Charge(newKey(t)))
	}
	a := beginBatch(t, c, operations...)
	checkCommonHeaders(t, a)
	results := a.Results(t)
	if len(results) != 100 {
		t.Fatalf("%d results, want 100", len(results))
	}
	for i, r := range results {
		switch i {
		case 2:
			if r.Status != 409 || r.Problem == nil || r.Problem.Code != "in_progress" || r.Problem.RetryAfter < 1 || r.Problem.RequestID != a.Header.Get("Request-Id") {
				t.Errorf("result 2 is %s, want in_progress with retry_after and this request's id", r.Body)
			}
		case 3:
			if r.Status != 409 || r.Problem == nil || r.Problem.Code != "fingerprint_mismatch" {
				t.Errorf("result 3 is %s, want a mismatch", r.Body)
			}
		default:
			var acquired apitest.Acquired
			r.As(t, &acquired)
			if r.Status != 201 || acquired.Outcome != "acquired" || acquired.Lease.Token == "" {
				t.Errorf("result %d is %s, want acquired", i, r.Body)
			}
		}
	}
}

func TestAResultOfABatchIsTheBodyOfTheSingleCall(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	var held apitest.Acquired
	beginBatch(t, c, apitest.Charge(key)).Results(t)[0].As(t, &held)

	response := apitest.Object{"id": held.ID, "lease_token": held.Lease.Token, "status": 201, "headers": [][2]string{{"A", "b"}, {"Set-Cookie", "c"}}, "body": "x"}
	var inBatch apitest.Completion
	r := completeBatch(t, c, response).Results(t)[0]
	r.As(t, &inBatch)
	alone := c.Complete(t, held, response.With(apitest.Object{"id": nil, "lease_token": nil})).Completion(t)
	if diff := cmp.Diff(inBatch, alone); diff != "" || r.Status != 200 {
		t.Errorf("status %d; completion in a batch (-batch +single):\n%s", r.Status, diff)
	}

	var replay apitest.Replay
	r = beginBatch(t, c, apitest.Charge(key)).Results(t)[0]
	r.As(t, &replay)
	want := c.Begin(t, apitest.Charge(key)).Replay(t)
	replay.AgeSeconds, want.AgeSeconds = 0, 0
	if diff := cmp.Diff(replay, want); diff != "" || r.Status != 200 {
		t.Errorf("status %d; replay in a batch (-batch +single):\n%s", r.Status, diff)
	}
}

// One bad entry is its own 400, with pointers into the document that was sent.
func TestABadEntryOfABatchFailsAlone(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BodyLimit(1000))
	c := w.Client(w.Tenant.Service)
	good := func() string {
		return `{"key":"` + newKey(t) + `","operation":"o","fingerprint":"` + strings.Repeat("a", 64) + `"}`
	}
	bad := []struct {
		entry, code string
		status      int
		pointer     string // below the entry; "-" for none
	}{
		{`{"key":"12345678","nosuch":1}`, "invalid_request", 400, "/nosuch"},
		{`{"key":"12345678","key":"12345678"}`, "invalid_request", 400, "/key"},
		{`{"key":12345678}`, "invalid_request", 400, "/key"},
		{`{"key":null}`, "invalid_request", 400, "/key"},
		{`null`, "invalid_request", 400, ""},
		{`7`, "invalid_request", 400, ""},
		{`[]`, "invalid_request", 400, ""},
		{`{"key":"\ud800"}`, "invalid_request", 400, "/key"},
		{"{\"key\":\"\xff\"}", "invalid_request", 400, "/key"},
		{`{"request":{"body":{}}}`, "invalid_request", 400, "/request/body"},
		{`{"key":"12345678","operation":"o","fingerprint":"` + strings.Repeat("a", 64) + `","lease_seconds":0}`, "invalid_request", 400, "/lease_seconds"},
		{`{}`, "missing_key", 400, "-"},
		{`{"key":"short"}`, "invalid_key", 400, "-"},
		{`{"key":"12345678","operation":"o","request":{"body":"` + strings.Repeat("b", 1001) + `"}}`, "body_too_large", 413, "-"},
	}
	var entries []string
	for _, b := range bad {
		entries = append(entries, good(), b.entry)
	}
	entries = append(entries, good())
	a := c.Do(t, http.MethodPost, "/v1/keys/batch", `{"operations":[`+strings.Join(entries, ",")+`]}`)
	results := a.Results(t)
	if len(results) != len(entries) {
		t.Fatalf("%d results, want %d", len(results), len(entries))
	}
	for i, r := range results {
		if i%2 == 0 {
			if r.Status != 201 {
				t.Errorf("good entry %d: %s", i, r.Body)
			}
			continue
		}
		want := bad[i/2]
		if r.Status != want.status || r.Problem == nil || r.Problem.Code != want.code || r.Problem.Status != want.status {
			t.Errorf("entry %d %.80s: %s, want %d %s", i, want.entry, r.Body, want.status, want.code)
			continue
		}
		if want.pointer == "-" {
			continue
		}
		checkFaults(t, *r.Problem, "/operations/"+itoa(i)+want.pointer)
		if len(r.Problem.Errors) == 1 && !strings.HasPrefix(r.Problem.Detail, "/operations/"+itoa(i)) {
			t.Errorf("entry %d: detail %q does not begin with the pointer", i, r.Problem.Detail)
		}
	}
}

func TestABadCompletionOfABatchFailsAlone(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	stranger := w.NewTenant(t)
	foreign := acquire(t, w.Client(stranger.Service), newKey(t))
	results := completeBatch(t, c,
		apitest.Object{"id": held.ID, "status": 200},
		apitest.Object{"lease_token": held.Lease.Token, "status": 200},
		apitest.Object{"id": held.ID, "lease_token": "nobody", "status": 200},
		apitest.Object{"id": foreign.ID, "lease_token": foreign.Lease.Token, "status": 200},
		apitest.Object{"id": held.ID, "lease_token": held.Lease.Token, "status": 700},
		apitest.Object{"id": held.ID, "lease_token": held.Lease.Token, "status": 200, "body": "first"},
		apitest.Object{"id": held.ID, "lease_token": held.Lease.Token, "status": 200, "body": "second"},
		apitest.Object{"id": held.ID, "lease_token": held.Lease.Token, "status": 200, "body": "first"},
	).Results(t)
	want := []struct {
		status        int
		code, pointer string
	}{
		{400, "invalid_request", "/responses/0/lease_token"},
		{400, "invalid_request", "/responses/1/id"},
		{409, "lease_lost", ""},
		{404, "not_found", ""},
		{400, "invalid_request", "/responses/4/status"},
		{200, "", ""},
		{409, "already_completed", ""},
		{200, "", ""},
	}
	for i, r := range results {
		if r.Status != want[i].status || r.Problem != nil && r.Problem.Code != want[i].code {
			t.Errorf("result %d: %s, want %d %s", i, r.Body, want[i].status, want[i].code)
			continue
		}
		if want[i].pointer != "" {
			checkFaults(t, *r.Problem, want[i].pointer)
		}
	}
	w.Client(stranger.Service).Complete(t, foreign, apitest.Object{"status": 200}).Expect(t, 200)
}

func TestABatchHas1To500Entries(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	for path, member := range map[string]string{"/v1/keys/batch": "operations", "/v1/responses/batch": "responses"} {
		many := func(n int) string {
			return `{"` + member + `":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}`
		}
		checkFaults(t, c.Do(t, http.MethodPost, path, many(0)).Problem(t, 400, "invalid_request"), "/"+member)
		checkFaults(t, c.Do(t, http.MethodPost, path, many(501)).Problem(t, 400, "invalid_request"), "/"+member)
		checkFaults(t, c.Do(t, http.MethodPost, path, `{}`).Problem(t, 400, "invalid_request"), "/"+member)
		if got := len(c.Do(t, http.MethodPost, path, many(1)).Results(t)); got != 1 {
			t.Errorf("%s: %d results of 1", path, got)
		}
		if got := len(c.Do(t, http.MethodPost, path, many(500)).Results(t)); got != 500 {
			t.Errorf("%s: %d results of 500", path, got)
		}
	}
}

// The answer to a batch of replays may be many times larger than what a batch
// may be, and is whole.
func TestABatchOfLargeReplaysIsWhole(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	body := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	key := newKey(t)
	c.Complete(t, acquire(t, c, key), "HTTP/1.1 200 \r\n\r\n"+body, "Content-Type: application/http").Expect(t, 200)
	operations := make([]any, 40)
	for i := range operations {
		operations[i] = apitest.Charge(key)
	}
	results := beginBatch(t, c, operations...).Results(t)
	for i, r := range results {
		var replay apitest.Replay
		r.As(t, &replay)
		if string(replay.Response.Bytes()) != body {
			t.Fatalf("result %d has %d bytes of body, want %d", i, len(replay.Response.Bytes()), len(body))
		}
	}
	if len(results) != len(operations) {
		t.Errorf("%d results, want %d", len(results), len(operations))
	}
}

func TestABatchIgnoresPreferAndAccept(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	acquire(t, c, key)
	a := c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{apitest.Charge(key)}}, "Prefer: wait=30", "Accept: application/http")
	if got := a.Results(t)[0].Status; got != 409 {
		t.Errorf("status %d, want 409 at once", got)
	}
	if a.Header.Get("Preference-Applied") != "" || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("Preference-Applied %q, Content-Type %q", a.Header.Get("Preference-Applied"), a.Header.Get("Content-Type"))
	}
}
