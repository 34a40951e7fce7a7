package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/pruning"
	"github.com/onceward/onceward/internal/telemetry"
)

const (
	// jobTimeout is how long a job may run; what it did not finish goes on in
	// the next attempt.
	jobTimeout = 5 * time.Minute
	// rescueAfter is when a job of a worker that died counts as lost and is
	// given to another: a killed worker's job goes on within this and half a
	// minute. It is above jobTimeout, so that no live job is ever given away.
	rescueAfter = 10 * time.Minute
	// softStop is how long running jobs are given at the end of the process
	// before their contexts end.
	softStop = 5 * time.Second
	// hardStop is how long they are given after that.
	hardStop = 5 * time.Second
	// finishedKept is how long finished jobs are shown to the operator; it must
	// be above the longest period, or a slot could be run twice.
	finishedKept = 48 * time.Hour
	// shownEvery is how often the last success of every job is read again.
	shownEvery = 15 * time.Second
)

// Upkeep is the work on tenants that nobody waits for: *tenants.Upkeep.
type Upkeep interface {
	ApplyRetentions(ctx context.Context) error
	RemoveTenants(ctx context.Context) error
}

// Config is what a Worker is made of. The fields without a word on their zero
// value are required.
type Config struct {
	Pool       *pgxpool.Pool
	Pruner     *pruning.Pruner
	Aggregator *analytics.Aggregator
	Upkeep     Upkeep
	Usage      *limits.Usage
	Search     *keys.SearchUpkeep
	Metrics    *telemetry.WorkerMetrics
	// Tracing makes the spans of jobs; nil: none.
	Tracing trace.TracerProvider
	Logger  *slog.Logger // nil: discarded
	// PollOnly looks for jobs every second instead of listening: for a database
	// behind a pooler in transaction mode.
	PollOnly bool

	timeFunc rivertype.TimeGenerator // of tests; nil is the real time
}

// Worker runs jobs until it is told to end. Any number of them may run at
// once; one of them is elected to schedule.
type Worker struct {
	client  *river.Client[pgx.Tx]
	runs    *store
	metrics *telemetry.WorkerMetrics
	logger  *slog.Logger
	nowFunc func() time.Time // measures only
}

// New makes a Worker. Run starts it.
func New(c Config) (*Worker, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	w := &Worker{runs: &store{pool: c.Pool}, metrics: c.Metrics, logger: c.Logger, nowFunc: time.Now}
	workers := river.NewWorkers()
	addJobs(workers, c)
	var err error
	w.client, err = river.NewClient(riverpgxv5.New(c.Pool), &river.Config{
		Schema:  postgres.RiverSchema,
		Logger:  slog.New(quieter{c.Logger.Handler()}),
		Workers: workers,
		Queues: map[string]river.QueueConfig{
			queueMaintenance: {MaxWorkers: 4},
			queueRollUp:      {MaxWorkers: 1},
		},
		PeriodicJobs:                periodicJobs(),
		Plugins:                     traced(c.Tracing),
		ErrorHandler:                errorHandler{c.Logger},
		Middleware:                  []rivertype.Middleware{&accountant{worker: w}},
		JobTimeout:                  jobTimeout,
		RescueStuckJobsAfter:        rescueAfter,
		SoftStopTimeout:             softStop,
		CompletedJobRetentionPeriod: finishedKept,
		CancelledJobRetentionPeriod: finishedKept,
		DiscardedJobRetentionPeriod: 7 * 24 * time.Hour,
		PollOnly:                    c.PollOnly,
		Test:                        river.TestConfig{Time: c.timeFunc},
	})
	if err != nil {
		return nil, fmt.Errorf("set up River: %w", err)
	}
	return w, nil
}

// Run works until ctx ends; then no job is begun any more, and running ones
// are given softStop to finish and hardStop to give up. A job that does not
// is an error, and is rescued by another worker.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	w.logger.InfoContext(ctx, "working", slog.String("client", w.client.ID()))
	ticker := time.NewTicker(shownEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if _, err := w.Jobs(ctx); err != nil && ctx.Err() == nil {
			w.logger.WarnContext(ctx, "the last runs of jobs could not be read", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), softStop+hardStop)
	defer cancel()
	if err := w.client.Stop(stopCtx); err != nil {
		return fmt.Errorf("jobs were still running %s after they were told to end: %w", softStop+hardStop, err)
	}
	return nil
}

// JobRuns is when a kind of job last ran, on any worker.
type JobRuns struct {
	Kind          string
	LastStarted   time.Time // zero: never
	LastSucceeded time.Time // zero: never
	LastFailed    time.Time // zero: never
	Runs          int64
	Failures      int64
	Age           time.Duration // since LastSucceeded, by the database's clock; 0 where never
}

// Jobs lists every kind of job that runs by the clock.
func (w *Worker) Jobs(ctx context.Context) ([]JobRuns, error) {
	seen, err := w.runs.read(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]JobRuns, 0, len(schedules()))
	for _, s := range schedules() {
		runs := JobRuns{Kind: s.args.Kind()}
		for _, r := range seen {
			if r.Kind == runs.Kind {
				runs = r
			}
		}
		if !runs.LastSucceeded.IsZero() {
			w.metrics.JobLastSuccess(runs.Kind, w.nowFunc().Add(-runs.Age))
		}
		list = append(list, runs)
	}
	return list, nil
}

// accountant notes of each job when it began and how it ended. That it cannot
// is no failure of the job.
type accountant struct {
	river.MiddlewareDefaults
	worker *Worker
}

// Work implements rivertype.WorkerMiddleware.
func (a *accountant) Work(ctx context.Context, job *rivertype.JobRow, doInner func(ctx context.Context) error) error {
	w := a.worker
	began := w.nowFunc()
	w.note(ctx, job.Kind, w.runs.started)
	err := doInner(ctx)
	took := w.nowFunc().Sub(began)

	var snooze *river.JobSnoozeError
	switch {
	case err == nil:
		w.metrics.Job(job.Kind, telemetry.JobDone, took)
		w.metrics.JobLastSuccess(job.Kind, w.nowFunc())
		w.note(ctx, job.Kind, w.runs.succeeded)
	case errors.As(err, &snooze):
		w.metrics.Job(job.Kind, telemetry.JobUnfinished, took)
	default:
		w.metrics.Job(job.Kind, telemetry.JobFailed, took)
		w.note(ctx, job.Kind, w.runs.failed)
	}
	return err
}

func (w *Worker) note(ctx context.Context, kind string, write func(context.Context, string) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := write(ctx, kind); err != nil {
		w.logger.WarnContext(ctx, "a job's run could not be noted", slog.String("kind", kind), slog.Any("error", err))
	}
}

// errorHandler says what failed. River retries, and gives up after a job's
// MaxAttempts; the next slot of its schedule begins anew.
type errorHandler struct{ logger *slog.Logger }

// HandleError implements river.ErrorHandler.
func (h errorHandler) HandleError(ctx context.Context, job *rivertype.JobRow, err error) *river.ErrorHandlerResult {
	h.logger.ErrorContext(ctx, "a job failed",
		slog.String("kind", job.Kind), slog.Int64("job", job.ID), slog.Int("attempt", job.Attempt),
		slog.Int("max_attempts", job.MaxAttempts), slog.Any("error", err))
	return nil
}

// HandlePanic implements river.ErrorHandler.
func (h errorHandler) HandlePanic(ctx context.Context, job *rivertype.JobRow, panicked any, trace string) *river.ErrorHandlerResult {
	h.logger.ErrorContext(ctx, "a job panicked",
		slog.String("kind", job.Kind), slog.Int64("job", job.ID), slog.Int("attempt", job.Attempt),
		slog.Any("panic", panicked), slog.String("trace", trace))
	return nil
}

// quieter passes on what River has to say from warnings upwards.
type quieter struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q quieter) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && q.Handler.Enabled(ctx, level)
}
