package keys

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/problem"
)

// While the database is away one flush tries for repeatFor and its failure is
// that of all who wait; the next one tries once. However many callers there
// are, none waits for more than one failure.
func TestNobodyWaitsForMoreThanOneFailure(t *testing.T) {
	t.Parallel()
	h := setup(t)
	b := h.service.inserts
	run := b.runFunc
	var calls atomic.Int32
	var back atomic.Bool
	entered, goOn := make(chan struct{}), make(chan struct{})
	b.runFunc = func(ctx context.Context, via sender, entries []*entry) ([]*inserted, error) {
		if back.Load() {
			return run(ctx, via, entries)
		}
		if calls.Add(1) == 1 {
			close(entered)
			<-goOn
		}
		return nil, io.ErrUnexpectedEOF
	}
	now := time.Now()
	b.nowFunc = func() time.Time { now = now.Add(repeatFor * 2 / 3); return now }

	const callers = 600 // more than a batch
	failed := make(chan error, callers)
	begin := func() { _, err := h.service.Begin(t.Context(), h.caller, charge()); failed <- err }
	go begin()
	<-entered
	for range callers - 1 {
		go begin()
	}
	eventually(t, "all others wait", func() bool {
		b.queue.mu.Lock()
		defer b.queue.mu.Unlock()
		return b.queue.size == callers-1
	})
	close(goOn)
	for range callers {
		if p := wantKind(t, <-failed, problem.KindUnavailable); p.RetryAfter == 0 {
			t.Error("no Retry-After")
		}
	}
	if got := calls.Load(); got != 2 { // at first, and once more before repeatFor is over
		t.Errorf("%d attempts for %d callers, want 2", got, callers)
	}

	calls.Store(1)
	_, err := h.service.Begin(t.Context(), h.caller, charge())
	wantKind(t, err, problem.KindUnavailable)
	if got := calls.Load() - 1; got != 1 {
		t.Errorf("%d attempts while the database is known to be away, want 1", got)
	}
	back.Store(true)
	h.acquire(h.caller, charge())
	if b.unreachable {
		t.Error("still unreachable after a success")
	}
}

// A server without room refuses what is written and is no fault of the service.
// Without a disk it is not asked for every entry by itself; without memory it
// is, since a smaller batch may do.
func TestAServerWithoutRoomIsUnavailable(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]int{"53100": 1, "58030": 1, "53200": 5} {
		h := setup(t)
		b := idle(h.service.inserts)
		calls := 0
		b.runFunc = func(ctx context.Context, via sender, _ []*entry) ([]*inserted, error) {
			calls++
			return nil, via.send(ctx, raising(code))
		}
		tasks := tasksOf[*entry, *inserted](t.Context(), h.entry(charge()), h.entry(charge()), h.entry(charge()))
		b.flush(tasks)
		for _, task := range tasks {
			wantKind(t, translate((<-task.answer).err), problem.KindUnavailable)
		}
		if calls != want {
			t.Errorf("%s: %d attempts for a batch of three, want %d", code, calls, want)
		}
	}
}
