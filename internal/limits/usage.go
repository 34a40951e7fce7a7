package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
)

// Day is what a tenant used on one UTC day.
type Day struct {
	Day        time.Time
	Requests   int64 // the entries of a batch each; calls on a held lease not
	NewRecords int64
	Limited    int64 // refused for a limit
}

// Holding is what a tenant holds: counted as it comes, and anew by a job, since
// what expires is taken off by nobody.
type Holding struct {
	LiveRecords int64
	StoredBytes int64
	CountedAt   time.Time // zero: never
}

// Usage reads what tenants have used.
type Usage struct{ rows *store }

// NewUsage reads from the database of pool.
func NewUsage(pool *pgxpool.Pool) *Usage { return &Usage{&store{db: pool}} }

// Days returns the tenant's use per day, from inclusive, to exclusive, the
// newest first. Kinds: unavailable, internal.
func (u *Usage) Days(ctx context.Context, tenant auth.TenantID, from, to time.Time) ([]Day, error) {
	return u.rows.Days(ctx, tenant, from, to)
}

// Holding returns what the tenant holds. Kinds: unavailable, internal.
func (u *Usage) Holding(ctx context.Context, tenant auth.TenantID) (Holding, error) {
	return u.rows.Holding(ctx, tenant)
}

// Recount counts what every tenant holds anew: the job that corrects what the
// processes have added up. One tenant's failure does not stop the others.
func (u *Usage) Recount(ctx context.Context) error {
	all, err := u.rows.Tenants(ctx)
	if err != nil {
		return fmt.Errorf("list the tenants: %w", err)
	}
	var errs []error
	for _, tenant := range all {
		if err := u.rows.Recount(ctx, tenant); err != nil {
			errs = append(errs, fmt.Errorf("count the records of tenant %s: %w", tenant, err))
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}
