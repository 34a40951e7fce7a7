package keys

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
)

// cached completes a record, replays it until its process holds it in memory,
// and returns what a later begin is.
func (h *house) cached(s *Service, r Response) (again BeginRequest, a Acquired) {
	h.t.Helper()
	req := charge()
	a = h.acquire(h.caller, req)
	h.complete(h.caller, a, r)
	at := ref{h.caller.Tenant, h.caller.Namespace, a.ID}
	eventually(h.t, "the replay is in memory", func() bool {
		if _, err := s.Begin(h.t.Context(), h.caller, anew(req)); err != nil {
			h.t.Fatal(err)
		}
		return s.replays.lookup(at) != nil
	})
	return anew(req), a
}

func TestAReplayInMemoryNeedsNoDatabase(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, response := range []Response{created, {Status: 204}} {
		req, _ := h.cached(h.service, response)
		if _, err := h.pool.Exec(t.Context(), "alter table idempotency_keys rename to gone"); err != nil {
			t.Fatal(err)
		}
		replay := as[Replay](t, h.begin(h.caller, req))
		if diff := cmp.Diff(replay.Response, response); diff != "" {
			t.Error(diff)
		}
		if replay.Age <= 0 || replay.Age > time.Minute {
			t.Errorf("age %v", replay.Age)
		}
		// The fingerprint is compared in memory as well.
		as[Mismatch](t, h.begin(h.caller, with(req, func(r *BeginRequest) { r.Request = payload("{}") })))
		if _, err := h.pool.Exec(t.Context(), "alter table gone rename to idempotency_keys"); err != nil {
			t.Fatal(err)
		}
	}
}

// onMemory is a cache under a clock of the test's own, with one record in it.
func onMemory(expiresIn time.Duration) (p *replays, at ref, now *time.Time) {
	start := time.Now()
	now = &start
	p = newReplays(1<<20, func() time.Time { return *now })
	clock := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	p.echo.Store(&echo{sentAt: start, clock: clock, roundTrip: 10 * time.Millisecond})
	at = ref{tenant: auth.TenantID{1}, id: ID{1}}
	p.keep(at, &row{state: storedCompleted, createdAt: clock, expiresAt: clock.Add(expiresIn)}, p.before())
	return p, at, now
}

func TestNothingIsServedWithoutARecentEcho(t *testing.T) {
	t.Parallel()
	p, at, now := onMemory(time.Hour)
	*now = now.Add(heardFor - time.Millisecond)
	if p.lookup(at) == nil {
		t.Fatal("not served although the listener was heard less than 500 ms ago")
	}
	*now = now.Add(time.Millisecond)
	if p.lookup(at) != nil {
		t.Error("served 500 ms after the last echo was sent: an invalidation may have been missed")
	}
	// InvalidationDelay after a commit nobody serves, heard or not.
	if InvalidationDelay <= heardFor {
		t.Error("who invalidates answers too early")
	}
}

func TestNearItsExpiryTheDatabaseIsAsked(t *testing.T) {
	t.Parallel()
	p, at, now := onMemory(300 * time.Millisecond)
	*now = now.Add(239 * time.Millisecond) // 61 ms left, margin 50 ms and the round trip of 10 ms
	r := p.lookup(at)
	if r == nil {
		t.Fatal("not served although it is far enough from its expiry")
	}
	if got := r.now.Sub(r.createdAt); got != 239*time.Millisecond {
		t.Errorf("the database's clock is %v on, want what the monotonic clock says", got)
	}
	*now = now.Add(time.Millisecond)
	if p.lookup(at) != nil {
		t.Error("served within round trip and 50 ms of its expiry")
	}
}

func TestNothingIsKeptThatWasReadBeforeAnInvalidation(t *testing.T) {
	t.Parallel()
	for name, invalidate := range map[string]func(*replays){
		"of the record": func(p *replays) { p.invalidate(auth.TenantID{1}, ID{2}) },
		"of the tenant": func(p *replays) { p.invalidate(auth.TenantID{1}, ID{}) },
		"by a gap": func(p *replays) {
			heard := p.echo.Load()
			p.lost()
			p.echo.Store(heard)
		},
	} {
		p, at, _ := onMemory(time.Hour)
		other := ref{tenant: at.tenant, id: ID{2}}
		before := p.before()
		invalidate(p)
		p.keep(other, &row{state: storedCompleted, expiresAt: time.Now().Add(time.Hour)}, before)
		if p.lookup(other) != nil {
			t.Errorf("an invalidation %s between the read and the store was overrun", name)
		}
		if kept := p.lookup(at) != nil; kept != (name == "of the record") {
			t.Errorf("after an invalidation %s another record is kept: %v", name, kept)
		}
	}
}

func TestOnlyCompletedRecordsThatExpireAreKept(t *testing.T) {
	t.Parallel()
	p, _, _ := onMemory(time.Hour)
	later := time.Now().Add(time.Hour)
	for name, r := range map[string]*row{
		"in progress": {state: storedInProgress, expiresAt: later},
		"open":        {state: storedOpen, expiresAt: later},
		"unknown":     {state: storedUnknown},
		"too large":   {state: storedCompleted, expiresAt: later, response: storedResponse{body: make([]byte, maxCachedBody+1)}},
	} {
		at := ref{id: ID{9}}
		p.keep(at, r, p.before())
		if p.lookup(at) != nil {
			t.Errorf("%s: kept", name)
		}
	}
}

func TestTheCacheIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	p, _, _ := onMemory(time.Hour) // 1 MiB
	for i := range 100 {
		p.keep(ref{id: ID{byte(i), 1}}, &row{state: storedCompleted, expiresAt: time.Now().Add(time.Hour), response: storedResponse{body: make([]byte, 100<<10)}}, p.before())
	}
	p.rows.CleanUp()
	if got := p.rows.WeightedSize(); got > 1<<20 {
		t.Errorf("%d bytes are kept, at most 1 MiB may be", got)
	}
}

// A record that is removed and begun anew by one process is not replayed from
// the memory of another.
func TestWhatIsInvalidatedIsForgottenByEveryProcess(t *testing.T) {
	t.Parallel()
	h := setup(t)
	other := h.processes(1)[0]
	req, a := h.cached(other, created)
	err := postgres.InTx(t.Context(), h.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "delete from idempotency_keys where tenant_id = $1 and id = $2", h.caller.Tenant, a.ID); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), InvalidationStatement, h.caller.Tenant, a.ID)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other process has heard of it", func() bool {
		_, held := other.replays.rows.GetIfPresent(ref{h.caller.Tenant, h.caller.Namespace, a.ID})
		return !held
	})
	outcome, err := other.Begin(t.Context(), h.caller, req)
	if err != nil {
		t.Fatal(err)
	}
	if again := as[Acquired](t, outcome); again.Attempt != 1 {
		t.Errorf("got %+v", again)
	}
}

func TestALostListenerEmptiesTheCacheAndComesBack(t *testing.T) {
	t.Parallel()
	h := setup(t)
	_, a := h.cached(h.service, created)
	at := ref{h.caller.Tenant, h.caller.Namespace, a.ID}
	before := h.service.replays.before()
	if _, err := h.pool.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like '%onceward_replays%'`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the loss is noticed", func() bool { return h.service.replays.before() > before })
	if _, held := h.service.replays.rows.GetIfPresent(at); held {
		t.Error("an entry outlived a gap in what was heard")
	}
	h.cached(h.service, created) // it serves again
}
