package analytics

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func (s *store) tenantsWithCounts(ctx context.Context) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, "select distinct tenant_id from analytics_counts order by tenant_id")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// sqlRollUp takes rows away and adds them to where they belong, in one
// statement. The rows of both targets are met in the order of their keys, so
// that two at once wait for each other instead of locking crosswise.
const sqlRollUp = `
with moved as (
    delete from analytics_counts c
    where c.tenant_id = $1 and c.ctid = any(array(
        select p.ctid from analytics_counts p
        where p.tenant_id = $1
        order by p.minute
        limit $2
        for update skip locked))
    returning c.tenant_id, c.minute, c.series_id, c.outcome, c.bucket, c.bin, c.n
), minutes as (
    insert into analytics_minutes as m (tenant_id, minute, series_id, outcome, bucket, bin, n)
    select tenant_id, minute, series_id, outcome, bucket, bin, sum(n)::bigint
    from moved
    group by tenant_id, minute, series_id, outcome, bucket, bin
    order by minute, series_id, outcome, bucket, bin
    on conflict (tenant_id, minute, series_id, outcome, bucket, bin) do update set n = m.n + excluded.n
), hours as (
    insert into analytics_hours as h (tenant_id, hour, series_id, outcome, bucket, bin, n)
    select tenant_id, date_trunc('hour', minute, 'UTC'), series_id, outcome, bucket, bin, sum(n)::bigint
    from moved
    group by 1, 2, 3, 4, 5, 6
    order by 2, 3, 4, 5, 6
    on conflict (tenant_id, hour, series_id, outcome, bucket, bin) do update set n = h.n + excluded.n
)
select count(*) from moved`

// rollUp moves at most limit rows of the tenant.
func (s *store) rollUp(ctx context.Context, tenant uuid.UUID, limit int) (moved int64, err error) {
	err = s.pool.QueryRow(ctx, sqlRollUp, tenant, limit).Scan(&moved)
	return moved, err
}

func (s *store) pendingCounts(ctx context.Context) (rows int64, oldest time.Time, err error) {
	var at *time.Time
	err = s.pool.QueryRow(ctx, "select count(*), min(minute) from analytics_counts").Scan(&rows, &at)
	if at != nil {
		oldest = *at
	}
	return rows, oldest, err
}
