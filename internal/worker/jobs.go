package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/pruning"
	"github.com/onceward/onceward/internal/telemetry"
)

const (
	// pruneWithin is how long one attempt of a pruning job goes on; the rest is
	// the next attempt's, at once.
	pruneWithin = 4 * time.Minute
	goesOnAfter = time.Second
)

func addJobs(workers *river.Workers, c Config) {
	river.AddWorker(workers, &rollUpJob{aggregator: c.Aggregator, metrics: c.Metrics})
	river.AddWorker(workers, &pruneJob{pruner: c.Pruner, metrics: c.Metrics})
	river.AddWorker(workers, &pruneTenantJob{pruner: c.Pruner, metrics: c.Metrics})
	river.AddWorker(workers, &housekeepJob{aggregator: c.Aggregator, pruner: c.Pruner})
	river.AddWorker(workers, &applyRetentionsJob{upkeep: c.Upkeep})
	river.AddWorker(workers, &removeTenantsJob{upkeep: c.Upkeep})
	river.AddWorker(workers, &recountUsageJob{usage: c.Usage})
	river.AddWorker(workers, &keepSearchJob{search: c.Search})
}

// rollUpArgs is scheduled. Running twice moves what came meanwhile.
type rollUpArgs struct{}

// Kind implements river.JobArgs.
func (rollUpArgs) Kind() string { return "roll_up" }

type rollUpJob struct {
	river.WorkerDefaults[rollUpArgs]
	aggregator *analytics.Aggregator
	metrics    *telemetry.WorkerMetrics
}

// Work implements river.Worker.
func (j *rollUpJob) Work(ctx context.Context, _ *river.Job[rollUpArgs]) error {
	report, err := j.aggregator.RollUp(ctx)
	pending, _, pendingErr := j.aggregator.Pending(ctx)
	if pendingErr == nil {
		j.metrics.RolledUp(report.Rows, pending)
	}
	return err
}

// pruneArgs is scheduled. Running twice shares the work.
type pruneArgs struct{}

// Kind implements river.JobArgs.
func (pruneArgs) Kind() string { return "prune" }

type pruneJob struct {
	river.WorkerDefaults[pruneArgs]
	pruner  *pruning.Pruner
	metrics *telemetry.WorkerMetrics
}

// Work implements river.Worker.
func (j *pruneJob) Work(ctx context.Context, _ *river.Job[pruneArgs]) error {
	return prune(ctx, j.pruner, j.metrics, pruning.Request{Delay: pruning.HourlyDelay, Within: pruneWithin})
}

// pruneTenantArgs is enqueued where a prune on demand had more to do than its
// caller could wait for. Running twice shares the work.
type pruneTenantArgs struct {
	Tenant string `json:"tenant"` // empty: everybody
}

// Kind implements river.JobArgs.
func (pruneTenantArgs) Kind() string { return "prune_on_demand" }

// InsertOpts implements river.JobArgsWithInsertOpts. One at a time for each
// tenant; a finished one is in nobody's way, unlike by River's default.
func (pruneTenantArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{
		Queue: queueMaintenance, MaxAttempts: 8,
		UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
			rivertype.JobStateRetryable, rivertype.JobStateScheduled,
		}},
	}
}

type pruneTenantJob struct {
	river.WorkerDefaults[pruneTenantArgs]
	pruner  *pruning.Pruner
	metrics *telemetry.WorkerMetrics
}

// Work implements river.Worker.
func (j *pruneTenantJob) Work(ctx context.Context, job *river.Job[pruneTenantArgs]) error {
	req := pruning.Request{Within: pruneWithin}
	if job.Args.Tenant != "" {
		id, err := uuid.Parse(job.Args.Tenant)
		if err != nil {
			return river.JobCancel(fmt.Errorf("read the tenant of the job: %w", err))
		}
		tenant := auth.TenantID(id)
		req.Tenant = &tenant
	}
	return prune(ctx, j.pruner, j.metrics, req)
}

// prune runs, shows what became of it, and goes on later where time was up.
func prune(ctx context.Context, pruner *pruning.Pruner, metrics *telemetry.WorkerMetrics, req pruning.Request) error {
	report, err := pruner.Run(ctx, req)
	metrics.Pruned(report.Pruned, report.Left)
	if err != nil {
		return err
	}
	if !report.Done {
		return river.JobSnooze(goesOnAfter)
	}
	return river.RecordOutput(ctx, struct {
		Tenants int     `json:"tenants"`
		Pruned  int64   `json:"pruned"`
		Seconds float64 `json:"seconds"`
		// LongestHeld is how long a batch held its rows at the most, in seconds.
		LongestHeld float64 `json:"longest_held_seconds"`
	}{len(report.Tenants), report.Pruned, report.Took.Seconds(), report.LongestHeld.Seconds()})
}

// housekeepArgs is scheduled. Running twice finds nothing left to do.
type housekeepArgs struct{}

// Kind implements river.JobArgs.
func (housekeepArgs) Kind() string { return "housekeep" }

type housekeepJob struct {
	river.WorkerDefaults[housekeepArgs]
	aggregator *analytics.Aggregator
	pruner     *pruning.Pruner
}

// Work implements river.Worker.
func (j *housekeepJob) Work(ctx context.Context, _ *river.Job[housekeepArgs]) error {
	report, err := j.aggregator.Housekeep(ctx)
	credentials, sweepErr := j.pruner.Sweep(ctx)
	if sweepErr != nil {
		sweepErr = fmt.Errorf("sweep credentials: %w", sweepErr)
	}
	if err := errors.Join(err, sweepErr); err != nil {
		return err
	}
	return river.RecordOutput(ctx, struct {
		DaysMade    int   `json:"days_made"`
		DaysDropped int   `json:"days_dropped"`
		SpentRows   int64 `json:"spent_rows"`
		Credentials int64 `json:"credentials"`
	}{report.DaysMade, report.DaysDropped, report.SpentRows, credentials})
}

// applyRetentionsArgs is scheduled. Running twice goes on where the other stands.
type applyRetentionsArgs struct{}

// Kind implements river.JobArgs.
func (applyRetentionsArgs) Kind() string { return "apply_retentions" }

type applyRetentionsJob struct {
	river.WorkerDefaults[applyRetentionsArgs]
	upkeep Upkeep
}

// Work implements river.Worker.
func (j *applyRetentionsJob) Work(ctx context.Context, _ *river.Job[applyRetentionsArgs]) error {
	return j.upkeep.ApplyRetentions(ctx)
}

// removeTenantsArgs is scheduled. Running twice goes on where the other stands.
type removeTenantsArgs struct{}

// Kind implements river.JobArgs.
func (removeTenantsArgs) Kind() string { return "remove_tenants" }

type removeTenantsJob struct {
	river.WorkerDefaults[removeTenantsArgs]
	upkeep Upkeep
}

// Work implements river.Worker.
func (j *removeTenantsJob) Work(ctx context.Context, _ *river.Job[removeTenantsArgs]) error {
	return j.upkeep.RemoveTenants(ctx)
}

// recountUsageArgs is scheduled. Running twice counts twice.
type recountUsageArgs struct{}

// Kind implements river.JobArgs.
func (recountUsageArgs) Kind() string { return "recount_usage" }

type recountUsageJob struct {
	river.WorkerDefaults[recountUsageArgs]
	usage *limits.Usage
}

// Work implements river.Worker.
func (j *recountUsageJob) Work(ctx context.Context, _ *river.Job[recountUsageArgs]) error {
	return j.usage.Recount(ctx)
}

// keepSearchArgs is scheduled every minute; it compares when the last
// comparison is an hour old or was lost in a crash.
type keepSearchArgs struct{}

// Kind implements river.JobArgs.
func (keepSearchArgs) Kind() string { return "keep_search" }

type keepSearchJob struct {
	river.WorkerDefaults[keepSearchArgs]
	search *keys.SearchUpkeep
}

// Work implements river.Worker.
func (j *keepSearchJob) Work(ctx context.Context, _ *river.Job[keepSearchArgs]) error {
	return j.search.RunDue(ctx)
}
