package keys

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

const (
	// maxBatch is how many entries share a commit at most. Measured on a
	// prototype: beyond it only the waiting grows.
	maxBatch = 512
	// maxQueued bounds what waits for the next batch; no tenant may hold more
	// than a quarter of it.
	maxQueued          = 8192
	maxQueuedPerTenant = maxQueued / 4
	// maxLockTimeouts is how many locks a batch waits for, 100 ms each, before
	// all that is left of it goes on alone: however many rows somebody holds,
	// the next batch waits for half a second at most.
	maxLockTimeouts = 5
)

// batcher is group commit for one kind of call. Entries that arrive while a
// batch is being committed form the next one: there is no timer, so an idle
// service answers at once and a busy one shares its commits.
//
// It has one connection, used by whoever has the turn: the batcher's own
// goroutine, or a caller that finds nothing under way and nothing waiting, and
// sends its own entry without being handed over and back. What is sent nothing
// of a caller's cancels; a caller that is gone before that is dropped.
type batcher[E entrant, R any] struct {
	queue   *queue[E, R]
	turn    sync.Mutex // guards session and unreachable
	session *session
	// unreachable says that the last flush gave up on a database that it could
	// not reach: the next one tries once, so that its callers are told at once.
	unreachable bool
	// runFunc answers entries in one transaction, or fails for all of them.
	// It must be safe to repeat where its outcome is unknown.
	runFunc func(ctx context.Context, via sender, entries []E) ([]R, error)
	// alone is where an entry goes that a lock keeps waiting: it never rejoins
	// a batch.
	alone   sender
	nowFunc func() time.Time
	watch   watch
	done    chan struct{} // closed when the goroutine has ended
}

// entrant is what a batch is made of.
type entrant interface {
	record() ref
	weight() int // bytes of the body that it carries
}

// task is one entry on its way through a batcher.
type task[E entrant, R any] struct {
	ctx    context.Context //nolint:containedctx // the caller's, asked once: is it still there?
	entry  E
	answer chan answer[R] // of one place: answering never blocks
}

type answer[R any] struct {
	result R
	err    error
}

func newBatcher[E entrant, R any](own *session, alone sender, nowFunc func() time.Time, w watch, run func(context.Context, sender, []E) ([]R, error)) *batcher[E, R] {
	b := &batcher[E, R]{
		queue: newQueue[E, R](), session: own, runFunc: run, alone: alone, nowFunc: nowFunc, watch: w, done: make(chan struct{}),
	}
	go b.work()
	return b
}

// do answers one entry with the batch that it travels in. A caller that goes
// away meanwhile gets errGone; its entry may have been written all the same.
func (b *batcher[E, R]) do(ctx context.Context, e E) (R, error) {
	t := &task[E, R]{ctx: ctx, entry: e, answer: make(chan answer[R], 1)}
	if !b.flushNow(t) {
		if err := b.queue.push(t); err != nil {
			var none R
			return none, err
		}
	}
	select {
	case a := <-t.answer:
		return a.result, a.err
	case <-ctx.Done():
		var none R
		return none, errGone
	}
}

// flushNow sends t at once if nothing is under way and nothing waits.
func (b *batcher[E, R]) flushNow(t *task[E, R]) bool {
	if !b.queue.idle() || !b.turn.TryLock() {
		return false
	}
	defer b.turn.Unlock()
	if !b.queue.idle() { // closed meanwhile, and the session with it; or others were first
		return false
	}
	b.flushPresent([]*task[E, R]{t})
	return true
}

// close answers what is queued and ends the goroutine. Later entries are
// refused as unavailable.
func (b *batcher[E, R]) close() {
	b.queue.close()
	<-b.done
}

func (b *batcher[E, R]) work() {
	defer close(b.done)
	for b.queue.wait() {
		b.turn.Lock()
		b.flushPresent(b.queue.take(maxBatch))
		b.turn.Unlock()
	}
	b.turn.Lock() // until a caller that has it is done
	defer b.turn.Unlock()
	b.session.close()
}

// flushPresent answers tasks, less those whose caller is gone. The turn is the
// caller's of this method.
func (b *batcher[E, R]) flushPresent(tasks []*task[E, R]) {
	present := tasks[:0]
	for _, t := range tasks {
		if t.ctx.Err() != nil {
			t.answer <- answer[R]{err: errGone}
			continue
		}
		present = append(present, t)
	}
	if len(present) > 0 {
		b.flush(present)
	}
}

// flush answers tasks. A batch that PostgreSQL refuses is halved until the
// entry at fault stands alone: it fails by itself and no neighbour with it.
func (b *batcher[E, R]) flush(tasks []*task[E, R]) {
	patience := maxLockTimeouts
	b.flushWith(tasks, &patience)
}

// flushWith halves as long as there is patience with locks: each lock that a
// half waits for costs its lock_timeout, and the next batch waits too.
func (b *batcher[E, R]) flushWith(tasks []*task[E, R], patience *int) {
	entries := make([]E, len(tasks))
	for i, t := range tasks {
		entries[i] = t.entry
	}
	results, err := b.run(tasks, entries)
	locked := postgres.IsLockNotAvailable(err)
	if locked {
		*patience--
	}
	switch {
	case err == nil:
		for i, t := range tasks {
			t.answer <- answer[R]{result: results[i]}
		}
	case postgres.IsConnectionError(err) || postgres.IsReadOnly(err) || postgres.IsOutOfResources(err) && !postgres.IsOutOfMemory(err) || errors.Is(err, errUnknownCommit):
		for _, t := range tasks {
			t.answer <- answer[R]{err: err}
		}
		b.giveUp(err)
	case locked && (len(tasks) == 1 || *patience <= 0):
		for _, t := range tasks {
			go b.flushAlone(t)
		}
	case len(tasks) > 1:
		half := len(tasks) / 2
		b.flushWith(tasks[:half], patience)
		b.flushWith(tasks[half:], patience)
	default:
		tasks[0].answer <- answer[R]{err: err}
	}
}

// run repeats a batch as it was while its outcome is unknown, or a deadlock
// ended it. A row that then carries an entry's own owner, or its completion's
// own digest, is that entry's success.
func (b *batcher[E, R]) run(tasks []*task[E, R], entries []E) (results []R, err error) {
	ctx, span := b.span(tasks)
	defer func() { endSpan(span, err) }()
	if b.watch.observer != nil {
		began := b.nowFunc()
		defer func() { b.watch.observer.ObserveBatch(b.watch.kind, len(entries), b.nowFunc().Sub(began)) }()
	}
	attempt := func() (err error) {
		results, err = b.runFunc(ctx, b.session, entries)
		return err
	}
	if b.unreachable {
		if err = attempt(); err == nil || postgres.IsConnectionError(err) {
			b.unreachable = err != nil
			return results, err
		}
	}
	b.unreachable = false
	err = repeat(ctx, b.nowFunc, attempt)
	return results, err
}

// giveUp answers with err all that waits as well: nobody waits for one failure
// after the other while the database is away, however many callers there are.
func (b *batcher[E, R]) giveUp(err error) {
	b.unreachable = postgres.IsConnectionError(err)
	for waiting := b.queue.take(maxQueued); len(waiting) > 0; waiting = b.queue.take(maxQueued) {
		for _, t := range waiting {
			t.answer <- answer[R]{err: err}
		}
	}
}

func (b *batcher[E, R]) flushAlone(t *task[E, R]) {
	results, err := b.runFunc(context.WithoutCancel(t.ctx), b.alone, []E{t.entry})
	if err != nil {
		t.answer <- answer[R]{err: err}
		return
	}
	t.answer <- answer[R]{result: results[0]}
}

// repeat runs a transaction again while its outcome is unknown or a deadlock
// ended it, for repeatFor at most. The transaction must be safe to repeat.
func repeat(ctx context.Context, nowFunc func() time.Time, run func() error) error {
	giveUp := nowFunc().Add(repeatFor)
	for {
		err := run()
		if err == nil || !postgres.IsConnectionError(err) && !postgres.IsDeadlock(err) && !errors.Is(err, errUnknownCommit) {
			return err
		}
		if !nowFunc().Before(giveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(repeatPause):
		}
	}
}

// queue holds the tasks that wait for the next batch, fairly: no tenant fills
// it, and a batch is taken round-robin by tenant.
type queue[E entrant, R any] struct {
	mu      sync.Mutex // guards all below
	arrived *sync.Cond // something was pushed, or the queue was closed
	waiting map[auth.TenantID][]*task[E, R]
	turns   []auth.TenantID // the tenants that wait, next turn first
	size    int
	refused int64 // since it was made
	closed  bool
}

func newQueue[E entrant, R any]() *queue[E, R] {
	q := &queue[E, R]{waiting: make(map[auth.TenantID][]*task[E, R])}
	q.arrived = sync.NewCond(&q.mu)
	return q
}

// push refuses (problem.KindUnavailable) what finds its tenant's share, or the
// queue, full.
func (q *queue[E, R]) push(t *task[E, R]) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	tenant := t.entry.record().tenant
	mine := q.waiting[tenant]
	switch {
	case q.closed:
		return problem.Unavailable(errors.New("the process is stopping"))
	case q.size >= maxQueued || len(mine) >= maxQueuedPerTenant:
		q.refused++
		return problem.Unavailable(errors.New("the queue is full"))
	}
	if len(mine) == 0 {
		q.turns = append(q.turns, tenant)
	}
	q.waiting[tenant] = append(mine, t)
	q.size++
	q.arrived.Signal()
	return nil
}

// idle says that nothing waits, and that the queue is open.
func (q *queue[E, R]) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size == 0 && !q.closed
}

// wait returns when there is something; false once the queue is closed and
// empty.
func (q *queue[E, R]) wait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size == 0 && !q.closed {
		q.arrived.Wait()
	}
	return q.size > 0
}

// take returns up to most tasks that wait, fewer where they carry more than
// bodySliceBytes together: a message to PostgreSQL has at most 1 GiB. A tenant
// whose next one does not fit comes first in the next batch; others go on.
func (q *queue[E, R]) take(most int) []*task[E, R] {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := make([]*task[E, R], 0, min(most, q.size))
	weight := 0
	var first []auth.TenantID // in the next batch: what they have is too large for this one
	for len(taken) < most && len(q.turns) > 0 {
		tenant := q.turns[0]
		q.turns = q.turns[1:]
		mine := q.waiting[tenant]
		carried := mine[0].entry.weight()
		if weight+carried > bodySliceBytes && len(taken) > 0 {
			first = append(first, tenant)
			continue
		}
		weight += carried
		taken = append(taken, mine[0])
		q.size--
		if len(mine) == 1 {
			delete(q.waiting, tenant)
			continue
		}
		mine[0] = nil // the answered task must not be kept by the slice
		q.waiting[tenant] = mine[1:]
		q.turns = append(q.turns, tenant)
	}
	q.turns = append(first, q.turns...)
	return taken
}

func (q *queue[E, R]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.arrived.Broadcast()
}
