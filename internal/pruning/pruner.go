package pruning

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2" //nolint:depguard // jitter: batches of several workers do not march in step
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
)

const (
	// HourlyDelay is how far the hourly run stays behind expires_at.
	HourlyDelay = time.Hour

	defaultBatch = 5_000
	defaultPause = 100 * time.Millisecond

	// smallestBatch is where halving ends.
	smallestBatch = 100
	// maxHeld is how long the rows of a batch are to be locked. A begin of one
	// of them waits that long, and with it the batch that it is in.
	maxHeld = 50 * time.Millisecond
	// restsPerWork is how much longer than a batch the rest after it is.
	restsPerWork = 5
	// maxFailures in a row end the run for a tenant, not for the others.
	maxFailures = 5
)

// Config is what a Pruner is made of.
type Config struct {
	Pool *pgxpool.Pool
	// Clock is the database's, which others may watch as well; nil: its own.
	Clock  *postgres.Clock
	Logger *slog.Logger // nil: discarded
	// Batch is how many records one statement deletes at the most; zero means
	// 5,000. Fewer are deleted where that takes long.
	Batch int
	// Pause is between two full batches, proportionally shorter after smaller
	// ones, and never shorter than five times what the batch took; zero means
	// 100 ms, below zero none.
	Pause time.Duration
}

// Pruner removes expired records. It is safe for use by many goroutines and
// processes: two at once share the work.
type Pruner struct {
	store   *store
	logger  *slog.Logger
	batch   int
	pause   time.Duration
	clock   *postgres.Clock
	nowFunc func() time.Time // of this process, monotonic: measures, and never decides what is expired
	restFor func(ctx context.Context, d time.Duration) error
}

// New makes a Pruner.
func New(c Config) *Pruner {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Batch == 0 {
		c.Batch = defaultBatch
	}
	if c.Pause == 0 {
		c.Pause = defaultPause
	}
	if c.Clock == nil {
		c.Clock = &postgres.Clock{}
	}
	return &Pruner{
		store: &store{pool: c.Pool}, clock: c.Clock, logger: c.Logger, batch: c.Batch, pause: max(c.Pause, 0),
		nowFunc: time.Now, restFor: rest,
	}
}

// Request says what to prune.
type Request struct {
	// Tenant is whose records to prune; nil is everybody's.
	Tenant *auth.TenantID
	// Delay is how far to stay behind expires_at: HourlyDelay, or zero on demand.
	Delay time.Duration
	// Within is how long to go on; zero is without a limit. What is left then is
	// in the report.
	Within time.Duration
}

// Report says what a run did.
type Report struct {
	Tenants []TenantReport // those that had anything to prune
	Pruned  int64
	// Left is how many expired records are still there, at most MaxLeft for each
	// tenant. Records that expired since the run looked are not among them.
	Left int64
	Took time.Duration
	// LongestHeld is the longest time for which a batch held its rows locked,
	// the way of the commit included.
	LongestHeld time.Duration
	// Done says that nothing expired is left.
	Done bool
}

// TenantReport is what a run did for one tenant.
type TenantReport struct {
	Tenant auth.TenantID
	Pruned int64
	Left   int64
}

// Run prunes until nothing expired is left, the time is up, or ctx ends. The
// tenants take turns, one batch each, so that none starves another; one that
// fails does not stop the rest. The report is valid beside an error, and a run
// that was broken off anywhere is simply run again.
func (p *Pruner) Run(ctx context.Context, req Request) (Report, error) {
	r := &run{Pruner: p, request: req, started: p.nowFunc()}
	turns, err := r.turns(ctx)
	if err == nil {
		err = r.takeTurns(ctx, turns)
	}
	report := r.report(ctx, turns)
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelError
	}
	for _, t := range report.Tenants {
		p.logger.LogAttrs(ctx, level, "pruned a tenant",
			slog.String("tenant", t.Tenant.String()), slog.Int64("pruned", t.Pruned), slog.Int64("left", t.Left))
	}
	p.logger.LogAttrs(ctx, level, "pruned", slog.Int64("pruned", report.Pruned), slog.Int64("left", report.Left),
		slog.Int("tenants", len(report.Tenants)), slog.Duration("took", report.Took),
		slog.Duration("longest_held", report.LongestHeld), slog.Bool("done", report.Done))
	return report, err
}

// run is one run of a Pruner.
type run struct {
	*Pruner
	request Request
	started time.Time
	longest time.Duration // that a batch held its rows
	errs    []error
}

// turn is a tenant in the round.
type turn struct {
	tenant    auth.TenantID
	watermark time.Time // zero: from the first record
	batch     int
	most      int // of a batch: less after each time-out
	pruned    int64
	failures  int // in a row
	done      bool
}

func (r *run) turns(ctx context.Context) ([]*turn, error) {
	tenants, err := r.store.tenantsToPrune(ctx, r.request.Tenant, r.request.Delay)
	if err != nil {
		return nil, fmt.Errorf("find tenants with expired records: %w", err)
	}
	turns := make([]*turn, len(tenants))
	for i, t := range tenants {
		turns[i] = &turn{tenant: t.tenant, watermark: t.watermark, batch: r.batch, most: r.batch}
	}
	return turns, nil
}

// takeTurns goes round until every tenant is done.
func (r *run) takeTurns(ctx context.Context, turns []*turn) error {
	for open := true; open; {
		open = false
		for _, t := range turns {
			if t.done || t.failures >= maxFailures {
				continue
			}
			if r.request.Within > 0 && r.nowFunc().Sub(r.started) >= r.request.Within {
				return errors.Join(r.errs...)
			}
			open = true
			if err := r.take(ctx, t); err != nil {
				return errors.Join(append(r.errs, err)...)
			}
		}
	}
	return errors.Join(r.errs...)
}

// take prunes one batch of the tenant. Its error ends the whole run.
func (r *run) take(ctx context.Context, t *turn) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	began := r.nowFunc()
	gone, err := r.pruneBatch(ctx, t)
	took := r.nowFunc().Sub(began)
	switch {
	case err == nil:
		t.failures = 0
	case errors.Is(err, postgres.ErrClockStepped) || ctx.Err() != nil:
		return err
	default:
		t.failures++
		if t.failures == maxFailures || !isTooSlow(err) {
			t.failures = maxFailures
			r.errs = append(r.errs, fmt.Errorf("prune tenant %s: %w", t.tenant, err))
			return nil
		}
		t.batch = max(t.batch/2, min(smallestBatch, r.batch))
		t.most = t.batch
		r.logger.WarnContext(ctx, "a batch took too long; the next ones are smaller",
			slog.String("tenant", t.tenant.String()), slog.Int("batch", t.batch), slog.Any("error", err))
	}
	if err != nil {
		gone = r.batch // a failure rests as a full batch does
	}
	return r.restFor(ctx, r.restAfter(gone, took))
}

// restAfter is how long to rest after a batch that removed gone records in
// took. On a busy machine a batch takes longer, and so does the rest: pruning
// then has no more than a sixth of one of the server's processors.
func (r *run) restAfter(gone int, took time.Duration) time.Duration {
	if r.pause == 0 {
		return 0
	}
	inProportion := time.Duration(float64(r.pause) * float64(gone) / float64(r.batch))
	return time.Duration(float64(max(inProportion, restsPerWork*took)) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // spreads load
}

// pruneBatch picks a batch and deletes what of it is still expired.
func (r *run) pruneBatch(ctx context.Context, t *turn) (gone int, err error) {
	picked, err := r.store.pick(ctx, t.tenant, t.watermark, r.request.Delay, t.batch)
	if err != nil {
		return 0, err
	}
	now := r.nowFunc()
	if err := r.clock.Look(picked.now, now, now); err != nil {
		return 0, err
	}
	if len(picked.places) > 0 {
		began := r.nowFunc()
		var held time.Duration
		gone, held, err = r.store.delete(ctx, t.tenant, r.request.Delay, picked, r.nowFunc)
		r.longest = max(r.longest, held)
		if err != nil {
			return 0, err
		}
		t.pruned += int64(gone)
		r.logger.DebugContext(ctx, "pruned a batch", slog.Int("gone", gone), slog.Duration("held", held), slog.Duration("took", r.nowFunc().Sub(began)))
		full := len(picked.places) == t.batch
		r.adapt(t, held)
		t.watermark = picked.last
		if full {
			return gone, nil
		}
	}
	// Nothing more from the watermark on. Where it did not begin at the first
	// record, look once more from there: a retention may have been shortened.
	if !picked.fromFirst {
		t.watermark = time.Time{}
		return gone, nil
	}
	t.done = true
	return gone, r.store.sweepBeside(ctx, t.tenant, r.batch)
}

// adapt keeps the time for which a batch's rows are locked below maxHeld.
func (r *run) adapt(t *turn, held time.Duration) {
	switch {
	case held > maxHeld:
		t.batch = max(t.batch/2, min(smallestBatch, r.batch))
	case held < maxHeld/2:
		t.batch = min(t.batch*2, t.most)
	}
}

func (r *run) report(ctx context.Context, turns []*turn) Report {
	report := Report{Took: r.nowFunc().Sub(r.started), LongestHeld: r.longest, Done: len(r.errs) == 0}
	for _, t := range turns {
		line := TenantReport{Tenant: t.tenant, Pruned: t.pruned}
		if !t.done {
			report.Done = false
			left, err := r.store.countExpired(context.WithoutCancel(ctx), t.tenant, r.request.Delay)
			if err != nil {
				r.logger.WarnContext(ctx, "what is left could not be counted", slog.Any("error", err))
			}
			line.Left = left
		}
		report.Pruned += line.Pruned
		report.Left += line.Left
		report.Tenants = append(report.Tenants, line)
	}
	return report
}

// Sweep removes credentials that nobody can use any more since keptFor: those
// that were revoked or expired before. It is what pruning does beside records,
// once for all tenants.
func (p *Pruner) Sweep(ctx context.Context) (credentials int64, err error) {
	return p.store.sweepCredentials(ctx, credentialsKept)
}

// credentialsKept is how long a revoked or expired credential is still listed.
const credentialsKept = 90 * 24 * time.Hour

func rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
