package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
)

// SearchUpkeep makes the table that search looks in agree with the records: it
// finds what a killed process did not carry over and drops what has ended. It
// may run twice at once, and be cut off anywhere: the next run goes on there.
type SearchUpkeep struct {
	rows *adminStore

	mu   sync.Mutex // one run at a time; guards pass
	pass pass
}

// pass is one comparison of all records, as far as it came.
type pass struct {
	since  time.Time     // by the database's clock; zero: none has begun
	tenant auth.TenantID // the one that it is at
	last   ID            // of its records, the last that was compared
}

// NewSearchUpkeep works on the database of pool.
func NewSearchUpkeep(pool *pgxpool.Pool) *SearchUpkeep {
	return &SearchUpkeep{rows: &adminStore{pool: pool}}
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
func (u *SearchUpkeep) Run(ctx context.Context) (err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pass.since.IsZero() {
		if u.pass.since, err = u.rows.clock(ctx); err != nil {
			return fmt.Errorf("ask for the time: %w", err)
		}
	}
	all, err := u.rows.Tenants(ctx)
	if err != nil {
		return fmt.Errorf("list the tenants: %w", err)
	}
	errs := []error{u.rows.DropFeeds(ctx)}
	for _, tenant := range all { // sorted
		if bytes.Compare(tenant[:], u.pass.tenant[:]) < 0 {
			continue
		}
		if tenant != u.pass.tenant {
			u.pass.tenant, u.pass.last = tenant, ID{}
		}
		errs = append(errs, u.compare(ctx, tenant))
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	since := u.pass.since
	u.pass = pass{}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return u.rows.NoteCompared(ctx, since)
}

func (u *SearchUpkeep) compare(ctx context.Context, tenant auth.TenantID) error {
	for {
		next, done, err := u.rows.Compare(ctx, tenant, u.pass.last, feedBatch)
		if err != nil {
			return fmt.Errorf("compare the records of tenant %s: %w", tenant, err)
		}
		u.pass.last = next
		if done {
			return nil
		}
	}
}
