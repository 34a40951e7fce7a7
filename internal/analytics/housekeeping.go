package analytics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

const (
	// daysAhead is how many days of events are made before they begin: a worker
	// that is away for less leaves nothing to the default partition.
	daysAhead = 3
	// spentBatch is how many spent rows one statement deletes.
	spentBatch = 5_000

	day = 24 * time.Hour
	// namesKept is how long the names of a day may still be needed by a flush
	// that was held up.
	namesKept = 8 * day
	// processesKept is how long a process may be unable to flush and still
	// find its last number.
	processesKept = 30 * day
)

// HousekeepingReport says what was made and what went.
type HousekeepingReport struct {
	DaysMade    int   // of single events
	DaysDropped int   // of single events
	SpentRows   int64 // of roll-ups, names, series and processes
}

// Housekeep makes the days of single events that come next and drops what is
// over its time. It is safe to run twice, to run beside itself and to be
// killed. It never deletes what is not rolled up yet.
func (a *Aggregator) Housekeep(ctx context.Context) (HousekeepingReport, error) {
	var report HousekeepingReport
	now, err := a.store.now(ctx)
	if err != nil {
		return report, fmt.Errorf("read the database's clock: %w", err)
	}
	now = now.UTC()
	var errs []error
	for at := now.Truncate(day); at.Before(now.Add(daysAhead * day)); at = at.Add(day) {
		made, err := a.store.makeDay(ctx, at)
		if err != nil {
			errs = append(errs, fmt.Errorf("make the partition of events of %s: %w", at.Format(time.DateOnly), err))
		}
		if made {
			report.DaysMade++
		}
	}
	report.DaysDropped, err = a.dropDays(ctx, now.Add(-EventsKept))
	errs = append(errs, err)
	report.SpentRows, err = a.dropSpent(ctx, now)
	return report, errors.Join(append(errs, err)...)
}

// dropDays drops the days of events that ended an hour or more before keep.
func (a *Aggregator) dropDays(ctx context.Context, keep time.Time) (dropped int, err error) {
	days, err := a.store.days(ctx)
	if err != nil {
		return 0, fmt.Errorf("list the partitions of events: %w", err)
	}
	var errs []error
	for _, at := range days {
		if !at.Add(day + time.Hour).Before(keep) {
			continue
		}
		if err := a.store.dropDay(ctx, at); err != nil {
			errs = append(errs, fmt.Errorf("drop the partition of events of %s: %w", at.Format(time.DateOnly), err))
			continue
		}
		dropped++
	}
	return dropped, errors.Join(errs...)
}

func (a *Aggregator) dropSpent(ctx context.Context, now time.Time) (rows int64, err error) {
	tenants, err := a.store.tenantsWithSeries(ctx)
	if err != nil {
		return 0, fmt.Errorf("find whose roll-ups are spent: %w", err)
	}
	limits := []spent{
		{sqlSpentMinutes, now.Add(-MinutesKept - day)},
		{sqlSpentHours, now.Add(-HoursKept - 2*day)},
		{sqlSpentEvents, now.Add(-EventsKept - day)},
		{sqlSpentNames, now.Add(-namesKept)},
		{sqlSpentSeries, now.Add(-HoursKept - 3*day)},
	}
	var errs []error
	for _, tenant := range tenants {
		if ctx.Err() != nil {
			return rows, errors.Join(append(errs, ctx.Err())...)
		}
		n, err := a.dropSpentOf(ctx, tenant, limits)
		if rows += n; err != nil {
			errs = append(errs, fmt.Errorf("drop the spent roll-ups of tenant %s: %w", tenant, err))
		}
	}
	n, err := a.store.dropProcesses(ctx, now.Add(-processesKept))
	return rows + n, errors.Join(append(errs, err)...)
}

// spent is a statement that deletes a batch of a tenant's rows from before.
type spent struct {
	statement string
	before    time.Time
}

func (a *Aggregator) dropSpentOf(ctx context.Context, tenant uuid.UUID, limits []spent) (rows int64, err error) {
	for _, limit := range limits {
		for {
			n, err := a.store.dropSpent(ctx, limit, tenant, spentBatch)
			if rows += n; err != nil {
				return rows, err
			}
			if n < spentBatch {
				break
			}
		}
	}
	return rows, nil
}
