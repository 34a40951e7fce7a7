package analytics

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

const (
	defaultInterval  = 750 * time.Millisecond
	defaultMaxEvents = 10_000 // about 5 MB
	defaultMaxSeries = 20_000 // about 10 MB
)

// Tenants reads tenants: *tenants.Service.
type Tenants interface {
	Snapshot(ctx context.Context, tenant auth.TenantID, namespace auth.NamespaceID) (*tenants.Snapshot, error)
}

// Config is what a Recorder is made of.
type Config struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger // gets a line for each replay and 409; nil: discarded
	// Tenants has the secrets under which those lines have digests of keys; nil:
	// they have none.
	Tenants Tenants
	// Interval is from one flush to the next; zero means 750 ms. A figure is in
	// the database within a second.
	Interval time.Duration
	// MaxEvents is how many single events are held between two flushes; zero
	// means 10,000. More are dropped and counted in Stats; their counts are not.
	MaxEvents int
	// MaxSeries is how many combinations of tenant, namespace, operation, caller
	// and minute are counted apart between two flushes; zero means 20,000. More
	// lose their caller, then their operation, and at last, at twice as many,
	// their count, which Stats says.
	MaxSeries int
}

// Recorder counts what one process answered. It is safe for use by many
// goroutines. Run flushes it.
type Recorder struct {
	store     *store
	logger    *slog.Logger
	tenants   Tenants
	interval  time.Duration
	maxEvents int
	maxSeries int
	clock     *clock

	mu     sync.Mutex // guards window; held for the few map operations of a Note
	window *window

	flushMu sync.Mutex // guards what follows; held during a flush
	process uuid.UUID
	seq     int64
	pending *window // swapped out and not yet known to be in the database
	spare   []noted // room for the events of the window after this one
	names   *nameCache

	flushes, failures    atomic.Int64
	dropped, lost, folds atomic.Int64
}

// Stats are the figures about the capture itself, since the process began.
type Stats struct {
	Flushes       int64 // that reached the database
	FlushFailures int64 // each is tried again
	DroppedEvents int64 // single events that found the buffer full; they are counted all the same
	FoldedSeries  int64 // notes whose operation or caller was not counted apart
	LostCounts    int64 // outcomes that found no room at all, or were left at the end
}

// New makes a Recorder.
func New(c Config) *Recorder {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	if c.MaxEvents == 0 {
		c.MaxEvents = defaultMaxEvents
	}
	if c.MaxSeries == 0 {
		c.MaxSeries = defaultMaxSeries
	}
	return &Recorder{
		store: &store{pool: c.Pool}, logger: c.Logger, tenants: c.Tenants, interval: c.Interval,
		maxEvents: c.MaxEvents, maxSeries: c.MaxSeries,
		clock:  &clock{nowFunc: time.Now},
		window: newWindow(), process: uuid.New(), names: newNameCache(),
	}
}

// Stats may be called at any time.
func (r *Recorder) Stats() Stats {
	return Stats{
		Flushes: r.flushes.Load(), FlushFailures: r.failures.Load(),
		DroppedEvents: r.dropped.Load(), FoldedSeries: r.folds.Load(), LostCounts: r.lost.Load(),
	}
}

// Note counts e. It never blocks on anything but other Notes.
func (r *Recorder) Note(e Event) { r.noteAt(r.clock.now(), e) }

func (r *Recorder) noteAt(at time.Time, e Event) {
	key := seriesKey{
		tenant: e.Tenant, minute: at.Unix() / 60,
		series: series{namespace: e.Namespace, operation: e.Operation, caller: e.Caller},
	}
	var cell ageCell
	if e.Outcome == Replay {
		cell = cellOf(e.Age)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.counts(key); c != nil {
		c.note(e, cell)
	} else {
		r.lost.Add(1)
	}
	if e.TakenOver {
		e.Outcome = Takeover
	}
	if !e.Outcome.single() {
		return
	}
	if len(r.window.events) >= r.maxEvents {
		r.dropped.Add(1)
		return
	}
	e.Operation, e.Caller, e.Key, e.TraceID = strings.Clone(e.Operation), strings.Clone(e.Caller), strings.Clone(e.Key), strings.Clone(e.TraceID)
	r.window.events = append(r.window.events, noted{at: at, Event: e})
}

// counts finds or makes where key is counted; where that is too much, without
// its caller, then without its operation. nil: there is no room at all.
func (r *Recorder) counts(key seriesKey) *counts {
	limit := r.maxSeries
	for range 3 {
		if c := r.window.counts[key]; c != nil {
			return c
		}
		if len(r.window.counts) < limit {
			key.series = key.series.clone()
			c := &counts{}
			r.window.counts[key] = c
			return c
		}
		r.folds.Add(1)
		key.series = key.series.fold()
		limit += r.maxSeries / 2
	}
	return nil
}

// window is what was noted between two flushes.
type window struct {
	counts map[seriesKey]*counts
	events []noted
}

func newWindow() *window { return &window{counts: make(map[seriesKey]*counts)} }

func (w *window) empty() bool { return len(w.counts) == 0 && len(w.events) == 0 }

// outcomes is how many outcomes the window has counted.
func (w *window) outcomes() (n int64) {
	for _, c := range w.counts {
		for _, of := range c.n {
			n += of
		}
	}
	return n
}

// noted is an event with the database's time at which it happened.
type noted struct {
	at time.Time
	Event
}

type seriesKey struct {
	tenant auth.TenantID
	minute int64 // since 1970, of the database's clock
	series
}

// series is what is counted apart. otherOperation and otherCaller say that the
// name is not among the first 1,000 of its day; the name is then empty.
type series struct {
	namespace                   auth.NamespaceID
	operation, caller           string
	otherOperation, otherCaller bool
}

func (s series) clone() series {
	s.operation, s.caller = strings.Clone(s.operation), strings.Clone(s.caller)
	return s
}

// fold takes away the caller, and from what has none the operation.
func (s series) fold() series {
	if s.otherCaller {
		s.operation, s.otherOperation = "", true
	}
	s.caller, s.otherCaller = "", true
	return s
}

// id is a digest of the series, so that every process makes the same.
func (s series) id() uuid.UUID {
	h := sha256.New()
	_, _ = h.Write(s.namespace[:]) // a hash never returns an error (package hash)
	for _, part := range [2]struct {
		name  string
		other bool
	}{{s.operation, s.otherOperation}, {s.caller, s.otherCaller}} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part.name)))
		if part.other {
			length[0] = 0xff // no name is that long
		}
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(part.name))
	}
	return uuid.UUID(h.Sum(nil)[:16])
}

// counts are how often each outcome was noted; replays stand in ages as well.
type counts struct {
	n    [outcomes]int64
	ages Ages
}

func (c *counts) note(e Event, cell ageCell) {
	if e.Outcome == 0 || e.Outcome >= outcomes {
		return
	}
	c.n[e.Outcome]++
	if e.Outcome == Replay {
		c.ages.add(cell, 1)
	}
	if e.TakenOver {
		c.n[Takeover]++
	}
}
