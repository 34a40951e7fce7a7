package tenants

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
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

// removeBatch is how many rows one statement of a removal takes away.
const removeBatch = 1000

// RemoveTenants takes away everything of the tenants whose deletion is past its
// grace, in batches; how far it is stands in the tenant's own row, which goes
// last. One tenant's failure does not stop the others.
func (u *Upkeep) RemoveTenants(ctx context.Context) error {
	due, err := u.rows.DueRemovals(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	tables, err := u.rows.TenantTables(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, tenant := range due {
		if err := u.remove(ctx, tenant, tables); err != nil {
			errs = append(errs, fmt.Errorf("remove tenant %s: %w", tenant, err))
		}
	}
	return errors.Join(errs...)
}

func (u *Upkeep) remove(ctx context.Context, tenant auth.TenantID, tables []string) error {
	for _, table := range tables {
		for full := true; full; {
			if err := ctx.Err(); err != nil {
				return err
			}
			removed, err := u.rows.Remove(ctx, tenant, table, removeBatch)
			if err != nil {
				return err
			}
			if full = removed == removeBatch; removed > 0 {
				if err := u.rows.NoteRemoved(ctx, tenant, removed); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
