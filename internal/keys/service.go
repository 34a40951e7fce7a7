package keys

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// Snapshots is what keys needs of tenants: everything under which a call of
// the tenant is decided. The snapshot knows the given namespace, however new
// it is (zero: any). An error is problem.KindUnavailable: never a default.
type Snapshots interface {
	Snapshot(ctx context.Context, tenant auth.TenantID, namespace auth.NamespaceID) (*tenants.Snapshot, error)
}

// Config is what a Service is made of.
type Config struct {
	Pool     *pgxpool.Pool
	Tenants  Snapshots
	Observer Observer // nil: nobody is told
	// Admission limits new records; nil: there is no limit.
	Admission Admission
	// Batches is told of each batch, and Tracer makes a span of each that carries
	// a traced request; nil: nobody is told, and there are no spans.
	Batches BatchObserver
	Tracer  trace.Tracer
	// Clock says whether the database's clock is to be believed; nil: it is.
	Clock  Clock
	Logger *slog.Logger // nil: discarded
	// PollInterval is how often the records that somebody waits for are looked
	// at; zero means 50 ms. One statement for all of them.
	PollInterval time.Duration
	// CacheBytes bounds the replay cache: zero means DefaultCacheBytes, a
	// negative number none.
	CacheBytes int64
}

// Clock is the database's clock as somebody watches it: *postgres.Clock. It is
// asked on the path of every begin, so it must never block.
type Clock interface {
	// Doubt is why nothing may be begun or taken over now; nil: it may.
	Doubt() error
}

// steady is the Clock of a Service that was given none.
type steady struct{}

func (steady) Doubt() error { return nil }

// Service answers the calls of the wire contract, sections 3 to 5. It is safe
// for use by many goroutines.
type Service struct {
	store    *store
	tenants  Snapshots
	observer Observer
	// admission is asked before a record is made.
	admission Admission
	clock     Clock // asked before anything is decided
	logger    *slog.Logger
	waits     *waits

	inserts   *batcher[*entry, *inserted]
	reads     *batcher[ref, *row]
	completes *batcher[*completion, *completed]
	leases    *batcher[*leaseCall, leased]
	replays   *replays
	feed      *feed
	listening sync.WaitGroup     // the listener of replays
	silence   context.CancelFunc // ends it

	newOwnerFunc func() string
	nowFunc      func() time.Time // this process's clock: only for how long to go on trying
}

// New makes a Service with its batchers, each on a connection of its own
// beside the pool. Close ends them.
func New(c Config) *Service {
	if c.Observer == nil {
		c.Observer = discard{}
	}
	if c.Admission == nil {
		c.Admission = admitAll{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.PollInterval == 0 {
		c.PollInterval = 50 * time.Millisecond
	}
	if c.Clock == nil {
		c.Clock = steady{}
	}
	st := &store{pool: c.Pool}
	s := &Service{
		store: st, tenants: c.Tenants, observer: c.Observer, admission: c.Admission, clock: c.Clock, logger: c.Logger,
		waits:        newWaits(st, c.PollInterval, c.Logger),
		newOwnerFunc: rand.Text, // 26 characters of base 32: at least 128 bits
		nowFunc:      time.Now,
	}
	pool := pooled(*st)
	watching := func(k BatchKind) watch { return watch{kind: k, observer: c.Batches, tracer: c.Tracer} }
	s.inserts = newBatcher(newSession(c.Pool), pool, s.nowFunc, watching(BatchBegins), sorted(insert))
	s.reads = newBatcher(newSession(c.Pool), pool, s.nowFunc, watching(BatchReads), readRows)
	s.completes = newBatcher(newSession(c.Pool), pool, s.nowFunc, watching(BatchCompletes), sorted(complete))
	s.leases = newBatcher(newSession(c.Pool), pool, s.nowFunc, watching(BatchLeases), sorted(runLeaseCalls))
	s.listen(c)
	s.feed = newFeed(s.admin(), c.Logger, s.nowFunc)
	return s
}

// listen starts the replay cache, and what keeps it honest.
func (s *Service) listen(c Config) {
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	s.replays = newReplays(c.CacheBytes, s.nowFunc)
	ctx, cancel := context.WithCancel(context.Background())
	s.silence = cancel
	if c.CacheBytes > 0 {
		l := newListener(c.Pool.Config().ConnConfig, s.replays, c.Logger)
		s.listening.Go(func() { l.run(ctx) })
	}
}

// sorted runs a transaction on its entries in the order of the primary key:
// the order in which every batch touches rows, so that none deadlocks another.
func sorted[E entrant, R any](run func(context.Context, sender, []E) ([]R, error)) func(context.Context, sender, []E) ([]R, error) {
	return func(ctx context.Context, via sender, entries []E) ([]R, error) {
		order := make([]int, len(entries))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return entries[a].record().compare(entries[b].record()) })
		inOrder := make([]E, len(entries))
		for n, i := range order {
			inOrder[n] = entries[i]
		}
		found, err := run(ctx, via, inOrder)
		if err != nil {
			return nil, err
		}
		results := make([]R, len(entries))
		for n, i := range order {
			results[i] = found[n]
		}
		return results, nil
	}
}

// Drain makes every parked wait, and every later one, answer at once. The
// process is about to stop; the caller is told to ask again.
func (s *Service) Drain() { s.waits.drain() }

// Close answers what is under way and ends the batchers. Calls that come later
// are unavailable.
func (s *Service) Close() {
	s.Drain()
	s.inserts.close()
	s.completes.close()
	s.leases.close()
	s.reads.close()
	s.feed.close()
	s.silence()
	s.listening.Wait()
}
