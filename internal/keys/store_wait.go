package keys

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/auth"
)

// sqlChanged names the records whose awaited attempt holds no live lease any
// more, by the database's clock.
const sqlChanged = `
select u.place
from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[]) with ordinality as u(tenant_id, id, namespace_id, fence, place)
left join idempotency_keys k on k.tenant_id = u.tenant_id and k.id = u.id and k.namespace_id = u.namespace_id
where k.fence is distinct from u.fence or k.state <> 1 or k.lease_expires_at <= clock_timestamp()`

// changed returns those of records that have changed since their attempt was
// seen: another attempt, another state, a lapse, or gone.
func (s *store) changed(ctx context.Context, records []watched) ([]ref, error) {
	var (
		tenants    []auth.TenantID
		ids        []ID
		namespaces []auth.NamespaceID
		fences     []int64
	)
	for _, r := range records {
		tenants = append(tenants, r.tenant)
		ids = append(ids, r.id)
		namespaces = append(namespaces, r.namespace)
		fences = append(fences, r.fence)
	}
	rows, err := s.pool.Query(ctx, sqlChanged, tenants, ids, namespaces, fences)
	if err != nil {
		return nil, err
	}
	places, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return nil, err
	}
	changed := make([]ref, len(places))
	for i, place := range places {
		changed[i] = records[place-1].ref
	}
	return changed, nil
}
