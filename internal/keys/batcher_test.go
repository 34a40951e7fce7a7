package keys

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

func (h *house) entry(req BeginRequest) *entry {
	h.t.Helper()
	e, err := h.service.entry(h.t.Context(), h.caller, req)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

// tasksOf are entries as a batcher takes them from its queue.
func tasksOf[E entrant, R any](ctx context.Context, entries ...E) []*task[E, R] {
	tasks := make([]*task[E, R], len(entries))
	for i, e := range entries {
		tasks[i] = &task[E, R]{ctx: ctx, entry: e, answer: make(chan answer[R], 1)}
	}
	return tasks
}

// idle is a batcher whose goroutine has ended, so that a test can flush by
// hand what it wants to be one batch.
func idle[E entrant, R any](b *batcher[E, R]) *batcher[E, R] {
	b.close()
	return b
}

func TestTheQueueIsTakenRoundRobinByTenant(t *testing.T) {
	t.Parallel()
	q := newQueue[ref, int]()
	for i := range 6 {
		for _, tenant := range []byte{1, 2, 3}[:1+i%3] {
			if err := q.push(tasksOf[ref, int](t.Context(), ref{tenant: auth.TenantID{tenant}, id: ID{byte(i)}})[0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Tenant 1 waits with six, 2 with four, 3 with two.
	var got []string
	for _, most := range []int{5, 100} {
		for _, task := range q.take(most) {
			got = append(got, fmt.Sprint(task.entry.tenant[0], task.entry.id[0]))
		}
	}
	want := []string{"1 0", "2 1", "3 2", "1 1", "2 2", "3 5", "1 2", "2 4", "1 3", "2 5", "1 4", "1 5"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

// However large the bodies are, a batch fits into a message and into memory.
func TestABatchTakesSoManyBodies(t *testing.T) {
	t.Parallel()
	q := newQueue[*completion, int]()
	for i, mebibytes := range []int{6, 6, 6, 16, 40, 1, 0} {
		c := &completion{stored: storedResponse{body: make([]byte, mebibytes<<20)}}
		c.id = ID{byte(i)}
		if err := q.push(tasksOf[*completion, int](t.Context(), c)[0]); err != nil {
			t.Fatal(err)
		}
	}
	var got [][]byte
	for batch := q.take(maxBatch); len(batch) > 0; batch = q.take(maxBatch) {
		var ids []byte
		for _, task := range batch {
			ids = append(ids, task.entry.id[0])
		}
		got = append(got, ids)
	}
	if diff := cmp.Diff(got, [][]byte{{0, 1}, {2}, {3}, {4}, {5, 6}}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// A tenant with large bodies fills its own part of a batch: what others have
// does not wait behind one that does not fit, and that one comes first next.
func TestLargeBodiesOfOneTenantEndNoBatchOfAnother(t *testing.T) {
	t.Parallel()
	q := newQueue[*completion, int]()
	push := func(tenant byte, number, size int) {
		c := &completion{stored: storedResponse{body: make([]byte, size)}}
		c.tenant, c.id = auth.TenantID{tenant}, ID{byte(number)}
		if err := q.push(tasksOf[*completion, int](t.Context(), c)[0]); err != nil {
			t.Fatal(err)
		}
	}
	const large, small = 5, 100
	for i := range large {
		push(1, i, bodySliceBytes/2)
	}
	for i := range small {
		push(2, i, 0)
	}
	type counts struct{ large, small, first int }
	var got []counts
	for batch := q.take(maxBatch); len(batch) > 0; batch = q.take(maxBatch) {
		c := counts{first: int(batch[0].entry.tenant[0])}
		for _, task := range batch {
			if task.entry.weight() > 0 {
				c.large++
			} else {
				c.small++
			}
		}
		got = append(got, c)
		push(2, small+len(got), 0) // there is always more
		if len(got) == 3 {
			break
		}
	}
	want := []counts{{2, small, 1}, {2, 1, 1}, {1, 1, 1}}
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(counts{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestATenantFillsItsShareOfTheQueueAndNoMore(t *testing.T) {
	t.Parallel()
	q := newQueue[ref, int]()
	push := func(tenant byte) error {
		return q.push(tasksOf[ref, int](t.Context(), ref{tenant: auth.TenantID{tenant}})[0])
	}
	for i := range maxQueuedPerTenant {
		if err := push(1); err != nil {
			t.Fatalf("entry %d: %v", i+1, err)
		}
	}
	if p := wantKind(t, push(1), problem.KindUnavailable); p.RetryAfter == 0 {
		t.Error("the refusal has no Retry-After")
	}
	for tenant := byte(2); tenant <= 4; tenant++ {
		for range maxQueuedPerTenant {
			if err := push(tenant); err != nil {
				t.Fatalf("tenant %d is refused for tenant 1's excess: %v", tenant, err)
			}
		}
	}
	wantKind(t, push(5), problem.KindUnavailable) // the whole queue is full
}

func TestAClosedBatcherAnswersWhatItHoldsAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	h := setup(t)
	release := make(chan struct{})
	var taken atomic.Int32
	b := newBatcher(newSession(h.pool), pooled{h.pool}, time.Now, watch{}, func(_ context.Context, _ sender, entries []ref) ([]int, error) {
		taken.Add(int32(len(entries)))
		<-release
		return make([]int, len(entries)), nil
	})
	answers := make(chan error, 20)
	for range cap(answers) {
		go func() {
			_, err := b.do(t.Context(), ref{})
			answers <- err
		}()
	}
	eventually(t, "all entries wait or are under way", func() bool {
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		return b.queue.size+int(taken.Load()) == cap(answers)
	})
	close(release)
	b.close()
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if taken.Load() != 20 {
		t.Errorf("%d entries ran, want 20", taken.Load())
	}
	_, err := b.do(t.Context(), ref{})
	wantKind(t, err, problem.KindUnavailable)
}

// An entry that PostgreSQL refuses fails by itself: its neighbours in the
// batch are stored.
func TestARefusedEntryFailsAlone(t *testing.T) {
	t.Parallel()
	h := setup(t)
	b := idle(h.service.inserts)
	var entries []*entry
	for i := range 9 {
		e := h.entry(charge())
		if i == 4 {
			e.key = "with a \x00 that validation refuses"
		}
		entries = append(entries, e)
	}
	tasks := tasksOf[*entry, *inserted](t.Context(), entries...)
	b.flush(tasks)
	for i, task := range tasks {
		got := <-task.answer
		if (i == 4) != (got.err != nil) || (i == 4) != (got.result == nil) {
			t.Errorf("entry %d: %+v", i, got)
		}
		if i == 4 && !postgres.IsDataError(got.err) {
			t.Errorf("the refused entry fails with %v", got.err)
		}
	}
}

// A batch for which the server has no memory is halved until it has: it is no
// reason to tell all who wait that the database is away.
func TestABatchThatTheServerHasNoMemoryForIsHalved(t *testing.T) {
	t.Parallel()
	h := setup(t)
	b := idle(newBatcher(newSession(h.pool), pooled{h.pool}, time.Now, watch{}, func(_ context.Context, _ sender, entries []ref) ([]int, error) {
		if len(entries) > 2 {
			return nil, &pgconn.PgError{Code: "53200"}
		}
		return make([]int, len(entries)), nil
	}))
	tasks := tasksOf[ref, int](t.Context(), make([]ref, 9)...)
	b.flush(tasks)
	for i, task := range tasks {
		if got := <-task.answer; got.err != nil {
			t.Errorf("entry %d: %v", i, got.err)
		}
	}
}

// An entry that a lock keeps waiting leaves its batch: the neighbours are
// answered while it waits, and it is answered when the lock is gone.
func TestABlockedEntryGoesOnAlone(t *testing.T) {
	t.Parallel()
	h := setup(t)
	blocked := charge()
	h.acquire(h.caller, blocked)
	b := idle(h.service.inserts)
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(background(t)) }()
	if _, err := tx.Exec(t.Context(), "delete from idempotency_keys where key = $1", *blocked.Key); err != nil {
		t.Fatal(err)
	}
	tasks := tasksOf[*entry, *inserted](t.Context(), h.entry(charge()), h.entry(anew(blocked)), h.entry(charge()))
	b.flush(tasks)
	for _, i := range []int{0, 2} {
		if got := <-tasks[i].answer; got.err != nil || got.result == nil {
			t.Errorf("the neighbour %d got %+v", i, got)
		}
	}
	select {
	case got := <-tasks[1].answer:
		t.Errorf("the blocked entry was answered while the lock was held: %+v", got)
	default:
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := <-tasks[1].answer; got.err != nil || got.result == nil {
		t.Errorf("the blocked entry got %+v", got)
	}
}

// However many rows somebody holds, the neighbours of the blocked entries and
// the next batch do not wait for each of them.
func TestManyBlockedEntriesCostABatchFewLockTimeouts(t *testing.T) {
	t.Parallel()
	h := setup(t)
	var blocked []BeginRequest
	for range 40 {
		req := charge()
		h.acquire(h.caller, req)
		blocked = append(blocked, req)
	}
	b := idle(h.service.inserts)
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(background(t)) }()
	if _, err := tx.Exec(t.Context(), "delete from idempotency_keys"); err != nil {
		t.Fatal(err)
	}
	entries := []*entry{h.entry(charge())}
	for _, req := range blocked {
		entries = append(entries, h.entry(anew(req)))
	}
	run, calls := b.runFunc, 0
	b.runFunc = func(ctx context.Context, via sender, entries []*entry) ([]*inserted, error) {
		if _, inBatch := via.(*session); inBatch {
			calls++
		}
		return run(ctx, via, entries)
	}
	tasks := tasksOf[*entry, *inserted](t.Context(), entries...)
	b.flush(tasks)
	if calls > 2*maxLockTimeouts {
		t.Errorf("the batch tried %d times", calls)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, task := range tasks {
		if got := <-task.answer; got.err != nil || got.result == nil {
			t.Errorf("entry %d got %+v", i, got)
		}
	}
}

// lossy runs a transaction and loses the answer of the first n: before it
// reaches the server, or after it is committed.
func lossy[E entrant, R any](b *batcher[E, R], n int, persist bool) *atomic.Int32 {
	run, calls := b.runFunc, &atomic.Int32{}
	b.runFunc = func(ctx context.Context, via sender, entries []E) ([]R, error) {
		if int(calls.Add(1)) > n {
			return run(ctx, via, entries)
		}
		if persist {
			if _, err := run(ctx, via, entries); err != nil {
				return nil, err
			}
		}
		return nil, io.ErrUnexpectedEOF
	}
	return calls
}

// A COMMIT whose answer was lost is sent again as it was, and a row that
// carries the entry's own owner is its success: nobody is told in_progress
// about himself.
func TestALostAcknowledgementIsNoLostLease(t *testing.T) {
	t.Parallel()
	for _, persist := range []bool{false, true} {
		h := setup(t)
		lossy(h.service.inserts, 2, persist)
		for name, req := range map[string]BeginRequest{
			"an owner of its own": charge(),
			"no owner":            with(charge(), func(r *BeginRequest) { r.Owner = nil }),
		} {
			a := h.acquire(h.caller, req)
			if a.Attempt != 1 || a.TakenOver || a.Resumed && req.Owner == nil {
				t.Errorf("persisted %v, %s: %+v", persist, name, a)
			}
			lossy(h.service.completes, 1, persist)
			if done := h.complete(h.caller, a, created); done.StoredHeaders != 2 {
				t.Errorf("persisted %v, %s: %+v", persist, name, done)
			}
			if record := h.inspect(a); record.State != StateCompleted || len(record.Late) != 0 {
				t.Errorf("persisted %v, %s: %+v", persist, name, record)
			}
		}
		for call, do := range h.leaseCalls() {
			if call == "complete" {
				continue
			}
			a := h.acquire(h.caller, charge())
			lossy(h.service.leases, 1, persist)
			if err := do(a.ID.String(), string(a.Lease.Token)); err != nil {
				t.Errorf("persisted %v, %s: %v", persist, call, err)
			}
		}
	}
}

func TestADatabaseThatStaysAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	h := setup(t)
	lossy(h.service.inserts, 1<<30, false)
	now := time.Now()
	h.service.inserts.nowFunc = func() time.Time { now = now.Add(time.Second); return now }
	_, err := h.service.Begin(t.Context(), h.caller, charge())
	if p := wantKind(t, err, problem.KindUnavailable); p.RetryAfter == 0 {
		t.Error("no Retry-After")
	}
}

// A deadlock ends one of the transactions; what it held is sent again.
func TestADeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	h := setup(t)
	run, calls := h.service.inserts.runFunc, 0
	h.service.inserts.runFunc = func(ctx context.Context, via sender, entries []*entry) ([]*inserted, error) {
		if calls++; calls == 1 {
			return nil, via.send(ctx, raising("40P01"))
		}
		return run(ctx, via, entries)
	}
	h.acquire(h.caller, charge())
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}

// raising is a statement that fails with the SQLSTATE.
func raising(code string) *pgx.Batch {
	batch := &pgx.Batch{}
	batch.Queue(fmt.Sprintf("do $$ begin raise sqlstate '%s'; end $$", code))
	return batch
}

// A session that the server ended is made anew.
func TestABatchersConnectionIsMadeAnew(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.acquire(h.caller, charge())
	const terminate = `select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
	survivor, err := h.pool.Acquire(t.Context()) // another of the pool may be one that was ended
	if err != nil {
		t.Fatal(err)
	}
	defer survivor.Release()
	for range 3 {
		if _, err := survivor.Exec(t.Context(), terminate); err != nil {
			t.Fatal(err)
		}
		a := h.acquire(h.caller, charge())
		h.complete(h.caller, a, created)
	}
}
