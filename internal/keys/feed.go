package keys

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/puddle/v2"
)

const (
	feedInterval = time.Second
	feedTimeout  = 10 * time.Second // of one statement
	// feedBatch is how many records one statement carries over. It is small,
	// and followed by a pause as long as it took, so that the calls of
	// customers never wait behind a second's worth of it.
	feedBatch = 250
	// maxFeed bounds what waits to be carried over: what comes on top is left
	// to the job that compares the two tables.
	maxFeed = 200_000
)

// feed carries what this process has changed over to key_search, every second
// and off the path of every call. What a killed process had not carried over
// is found by the job that compares the two tables (SearchUpkeep).
type feed struct {
	rows    *adminStore
	id      uuid.UUID
	logger  *slog.Logger
	nowFunc func() time.Time // this process's clock: only for how long a slice took
	stop    context.CancelFunc
	ended   <-chan struct{} // closed when stop was called
	done    chan struct{}   // closed when the goroutine has ended

	mu      sync.Mutex
	waiting map[ref]struct{} // guarded by mu; without namespaces
}

func newFeed(rows *adminStore, logger *slog.Logger, nowFunc func() time.Time) *feed {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed{rows: rows, logger: logger, nowFunc: nowFunc, stop: stop, ended: ctx.Done(), done: make(chan struct{}), waiting: make(map[ref]struct{})}
	_, _ = rand.Read(f.id[:]) // never fails (package crypto/rand)
	go f.run(ctx)
	return f
}

// note is called on the path of a call: it never blocks for long, and never
// fails.
func (f *feed) note(at ref) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) < maxFeed {
		f.waiting[ref{tenant: at.tenant, id: at.id}] = struct{}{}
	}
}

func (f *feed) take() []ref {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		return nil
	}
	refs := make([]ref, 0, len(f.waiting))
	for at := range f.waiting {
		refs = append(refs, at)
	}
	f.waiting = make(map[ref]struct{})
	slices.SortFunc(refs, ref.compare)
	return refs
}

func (f *feed) run(ctx context.Context) {
	defer close(f.done)
	ticker := time.NewTicker(feedInterval)
	defer ticker.Stop()
	for first, ended := true, false; !ended; first = false {
		if !first { // at first it says that it is there
			select {
			case <-ticker.C:
			case <-ctx.Done():
				ended = true
			}
		}
		err := f.flush(context.WithoutCancel(ctx))
		if errors.Is(err, puddle.ErrClosedPool) {
			return
		}
		if err != nil {
			f.logger.Warn("carry changes over to search", slog.Any("error", err))
		}
	}
}

// flush carries over what waits. What fails waits again.
func (f *feed) flush(ctx context.Context) error {
	through, err := f.clock(ctx)
	if err != nil {
		return err
	}
	refs := f.take()
	for chunk := range slices.Chunk(refs, feedBatch) {
		if err = f.carryOver(ctx, chunk); err != nil {
			break
		}
		refs = refs[len(chunk):]
	}
	if err == nil {
		return f.rows.NoteFeed(ctx, f.id, through)
	}
	for _, at := range refs {
		f.note(at)
	}
	return err
}

func (f *feed) clock(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	return f.rows.clock(ctx)
}

func (f *feed) carryOver(ctx context.Context, refs []ref) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	began := f.nowFunc()
	if err := f.rows.CarryOver(ctx, refs); err != nil {
		return err
	}
	f.pause(f.nowFunc().Sub(began))
	return nil
}

// pause waits, but not once the feed is to end.
func (f *feed) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.ended:
	}
}

// close carries over what waits and ends the goroutine.
func (f *feed) close() {
	f.stop()
	<-f.done
}
