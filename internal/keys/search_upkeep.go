package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// SearchUpkeep makes the table that search looks in agree with the records: it
// finds what a killed process did not carry over and drops what has ended. It
// may run twice at once, and be cut off anywhere.
type SearchUpkeep struct{ rows *adminStore }

// NewSearchUpkeep works on the database of pool.
func NewSearchUpkeep(pool *pgxpool.Pool) *SearchUpkeep {
	return &SearchUpkeep{&adminStore{pool: pool}}
}

// Run compares all records of all tenants, in slices. One tenant's failure
// does not stop the others; all are returned, joined.
func (u *SearchUpkeep) Run(ctx context.Context) error {
	all, err := u.rows.Tenants(ctx)
	if err != nil {
		return fmt.Errorf("list the tenants: %w", err)
	}
	errs := []error{u.rows.DropFeeds(ctx)}
	for _, tenant := range all {
		var last ID
		for done := false; !done && err == nil; {
			if last, done, err = u.rows.Compare(ctx, tenant, last, feedBatch); err != nil {
				errs = append(errs, fmt.Errorf("compare the records of tenant %s: %w", tenant, err))
			}
		}
		if err = ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}
