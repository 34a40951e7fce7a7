package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
)

// SearchUpkeep makes the table that search looks in agree with the records: it
// finds what a killed process did not carry over and drops what has ended. It
// may run twice at once, and be cut off anywhere.
type SearchUpkeep struct{ rows *adminStore }

// NewSearchUpkeep works on the database of pool.
func NewSearchUpkeep(pool *pgxpool.Pool) *SearchUpkeep {
	return &SearchUpkeep{&adminStore{pool: pool}}
}

// compareEvery is how old a comparison of all records may grow.
const compareEvery = time.Hour

// RunDue runs when the last run is an hour old, or when a crash of the server
// has emptied the table since: it is meant to be called every minute.
func (u *SearchUpkeep) RunDue(ctx context.Context) error {
	compared, err := u.rows.IsCompared(ctx)
	if err != nil {
		return fmt.Errorf("see when search was last compared with the records: %w", err)
	}
	if compared {
		return nil
	}
	return u.Run(ctx)
}

// Run compares all records of all tenants, in slices. One tenant's failure
// does not stop the others; all are returned, joined.
func (u *SearchUpkeep) Run(ctx context.Context) error {
	since, err := u.rows.clock(ctx)
	if err != nil {
		return fmt.Errorf("ask for the time: %w", err)
	}
	all, err := u.rows.Tenants(ctx)
	if err != nil {
		return fmt.Errorf("list the tenants: %w", err)
	}
	errs := []error{u.rows.DropFeeds(ctx)}
	for _, tenant := range all {
		errs = append(errs, u.compare(ctx, tenant))
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return u.rows.NoteCompared(ctx, since)
}

func (u *SearchUpkeep) compare(ctx context.Context, tenant auth.TenantID) error {
	var last ID
	for {
		next, done, err := u.rows.Compare(ctx, tenant, last, feedBatch)
		if err != nil {
			return fmt.Errorf("compare the records of tenant %s: %w", tenant, err)
		}
		if done {
			return nil
		}
		last = next
	}
}
