package keys

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/tenants"
)

// adminStore runs the statements of administration. The tenant stands in each;
// another tenant's records are as if they did not exist. Its errors are the
// driver's: the callers translate.
type adminStore struct{ pool *pgxpool.Pool }

// sqlPlanned goes after the records to be looked at, as k with a lease that has
// ended: their end under the plan, retention counted from the completion, or
// from the release.
const sqlPlanned = `
    left join key_history h on h.tenant_id = k.tenant_id and h.id = k.id and h.fence = k.fence
    left join unnest(@namespaces::uuid[], @operations::text[], @retentions::integer[]) as narrow (namespace_id, operation, seconds)
        on narrow.operation = k.operation and narrow.namespace_id = k.namespace_id
    left join unnest(@namespaces::uuid[], @operations::text[], @retentions::integer[]) as wide (namespace_id, operation, seconds)
        on wide.operation = k.operation and wide.namespace_id = '00000000-0000-0000-0000-000000000000'`

const sqlPlannedEnd = `
    coalesce(k.completed_at, h.ended_at, k.lease_expires_at) + make_interval(secs => coalesce(narrow.seconds, wide.seconds, @default_seconds::integer))`

func planArguments(tenant auth.TenantID, plan tenants.Plan) pgx.NamedArgs {
	n := len(plan.Operations)
	namespaces, operations, retentions := make([]uuid.UUID, n), make([]string, n), make([]int32, n)
	for i, o := range plan.Operations {
		namespaces[i], operations[i], retentions[i] = uuid.UUID(o.Namespace), o.Operation, int32(o.Retention.Seconds())
	}
	return pgx.NamedArgs{
		"tenant_id": tenant, "namespaces": namespaces, "operations": operations, "retentions": retentions, "default_seconds": int32(plan.Default.Seconds()),
	}
}

// PreviewRetention counts the tenant's records that the plan would end earlier,
// and those of them that it would end at once.
func (s *adminStore) PreviewRetention(ctx context.Context, tenant auth.TenantID, plan tenants.Plan) (tenants.Affected, error) {
	const query = `
select count(*) filter (where planned.ends_at < planned.expires_at),
    count(*) filter (where planned.ends_at < planned.expires_at and planned.ends_at <= now()),
    coalesce(sum(planned.body_bytes) filter (where planned.ends_at < planned.expires_at and planned.ends_at <= now()), 0)::bigint
from (
    select k.expires_at, k.body_bytes,` + sqlPlannedEnd + ` as ends_at
    from idempotency_keys k` + sqlPlanned + `
    where k.tenant_id = @tenant_id and k.state in (2, 3) and k.expires_at > now()
) planned`
	var a tenants.Affected
	err := s.pool.QueryRow(ctx, query, planArguments(tenant, plan)).Scan(&a.Shortened, &a.Gone, &a.GoneBytes)
	return a, err
}

// ApplyRetention moves expires_at of the tenant's next records after the id.
// What is in progress, lapsed or unknown is left, and so is what has ended: the
// condition stands in the writing statement, on the row as it is then.
func (s *adminStore) ApplyRetention(ctx context.Context, tenant auth.TenantID, plan tenants.Plan, exact bool, after uuid.UUID, most int) (tenants.Step, error) {
	const query = `
with slice as (
    select k.id, k.fence, k.state, k.completed_at,` + sqlPlannedEnd + ` as ends_at
    from (
        select tenant_id, id, namespace_id, operation, fence, state, completed_at, lease_expires_at from idempotency_keys
        where tenant_id = @tenant_id and id > @after
        order by id
        limit @most
    ) k` + sqlPlanned + `
), moved as (
    update idempotency_keys k
    set expires_at = s.ends_at
    from slice s
    where k.tenant_id = @tenant_id and k.id = s.id and k.fence = s.fence and k.state = s.state
        and k.state in (2, 3) and k.expires_at > now()
        and (s.ends_at > k.expires_at or @exact::boolean and s.ends_at < k.expires_at)
    returning k.id
)
select (select id from slice order by id desc limit 1), (select count(*) from slice), (select count(*) from moved)`
	arguments := planArguments(tenant, plan)
	arguments["after"], arguments["most"], arguments["exact"] = after, most, exact
	var step tenants.Step
	var last *uuid.UUID
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, query, arguments).Scan(&last, &step.Seen, &step.Changed); err != nil || !exact || step.Changed == 0 {
			return err
		}
		_, err := tx.Exec(ctx, InvalidationStatement, tenant, nil)
		return err
	})
	if err != nil {
		return tenants.Step{}, err
	}
	if last != nil {
		step.Last = *last
	}
	return step, nil
}
