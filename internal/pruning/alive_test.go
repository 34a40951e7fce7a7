package pruning

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/tenants"
)

func (h *house) left(caller auth.Caller) []string {
	h.t.Helper()
	rows, err := h.pool.Query(h.t.Context(), "select key from idempotency_keys where tenant_id = $1 order by key", caller.Tenant)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var key string
		if err := rows.Scan(&key); err != nil {
			h.t.Fatal(err)
		}
		list = append(list, key)
	}
	return list
}

func TestOnlyWhatIsExpiredGoes(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.completed(caller, "expired two hours ago", -2*time.Hour)
	h.completed(caller, "expired in this hour", -59*time.Minute)
	h.completed(caller, "expired just now", 0)
	h.completed(caller, "expires in a moment", time.Minute)

	lapsed := h.begin(caller, charge("lapsed and expired"))
	h.expire(caller, lapsed.ID, -2*time.Hour)
	released := h.begin(caller, charge("open and expired"))
	if err := h.keys.Release(t.Context(), caller, released.ID.String(), string(released.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	h.expire(caller, released.ID, -2*time.Hour)

	hold := charge("lapsed under hold")
	hold.OnLeaseExpiry = new("hold")
	held := h.begin(caller, hold)
	h.exec("update idempotency_keys set lease_expires_at = now() - interval '3 years', created_at = now() - interval '3 years' where id = $1", held.ID)
	unknown := h.begin(caller, charge("declared unknown"))
	if err := h.keys.DeclareUnknown(t.Context(), caller, unknown.ID.String(), string(unknown.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	live := h.begin(caller, charge("with a live lease"))
	// No call leaves a live lease on an expired record; the statement would not
	// take it all the same.
	h.exec("update idempotency_keys set expires_at = now() - interval '2 hours' where id = $1", live.ID)

	report := h.run(Request{Delay: HourlyDelay})
	h.same("the hourly run pruned", report.Pruned, int64(3))
	h.same("after the hourly run", h.left(caller), []string{
		"declared unknown", "expired in this hour", "expired just now", "expires in a moment", "lapsed under hold", "with a live lease",
	})
	report = h.run(Request{Tenant: &caller.Tenant})
	h.same("the run on demand pruned", report.Pruned, int64(2))
	h.same("after the run on demand", h.left(caller), []string{"declared unknown", "expires in a moment", "lapsed under hold", "with a live lease"})
}

// Case: an expired key is begun again after a batch was picked and before it is
// deleted.
func TestAnExpiredKeyThatIsTakenAgainInTheMiddleOfABatchSurvives(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.completed(caller, "taken again", -2*time.Hour)
	h.completed(caller, "left alone", -2*time.Hour)
	batch, err := h.pruner.store.pick(t.Context(), caller.Tenant, time.Time{}, HourlyDelay, 10)
	if err != nil {
		t.Fatal(err)
	}
	h.same("picked", len(batch.places), 2)
	again := h.begin(caller, charge("taken again"))
	h.same("attempt", again.Attempt, 1)
	if err := h.keys.Release(t.Context(), caller, again.ID.String(), string(again.Lease.Token)); err != nil {
		t.Fatal(err) // leaves a line of history of the new record
	}
	gone, _, err := h.pruner.store.delete(t.Context(), caller.Tenant, HourlyDelay, batch, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	h.same("gone", gone, 1)
	h.same("left", h.left(caller), []string{"taken again"})
	h.same("history of the new record", h.number("select count(*) from key_history where id = $1", again.ID), int64(1))
}

// The same a moment later: the begin has changed the row and not committed yet
// when the batch comes to it. The deleting statement waits, and must look again.
func TestABeginThatCommitsWhileItsRowIsWaitedForKeepsItsRecord(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	for n := 1; ; n++ {
		id := h.completed(caller, fmt.Sprint("key of try ", n), -2*time.Hour)
		batch, err := h.pruner.store.pick(t.Context(), caller.Tenant, time.Time{}, HourlyDelay, 10)
		if err != nil {
			t.Fatal(err)
		}
		begin, err := h.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := begin.Exec(t.Context(), "update idempotency_keys set expires_at = now() + interval '1 day', fence = fence + 1 where id = $1", id); err != nil {
			t.Fatal(err)
		}
		deleted := make(chan error)
		go func() {
			gone, _, err := h.pruner.store.delete(t.Context(), caller.Tenant, HourlyDelay, batch, time.Now)
			if err == nil && gone != 0 {
				err = fmt.Errorf("%d records are gone", gone)
			}
			deleted <- err
		}()
		for waiting := int64(0); waiting == 0 && err == nil; {
			select {
			case err = <-deleted:
			default:
				waiting = h.number("select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'")
			}
		}
		if commitErr := begin.Commit(t.Context()); commitErr != nil {
			t.Fatal(commitErr)
		}
		if err == nil {
			err = <-deleted
		}
		if postgres.IsLockNotAvailable(err) && n < 50 {
			continue // this machine was too slow for the wait of a tenth of a second
		}
		if err != nil {
			t.Fatal(err)
		}
		h.same("records of the key", h.number("select count(*) from idempotency_keys where id = $1", id), int64(1))
		return
	}
}

// Between the look and the deletion an expired row was removed and vacuumed
// away, and a live record of another key has taken its place in the table.
func TestALiveRecordAtThePlaceOfAnExpiredOneSurvives(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.completed(caller, "expired long ago", -2*time.Hour)
	h.exec("vacuum idempotency_keys") // what completing left
	batch, err := h.pruner.store.pick(t.Context(), caller.Tenant, time.Time{}, HourlyDelay, 10)
	if err != nil {
		t.Fatal(err)
	}
	h.exec("delete from idempotency_keys")
	h.exec("vacuum idempotency_keys")
	taken := int64(0)
	for n := 0; taken == 0; n++ {
		if n == 100 {
			t.Fatal("no new record has taken the place")
		}
		h.fill(caller, 1, -24*time.Hour) // completed, as a row that was written once
		taken = h.number("select count(*) from idempotency_keys where ctid = any($1::tid[])", batch.places)
	}
	before := h.records(caller)
	gone, _, err := h.pruner.store.delete(t.Context(), caller.Tenant, HourlyDelay, batch, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	h.same("gone", gone, 0)
	h.same("records", h.records(caller), before)
}

// In a crowd: keys are begun again while three pruners run over them.
// Each key has exactly one record afterwards, and it is the one that its begin
// was told of.
func TestKeysThatAreBegunWhileTheyArePrunedAreNeverLost(t *testing.T) {
	t.Parallel()
	const perRound, rounds = 120, 4
	h := setup(t)
	caller := h.newTenant()
	for round := range rounds {
		names := make([]string, perRound)
		for i := range names {
			names[i] = fmt.Sprintf("key of round %d, %03d", round, i)
			h.completed(caller, names[i], -2*time.Hour)
		}
		acquired := make([]keys.Acquired, perRound)
		var all sync.WaitGroup
		start := make(chan struct{})
		for i, name := range names {
			all.Go(func() {
				<-start
				outcome, err := h.keys.Begin(t.Context(), caller, charge(name))
				var ok bool
				if acquired[i], ok = outcome.(keys.Acquired); !ok || err != nil {
					t.Errorf("%s: %T, %v, want a lease", name, outcome, err)
				}
			})
		}
		for range 3 {
			all.Go(func() {
				<-start
				pruner := New(Config{Pool: h.pool, Batch: 17, Pause: -1})
				if _, err := pruner.Run(t.Context(), Request{}); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
		for _, a := range acquired {
			fence := h.number("select coalesce(max(fence), 0) from idempotency_keys where tenant_id = $1 and id = $2", caller.Tenant, a.ID)
			if fence != a.Lease.Fence || a.Attempt != 1 {
				t.Errorf("attempt %d with fence %d; the record has fence %d", a.Attempt, a.Lease.Fence, fence)
			}
		}
	}
	h.same("records", h.records(caller), int64(perRound*rounds))
}

// Case: rows past their end that nobody has removed are not there.
func TestWhatIsExpiredAndNotPrunedIsAbsent(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	id := h.completed(caller, "expired a second ago", -time.Second)
	if _, err := h.keys.Inspect(t.Context(), caller, id.String(), keys.Include{}); err == nil {
		t.Error("the record can be inspected")
	}
	h.same("attempt", h.begin(caller, charge("expired a second ago")).Attempt, 1)
}

// What an expired record left beside itself goes with it; the next record of
// the same key keeps what is its own.
func TestHistoryGoesWithItsRecordAndNoOther(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller, other := h.newTenant(), h.newTenant()
	history := func(caller auth.Caller) int64 {
		return h.number("select (select count(*) from key_history where tenant_id = $1) + (select count(*) from key_late_completions where tenant_id = $1)", caller.Tenant)
	}
	withHistory := func(caller auth.Caller, key string) keys.ID {
		first := h.begin(caller, charge(key))
		h.exec("update idempotency_keys set lease_expires_at = now() - interval '1 second' where id = $1", first.ID)
		second := h.begin(caller, charge(key))
		_, err := h.keys.Complete(t.Context(), caller, keys.CompleteRequest{ID: first.ID.String(), Token: string(first.Lease.Token), Response: keys.Response{Status: 201}})
		if err == nil {
			t.Fatal("the first holder completed")
		}
		h.complete(caller, second)
		return second.ID
	}
	gone := withHistory(caller, "has a past")
	withHistory(caller, "lives on")
	withHistory(other, "has a past")
	h.same("before", []int64{history(caller), history(other)}, []int64{4, 2})
	h.expire(caller, gone, -2*time.Hour)
	h.run(Request{Delay: HourlyDelay})
	h.same("after", []int64{history(caller), history(other)}, []int64{2, 2})
	h.same("records", []int64{h.records(caller), h.records(other)}, []int64{1, 1})
}

// Case: a retention of zero, below, and far above.
func TestARetentionOutOfRangeIsRefusedAndPrunesNothing(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.begin(caller, charge("a live record"))
	for _, d := range []time.Duration{0, -time.Second, 500 * time.Millisecond, 1 << 62} {
		if _, err := h.tenants.SetPolicy(t.Context(), caller.Tenant, tenants.Override{Retention: &d}); err == nil {
			t.Errorf("a retention of %v is accepted", d)
		}
		h.same("pruned", h.run(Request{}).Pruned, int64(0))
	}
	h.same("records", h.records(caller), int64(1))
}

func TestARunForOneTenantLeavesTheOthers(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller, other := h.newTenant(), h.newTenant()
	h.fill(caller, 30, time.Hour)
	h.fill(other, 30, time.Hour)
	report := h.run(Request{Tenant: &caller.Tenant})
	h.same("report", report.Tenants, []TenantReport{{Tenant: caller.Tenant, Pruned: 30}})
	h.same("records", []int64{h.records(caller), h.records(other)}, []int64{0, 30})
}

func TestCredentialsOfNoUseGo(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	issue := func(name string, change string) {
		id, _, err := auth.NewCredentials(h.pool, nil).Issue(t.Context(), caller.Tenant, auth.IssueParams{Name: name, Role: auth.RoleAdmin})
		if err != nil {
			t.Fatal(err)
		}
		if change != "" {
			h.exec("update credentials set "+change+" where credential_id = $1", id.ID)
		}
	}
	issue("in use", "")
	issue("expired lately", "expires_at = now() - interval '89 days'")
	issue("expired long ago", "expires_at = now() - interval '91 days'")
	issue("revoked lately", "revoked_at = now() - interval '89 days'")
	issue("revoked long ago", "revoked_at = now() - interval '91 days'")
	for _, want := range []int64{2, 0} {
		n, err := h.pruner.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.same("swept", n, want)
	}
	h.same("credentials", h.number("select count(*) from credentials"), int64(3))
}
