package pruning

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
)

const (
	// MaxLeft bounds the count of what is left of a tenant: counting more would
	// cost more than the number is worth.
	MaxLeft = 1_000_000

	// pickTimeout bounds the look for expired records. It locks nothing, and
	// the first look after much was deleted walks over what is gone.
	pickTimeout = 30 * time.Second
	// Time-outs of the deleting transaction, by the server: no batch holds its
	// rows for longer than the first.
	deleteStatementTimeout = "1s"
	deleteLockTimeout      = "100ms"
	countTimeout           = 10 * time.Second
)

// store runs the statements of this package. Each that locks or deletes names
// one tenant as a constant: it never touches a row of another.
type store struct{ pool *pgxpool.Pool }

type expiredTenant struct {
	tenant    auth.TenantID
	watermark time.Time // zero: none
}

const sqlTenantsToPrune = `
select t.tenant_id, p.watermark
from tenants t
left join pruning_progress p on p.tenant_id = t.tenant_id
where t.tenant_id = coalesce($1, t.tenant_id)
    and (p.unswept or exists (
        select from idempotency_keys k
        where k.tenant_id = t.tenant_id and k.expires_at <= now() - $2::interval))
order by t.tenant_id`

// tenantsToPrune lists the tenants that have anything to prune, or the one of
// them that is named.
func (s *store) tenantsToPrune(ctx context.Context, only *auth.TenantID, delay time.Duration) ([]expiredTenant, error) {
	rows, err := s.pool.Query(ctx, sqlTenantsToPrune, (*uuid.UUID)(only), delay)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(from pgx.CollectableRow) (t expiredTenant, err error) {
		var watermark *time.Time
		err = from.Scan(&t.tenant, &watermark)
		if watermark != nil {
			t.watermark = *watermark
		}
		return t, err
	})
}

// picked are expired records as they were seen.
type picked struct {
	fromFirst bool // no watermark was given
	now       time.Time
	last      time.Time // expires_at of the last of them
	places    []pgtype.TID
}

const sqlPick = `
select k.ctid, k.expires_at
from idempotency_keys k
where k.tenant_id = $1 and k.expires_at >= $2 and k.expires_at <= now() - $3::interval
order by k.expires_at
limit $4`

// pick looks for the tenant's records that expired first, from the watermark
// on (zero: from the first). It locks nothing.
func (s *store) pick(ctx context.Context, tenant auth.TenantID, watermark time.Time, delay time.Duration, limit int) (*picked, error) {
	ctx, cancel := context.WithTimeout(ctx, pickTimeout)
	defer cancel()
	from := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	if !watermark.IsZero() {
		from = pgtype.Timestamptz{Time: watermark, Valid: true}
	}
	p := &picked{fromFirst: watermark.IsZero(), places: make([]pgtype.TID, 0, limit)}
	var place pgtype.TID
	batch := &pgx.Batch{}
	batch.Queue(sqlPick, tenant, from, delay, limit).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&place, &p.last}, func() error {
			p.places = append(p.places, place)
			return nil
		})
		return err
	})
	// Last: a look that takes long is no step of the clock.
	batch.Queue("select clock_timestamp()").QueryRow(func(r pgx.Row) error { return r.Scan(&p.now) })
	return p, s.pool.SendBatch(ctx, batch).Close()
}

const (
	// The commit is not waited for (PostgreSQL, "Asynchronous Commit"): what a
	// crash takes back is expired all the same and pruned again, whoever begins
	// one of the keys meanwhile has its own commit behind this one in the log,
	// and the rows are locked for less.
	sqlLimits = `
select set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true), set_config('synchronous_commit', 'off', true)`

	sqlSetWatermark = `
insert into pruning_progress (tenant_id, watermark, unswept) values ($1, $2, true)
on conflict (tenant_id) do update set watermark = excluded.watermark, unswept = true`

	// A row that lives again, or is no longer at its place, is left alone; so is
	// one in progress with a live lease, which no expired record can have.
	// Another row at the same place is deleted only where it is expired too.
	sqlDelete = `
delete from idempotency_keys k
where k.tenant_id = $1 and k.ctid = any($2::tid[])
    and k.expires_at <= now() - $3::interval
    and not (k.state = 1 and k.lease_expires_at > now())`
)

// delete removes those of the picked records that are still expired, in one
// transaction. They come last: held is how long they were locked.
func (s *store) delete(ctx context.Context, tenant auth.TenantID, delay time.Duration, p *picked, nowFunc func() time.Time) (gone int, held time.Duration, err error) {
	var locked time.Time
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(sqlLimits, deleteStatementTimeout, deleteLockTimeout)
		batch.Queue(sqlSetWatermark, tenant, p.last)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("keep how far pruning came: %w", err)
		}
		locked = nowFunc()
		tag, err := tx.Exec(ctx, sqlDelete, tenant, p.places, delay)
		if err != nil {
			return fmt.Errorf("delete records: %w", err)
		}
		gone = int(tag.RowsAffected())
		return nil
	})
	return gone, nowFunc().Sub(locked), err
}

const sqlCountExpired = `
select count(*) from (
    select from idempotency_keys k
    where k.tenant_id = $1 and k.expires_at <= now() - $2::interval
    limit $3) expired`

// countExpired is how many of the tenant's records are expired, at most MaxLeft.
func (s *store) countExpired(ctx context.Context, tenant auth.TenantID, delay time.Duration) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	err = s.pool.QueryRow(ctx, sqlCountExpired, tenant, delay, MaxLeft).Scan(&n)
	return n, err
}

// codeQueryCanceled is what a statement_timeout ends with.
const codeQueryCanceled = "57014"

// isTooSlow says whether a smaller batch may do what this one could not.
func isTooSlow(err error) bool {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == codeQueryCanceled {
		return true
	}
	return postgres.IsLockNotAvailable(err) || postgres.IsDeadlock(err) || errors.Is(err, context.DeadlineExceeded)
}
