package analytics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// rollUpBatch is how many flushed rows one statement moves: some tens of
// milliseconds of work.
const rollUpBatch = 5_000

// What is kept how long. A minute is kept a day longer than it can be asked
// for, an hour two days longer.
const (
	// MinutesKept is how far back figures by the minute go.
	MinutesKept = 7 * 24 * time.Hour
	// HoursKept is how far back figures go at all.
	HoursKept = 400 * 24 * time.Hour
	// EventsKept is how far back single events go.
	EventsKept = 7 * 24 * time.Hour
)

// Aggregator moves what was flushed into minutes and hours and drops what is
// over its time. It is safe for use by many goroutines and many processes: two
// at once do no harm.
type Aggregator struct {
	store *store
	batch int
}

// NewAggregator makes an Aggregator.
func NewAggregator(pool *pgxpool.Pool) *Aggregator {
	return &Aggregator{store: &store{pool: pool}, batch: rollUpBatch}
}

// RollUpReport says what a roll-up moved.
type RollUpReport struct {
	Tenants int
	Rows    int64
}

// RollUp moves everything that was flushed before it began. Each row is moved
// by one statement, which deletes it and adds it to its minute and its hour: a
// roll-up that dies at any moment, runs twice or runs beside another counts it
// exactly once, however late it came. One tenant's failure does not stop the
// rest.
func (a *Aggregator) RollUp(ctx context.Context) (RollUpReport, error) {
	var report RollUpReport
	tenants, err := a.store.tenantsWithCounts(ctx)
	if err != nil {
		return report, fmt.Errorf("find what to roll up: %w", err)
	}
	var errs []error
	for _, tenant := range tenants {
		if ctx.Err() != nil {
			return report, errors.Join(append(errs, ctx.Err())...)
		}
		rows, err := a.rollUpTenant(ctx, tenant)
		report.Rows += rows
		if err != nil {
			errs = append(errs, fmt.Errorf("roll up tenant %s: %w", tenant, err))
			continue
		}
		report.Tenants++
	}
	return report, errors.Join(errs...)
}

func (a *Aggregator) rollUpTenant(ctx context.Context, tenant uuid.UUID) (rows int64, err error) {
	for {
		moved, err := a.store.rollUp(ctx, tenant, a.batch)
		if rows += moved; err != nil || moved < int64(a.batch) {
			return rows, err
		}
	}
}

// Pending is how many flushed rows wait to be rolled up, and since when.
func (a *Aggregator) Pending(ctx context.Context) (rows int64, oldest time.Time, err error) {
	return a.store.pendingCounts(ctx)
}
