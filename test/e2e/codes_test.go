//go:build unix

package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// refusal is one way to be refused: alone, and as an entry of a batch where
// batches have it.
type refusal struct {
	code       string
	status     int
	retryAfter bool
	alone      func(t *testing.T) *apitest.Answer
	begin      apitest.Object // an entry of a batch of begins
	complete   apitest.Object // an entry of a batch of completions
}

// refusals provokes every code that a service credential can meet. Those that
// take a fault are in ../fault (unavailable) and internal/api (internal).
func refusals(t *testing.T, w *processtest.World, p *processtest.API) []refusal {
	t.Helper()
	c := p.Client(w.Tenant.Service)
	acquire := func(members apitest.Object) (key string, held apitest.Acquired) {
		key = processtest.NewKey()
		return key, c.Begin(t, apitest.Charge(key).With(members)).Acquired(t)
	}
	begin := func(body any) func(*testing.T) *apitest.Answer {
		return func(t *testing.T) *apitest.Answer { t.Helper(); return c.Begin(t, body) }
	}
	complete := func(held apitest.Acquired, body any) func(*testing.T) *apitest.Answer {
		return func(t *testing.T) *apitest.Answer { t.Helper(); return c.Complete(t, held, body) }
	}
	completion := func(held apitest.Acquired, response apitest.Object) apitest.Object {
		return response.With(apitest.Object{"id": held.ID, "lease_token": held.Lease.Token})
	}

	busy, _ := acquire(nil)
	unknown, held := acquire(apitest.Object{"on_lease_expiry": "hold", "owner": processtest.NewOwner()})
	w.Advance(t, held.ID, time.Hour)
	completed, finished := acquire(nil)
	c.Complete(t, finished, processtest.Done("done")).Completion(t)
	_, lost := acquire(nil)
	c.Release(t, lost).Expect(t, http.StatusNoContent)
	_, live := acquire(nil)
	missing := apitest.Acquired{ID: "AAAAAAAAAAAAAAAAAAAAAA", Lease: live.Lease}
	suspended := w.NewTenant(t)
	if err := w.Tenants.Suspend(t.Context(), suspended.ID, "unpaid"); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 1<<20+1)
	noKey, badKey := apitest.Charge("").With(apitest.Object{"key": nil}), apitest.Charge("short")
	badLease, largeBody := apitest.Charge(processtest.NewKey()).With(apitest.Object{"lease_seconds": 0}), processtest.Charging(processtest.NewKey(), large)

	return []refusal{
		{code: "invalid_request", status: 400, alone: begin(badLease), begin: badLease},
		{code: "invalid_request", status: 400, alone: complete(live, apitest.Object{"status": 99}), complete: completion(live, apitest.Object{"status": 99})},
		{code: "missing_key", status: 400, alone: begin(noKey), begin: noKey},
		{code: "invalid_key", status: 400, alone: begin(badKey), begin: badKey},
		{code: "unauthenticated", status: 401, alone: func(t *testing.T) *apitest.Answer { t.Helper(); return p.Client("").Begin(t, badKey) }},
		{code: "forbidden", status: 403, alone: func(t *testing.T) *apitest.Answer { t.Helper(); return p.Client(w.Tenant.Ops).Begin(t, badKey) }},
		{code: "suspended", status: 403, alone: func(t *testing.T) *apitest.Answer { t.Helper(); return p.Client(suspended.Service).Begin(t, badKey) }},
		{code: "not_found", status: 404, alone: complete(missing, processtest.Done("x")), complete: completion(missing, processtest.Done("x"))},
		{code: "method_not_allowed", status: 405, alone: func(t *testing.T) *apitest.Answer { t.Helper(); return c.Do(t, http.MethodDelete, "/v1/keys", nil) }},
		{code: "in_progress", status: 409, retryAfter: true, alone: begin(apitest.Charge(busy)), begin: apitest.Charge(busy)},
		{code: "outcome_unknown", status: 409, alone: begin(apitest.Charge(unknown)), begin: apitest.Charge(unknown)},
		{code: "fingerprint_mismatch", status: 409, alone: begin(processtest.Charging(completed, "y")), begin: processtest.Charging(completed, "y")},
		{code: "already_completed", status: 409, alone: complete(finished, processtest.Done("other")), complete: completion(finished, processtest.Done("other"))},
		{code: "lease_lost", status: 409, alone: complete(lost, processtest.Done("x")), complete: completion(lost, processtest.Done("x"))},
		{code: "body_too_large", status: 413, alone: begin(largeBody), begin: largeBody},
		{code: "body_too_large", status: 413, alone: complete(live, processtest.Done(large)), complete: completion(live, processtest.Done(large))},
		{code: "request_too_large", status: 413, alone: func(t *testing.T) *apitest.Answer { t.Helper(); return c.Begin(t, strings.Repeat(" ", 7<<20)) }},
		{code: "unsupported_media_type", status: 415, alone: func(t *testing.T) *apitest.Answer { t.Helper(); return c.Begin(t, badKey, "Content-Type: text/plain") }},
	}
}

// B047: every refusal has its own stable code, the same alone and in a batch,
// and only those that promise it say when to ask again.
func TestEveryRefusalHasItsCodeAloneAndInABatch(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	p := w.API(t)
	c := p.Client(w.Tenant.Service)
	type shown struct {
		Code, Title, Type, Detail string
		Status, Attempt           int
		Differs                   []string
		Errors                    []apitest.Fault
		RetryAfter                bool
	}
	show := func(p apitest.Problem) shown {
		return shown{p.Code, p.Title, p.Type, p.Detail, p.Status, p.Attempt, p.Differs, p.Errors, p.RetryAfter > 0}
	}
	details := map[string]string{}
	for _, r := range refusals(t, w, p) {
		a := r.alone(t)
		alone := a.Problem(t, r.status, r.code)
		if got := a.Header.Get("Retry-After") != ""; got != r.retryAfter || got != (alone.RetryAfter > 0) {
			t.Errorf("%s: Retry-After %q and retry_after %d, want them: %v", r.code, a.Header.Get("Retry-After"), alone.RetryAfter, r.retryAfter)
		}
		if alone.Detail == "" || details[alone.Detail] != "" && details[alone.Detail] != r.code {
			t.Errorf("%s has the detail of %s: %q", r.code, details[alone.Detail], alone.Detail)
		}
		details[alone.Detail] = r.code

		path, member, entry := "/v1/keys/batch", "operations", r.begin
		if r.complete != nil {
			path, member, entry = "/v1/responses/batch", "responses", r.complete
		}
		if entry == nil {
			continue
		}
		results := c.Do(t, http.MethodPost, path, apitest.Object{member: []any{entry}}).Results(t)
		if results[0].Problem == nil || results[0].Status != r.status {
			t.Errorf("%s in a batch: %s", r.code, results[0].Body)
			continue
		}
		// In a batch the pointers begin at the batch.
		entryAlone := *results[0].Problem
		at := "/" + member + "/0"
		entryAlone.Detail = strings.ReplaceAll(entryAlone.Detail, at, "")
		for i, fault := range entryAlone.Errors {
			if !strings.HasPrefix(fault.Pointer, at) {
				t.Errorf("%s in a batch points to %s, want a pointer below %s", r.code, fault.Pointer, at)
			}
			entryAlone.Errors[i].Pointer = strings.TrimPrefix(fault.Pointer, at)
		}
		if diff := cmp.Diff(show(entryAlone), show(alone)); diff != "" {
			t.Errorf("%s in a batch differs from the one alone (-batch +alone):\n%s", r.code, diff)
		}
	}
}
