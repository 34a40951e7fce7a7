package pruning

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/auth"
)

// What was kept beside a record that is gone: each statement looks at a window
// of one tenant's rows in the order of their key, deletes those whose record is
// no longer there, and returns where the window ended. A row belongs to the
// record that was made before it: what an expired record left under the key
// that another took again goes as well.
const (
	sqlSweepHistory = `
with looked as (
    select h.ctid as place, h.id, h.fence, h.begun_at
    from key_history h
    where h.tenant_id = $1 and (h.id, h.fence) > ($2, $3::bigint)
    order by h.id, h.fence
    limit $4
), gone as (
    delete from key_history h
    where h.tenant_id = $1 and h.ctid = any(array(
        select l.place from looked l
        where not exists (
            select from idempotency_keys k
            where k.tenant_id = $1 and k.id = l.id and k.created_at <= l.begun_at)))
)
select id, fence, count(*) over () from looked order by id desc, fence desc limit 1`

	sqlSweepLate = `
with looked as (
    select l.ctid as place, l.id, l.record_created_at, l.slot
    from key_late_completions l
    where l.tenant_id = $1 and (l.id, l.record_created_at, l.slot) > ($2, $3::timestamptz, $4::smallint)
    order by l.id, l.record_created_at, l.slot
    limit $5
), gone as (
    delete from key_late_completions l
    where l.tenant_id = $1 and l.ctid = any(array(
        select l.place from looked l
        where not exists (
            select from idempotency_keys k
            where k.tenant_id = $1 and k.id = l.id and k.created_at <= l.record_created_at)))
)
select id, record_created_at, slot, count(*) over () from looked order by id desc, record_created_at desc, slot desc limit 1`

	sqlSwept = `
update pruning_progress set unswept = false where tenant_id = $1`
)

// sweepBeside removes what the tenant's pruned records left beside themselves.
func (s *store) sweepBeside(ctx context.Context, tenant auth.TenantID, window int) error {
	if err := s.sweepHistory(ctx, tenant, window); err != nil {
		return fmt.Errorf("sweep the history of pruned records: %w", err)
	}
	if err := s.sweepLate(ctx, tenant, window); err != nil {
		return fmt.Errorf("sweep the late completions of pruned records: %w", err)
	}
	_, err := s.pool.Exec(ctx, sqlSwept, tenant)
	return err
}

func (s *store) sweepHistory(ctx context.Context, tenant auth.TenantID, window int) error {
	var id uuid.UUID
	var fence int64
	for looked := window; looked == window; {
		rows, err := s.pool.Query(ctx, sqlSweepHistory, tenant, id, fence, window)
		if err != nil {
			return err
		}
		looked = 0
		if _, err = pgx.ForEachRow(rows, []any{&id, &fence, &looked}, func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

func (s *store) sweepLate(ctx context.Context, tenant auth.TenantID, window int) error {
	var (
		id      uuid.UUID
		created time.Time
		slot    int16
	)
	for looked := window; looked == window; {
		rows, err := s.pool.Query(ctx, sqlSweepLate, tenant, id, created, slot, window)
		if err != nil {
			return err
		}
		looked = 0
		if _, err = pgx.ForEachRow(rows, []any{&id, &created, &slot, &looked}, func() error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

const sqlSweepCredentials = `
delete from credentials c
using tenants t
where c.tenant_id = t.tenant_id
    and (c.expires_at <= now() - $1::interval or c.revoked_at <= now() - $1::interval)`

// sweepCredentials removes what is past its use, of every tenant. There are few
// of them: one statement does it.
func (s *store) sweepCredentials(ctx context.Context, kept time.Duration) (int64, error) {
	tag, err := s.pool.Exec(ctx, sqlSweepCredentials, kept)
	return tag.RowsAffected(), err
}
