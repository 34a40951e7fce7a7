//go:build unix

package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// B003: a stranger who uses the same key gets a record of its own, learns
// nothing of the first one by any call, and changes nothing of it.
func TestAStrangerWithTheSameKeyMeetsNothing(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	processes := w.APIs(t, 2)
	stranger := w.NewTenant(t)
	mine, theirs := processes[0].Client(w.Tenant.Service), processes[1].Client(stranger.Service)
	key, canary := processtest.NewKey(), processtest.Canary("response")
	held := mine.Begin(t, apitest.Charge(key)).Acquired(t)
	mine.Complete(t, held, processtest.Done(canary)).Completion(t)
	before := mine.Begin(t, apitest.Charge(key)).Replay(t)

	var answers []*apitest.Answer
	own := theirs.Begin(t, apitest.Charge(key))
	second := own.Acquired(t)
	if second.ID == held.ID || second.Attempt != 1 || second.TakenOver {
		t.Errorf("got %+v, want attempt 1 of another record than %s", second, held.ID)
	}
	answers = append(answers, own, theirs.Begin(t, apitest.Charge(key), "Prefer: wait=1"))
	answers[1].Problem(t, http.StatusConflict, "in_progress")
	for _, token := range []string{stranger.Service, stranger.Ops, stranger.Resolver, stranger.Admin} {
		a := processes[1].Client(token).Inspect(t, held.ID, "")
		a.Problem(t, http.StatusNotFound, "not_found")
		answers = append(answers, a)
	}
	for _, a := range []*apitest.Answer{
		theirs.Complete(t, held, processtest.Done("another")), theirs.Renew(t, held, nil), theirs.Release(t, held), theirs.DeclareUnknown(t, held),
		theirs.SetRecoveryPoint(t, held, apitest.Object{"name": "n", "data": 1}),
		theirs.Do(t, http.MethodPost, "/v1/keys/"+held.ID+"/response", nil), // no such method
	} {
		if a.Status != http.StatusNotFound && a.Status != http.StatusMethodNotAllowed {
			t.Errorf("a call on a stranger's record got %d: %s", a.Status, a.Body)
		}
		answers = append(answers, a)
	}
	answers = append(answers, theirs.Complete(t, second, processtest.Done("of the stranger")), theirs.Begin(t, apitest.Charge(key)))
	for _, a := range answers {
		if bytes.Contains(a.Body, []byte(canary)) {
			t.Errorf("another tenant's response is shown: %s", a.Body)
		}
	}
	after := mine.Begin(t, apitest.Charge(key)).Replay(t)
	after.AgeSeconds = before.AgeSeconds // it grows
	if diff := cmp.Diff(after, before); diff != "" {
		t.Errorf("the replay has changed (-got +want):\n%s", diff)
	}
}

// B007: what makes a record the only one of its key has no time in it, so that
// no midnight and no month's end makes a second one.
func TestAKeyIsUniqueAcrossEveryEdgeOfTime(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	var partitioned bool
	var columns []string
	err := w.Pool.QueryRow(t.Context(), `
		select c.relkind <> 'r', array_agg(a.attname::text order by a.attname)
		from pg_class c
		join pg_index i on i.indrelid = c.oid and i.indisprimary
		join pg_attribute a on a.attrelid = c.oid and a.attnum = any (i.indkey)
		where c.relname = 'idempotency_keys'
		group by c.relkind`).Scan(&partitioned, &columns)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(columns, []string{"id", "tenant_id"}); diff != "" || partitioned {
		t.Errorf("partitioned: %v; the primary key (-got +want):\n%s", partitioned, diff)
	}

	// A record begun just before each edge is met by a begin just after it.
	processes := w.APIs(t, 2)
	for edge, ago := range map[string]string{
		"a second":      "date_trunc('second', now())",
		"an hour":       "date_trunc('hour', now())",
		"midnight":      "date_trunc('day', now())",
		"a month's end": "date_trunc('month', now())",
	} {
		key := processtest.NewKey()
		held := processes[0].Client(w.Tenant.Service).Begin(t, apitest.Charge(key).With(apitest.Object{"lease_seconds": 3600})).Acquired(t)
		const statement = `update idempotency_keys set created_at = %[1]s - interval '100 ms', acquired_at = %[1]s - interval '100 ms' where key = $1`
		if _, err := w.Pool.Exec(t.Context(), fmt.Sprintf(statement, ago), key); err != nil {
			t.Fatal(err)
		}
		processes[1].Client(w.Tenant.Service).Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")
		processes[1].Client(w.Tenant.Service).Complete(t, held, processtest.Done("once")).Completion(t)
		var records int
		if err := w.Pool.QueryRow(t.Context(), `select count(*) from idempotency_keys where key = $1`, key).Scan(&records); err != nil || records != 1 {
			t.Errorf("across %s: %d records, %v, want 1", edge, records, err)
		}
	}
}

// B011: another payload under a key is a mismatch in every state and by every
// way in, at both processes, and never shows what is stored.
func TestAnotherPayloadIsAMismatchByEveryWayIn(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	processes := w.APIs(t, 2)
	key, canary := processtest.NewKey(), processtest.Canary("response")
	held := processes[0].Client(w.Tenant.Service).Begin(t, apitest.Charge(key)).Acquired(t)
	other := processtest.Charging(key, `{"amount":5000}`)
	for _, state := range []string{"in progress", "completed"} {
		for n := range 10 {
			c := processes[n%2].Client(w.Tenant.Service)
			for way, a := range map[string]*apitest.Answer{
				"alone": c.Begin(t, other), "with a wait": c.Begin(t, other, "Prefer: wait=30"), "for a message": c.Begin(t, other, "Accept: application/http"),
			} {
				p := a.Problem(t, http.StatusConflict, "fingerprint_mismatch")
				if diff := cmp.Diff(p.Differs, []string{"body"}); diff != "" || bytes.Contains(a.Body, []byte(canary)) {
					t.Errorf("%s, %s: %s (-got +want):\n%s", state, way, a.Body, diff)
				}
			}
			a := c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{other, apitest.Charge(processtest.NewKey()), other}})
			for i, r := range a.Results(t) {
				if i != 1 && (r.Problem == nil || r.Problem.Code != "fingerprint_mismatch") || bytes.Contains(r.Body, []byte(canary)) {
					t.Errorf("%s, entry %d of a batch: %s", state, i, r.Body)
				}
			}
		}
		if state == "in progress" {
			processes[1].Client(w.Tenant.Service).Complete(t, held, processtest.Done(canary)).Completion(t)
		}
	}
}

// B045: a completed key is a replay on every connection, each time.
func TestACompletedKeyIsNeverInProgressAgain(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	process := w.API(t)
	c := process.Client(w.Tenant.Service)
	key := processtest.NewKey()
	c.Complete(t, c.Begin(t, apitest.Charge(key)).Acquired(t), processtest.Done("done")).Completion(t)
	for range 100 {
		c.Begin(t, apitest.Charge(key)).Replay(t)
		process.Client(w.Tenant.Service).Begin(t, apitest.Charge(key), "Connection: close").Replay(t)
	}
}

// B087, B089: a record whose retention has ended is absent for every call at
// every process, pruned or not, and what a process believed before matters
// nothing: the record's own expires_at decides.
func TestAnExpiredRecordIsAbsentForEveryCallAtEveryProcess(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	processes := w.APIs(t, 2)
	for n, p := range processes {
		c := p.Client(w.Tenant.Service)
		single, inBatch, waited := processtest.NewKey(), processtest.NewKey(), processtest.NewKey()
		held := map[string]apitest.Acquired{}
		for _, key := range []string{single, inBatch, waited} {
			a := c.Begin(t, apitest.Charge(key).With(apitest.Object{"retention_seconds": 3600})).Acquired(t)
			c.Complete(t, a, processtest.Done("of the old record")).Completion(t)
			held[key] = a
			for _, process := range processes { // both have seen it completed
				process.Client(w.Tenant.Service).Begin(t, apitest.Charge(key)).Replay(t)
			}
			// The lease of 60 s counts, since it came before the completion.
			w.Advance(t, a.ID, time.Hour+time.Minute+time.Second)
		}
		c = processes[(n+1)%2].Client(w.Tenant.Service)
		c.Inspect(t, held[single].ID, "").Problem(t, http.StatusNotFound, "not_found")
		c.Inspect(t, held[single].ID, "?include=response").Problem(t, http.StatusNotFound, "not_found")
		c.Renew(t, held[single], nil).Problem(t, http.StatusNotFound, "not_found")
		fresh := []apitest.Acquired{
			c.Begin(t, processtest.Charging(single, "another payload")).Acquired(t),
			c.Begin(t, apitest.Charge(waited), "Prefer: wait=30").Acquired(t),
			{},
		}
		c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{apitest.Charge(inBatch)}}).Results(t)[0].As(t, &fresh[2])
		for i, key := range []string{single, waited, inBatch} {
			if got := fresh[i]; got.Attempt != 1 || got.TakenOver || got.Resumed || got.Lease.Fence <= held[key].Lease.Fence {
				t.Errorf("got %+v, want attempt 1 of a new record with a fence above %d", got, held[key].Lease.Fence)
			}
		}
		c.Complete(t, held[single], processtest.Done("late")).Problem(t, http.StatusConflict, "lease_lost")
	}
}

// B099: a lease of 30 is one of 30 seconds, whoever reads it.
func TestALeaseOf30IsOneOf30Seconds(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	c := w.API(t).Client(w.Tenant.Service)
	key := processtest.NewKey()
	a := c.Begin(t, apitest.Charge(key).With(apitest.Object{"lease_seconds": 30}))
	held := a.Acquired(t)
	date, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	// Date is whole seconds, and both clocks are this machine's.
	if left := held.Lease.ExpiresAt.Sub(date); left < 29*time.Second || left > 31*time.Second {
		t.Errorf("the lease ends %s after Date, want 30 s", left)
	}
	w.Advance(t, held.ID, 28*time.Second)
	c.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")
	w.Advance(t, held.ID, 5*time.Second)
	if second := c.Begin(t, apitest.Charge(key)).Acquired(t); !second.TakenOver || second.Attempt != 2 {
		t.Errorf("after 33 s: %+v, want a takeover", second)
	}
}
