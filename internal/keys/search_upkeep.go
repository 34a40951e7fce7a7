package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
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
	id     uuid.UUID     // zero: none has begun
	tenant auth.TenantID // the one that it is at
	last   ID            // of its records, the last that was compared
}

// NewSearchUpkeep works on the database of pool.
func NewSearchUpkeep(pool *pgxpool.Pool) *SearchUpkeep {
	return &SearchUpkeep{rows: &adminStore{pool: pool}}
}

// errEmptied ends a run that a crash of the database ran through.
var errEmptied = errors.New("the table of search was emptied by a crash while it was compared with the records: the next run begins again")

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
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pass.id == uuid.Nil {
		id := uuid.New()
		if err := u.rows.BeginPass(ctx, id); err != nil {
			return fmt.Errorf("begin to compare search with the records: %w", err)
		}
		u.pass.id = id
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
	ended := u.pass.id
	u.pass = pass{}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	whole, err := u.rows.EndPass(ctx, ended)
	if err == nil && !whole {
		err = errEmptied
	}
	return err
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
