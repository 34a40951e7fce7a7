package tenants

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// applyBatch is how many records one statement of an application looks at: it
// holds their rows for well under 50 ms.
const applyBatch = 500

// Upkeep is the work on tenants that nobody waits for. Its jobs may run twice
// at once and be cut off anywhere: each goes on where it stands.
type Upkeep struct {
	rows    *store
	records Records
}

// NewUpkeep works on the database of pool.
func NewUpkeep(pool *pgxpool.Pool, records Records) *Upkeep {
	return &Upkeep{rows: &store{db: pool}, records: records}
}

// ApplyRetentions moves the existing records of every tenant whose change of
// retention is due. One tenant's failure does not stop the others; all are
// returned, joined.
func (u *Upkeep) ApplyRetentions(ctx context.Context) error {
	due, err := u.rows.DueChanges(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, change := range due {
		if err := u.apply(ctx, change); err != nil {
			errs = append(errs, fmt.Errorf("apply the retention of tenant %s: %w", change.tenant, err))
		}
	}
	return errors.Join(errs...)
}

func (u *Upkeep) apply(ctx context.Context, c dueChange) error {
	// Before the first record is touched: from here on it cannot be cancelled.
	for going := true; going; {
		if err := ctx.Err(); err != nil {
			return err
		}
		step, err := u.records.ApplyRetention(ctx, c.tenant, c.plan, c.exact, c.position, applyBatch)
		if err != nil {
			return err
		}
		if going, err = u.rows.StepChange(ctx, c.tenant, c.id, step); err != nil {
			return err
		}
		c.position = step.Last
		going = going && step.Seen > 0
	}
	return nil
}
