package analytics

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/auth"
)

const sqlEvents = `
select at, event_id, kind, namespace_id, record_id, operation, caller, key, credential_id,
    coalesce(trace_id, ''), coalesce(status, 0), coalesce(attempt, 0), age
from analytics_events
where tenant_id = @tenant
    and at >= greatest(@since::timestamptz, now() - @kept::interval)
    and (@kind::smallint = 0 or kind = @kind::smallint)
    and (@namespace::uuid is null or namespace_id = @namespace::uuid)
    and (@operation::text is null or operation = @operation::text)
    and (@caller::text is null or caller = @caller::text)
    and (@after_at::timestamptz is null or (at, event_id) < (@after_at::timestamptz, @after_id::uuid))
order by at desc, event_id desc
limit @limit`

// events returns up to one more than q.Limit of the tenant's events.
func (s *store) events(ctx context.Context, tenant auth.TenantID, q EventQuery, kind Outcome, after *position) ([]ListedEvent, error) {
	args := pgx.NamedArgs{
		"tenant": tenant, "since": q.Since, "kept": EventsKept, "kind": int16(kind), "limit": q.Limit + 1,
		"namespace": (*uuid.UUID)(nil), "operation": nullText(q.Operation), "caller": q.Caller,
		"after_at": (*time.Time)(nil), "after_id": uuid.UUID{},
	}
	if q.Namespace != (auth.NamespaceID{}) {
		args["namespace"] = uuid.UUID(q.Namespace)
	}
	if after != nil {
		args["after_at"], args["after_id"] = after.at, after.id
	}
	rows, err := s.pool.Query(ctx, sqlEvents, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(from pgx.CollectableRow) (e ListedEvent, err error) {
		var namespace, record uuid.UUID
		var outcome int16
		err = from.Scan(&e.At, &e.ID, &outcome, &namespace, &record, &e.Operation, &e.Caller, &e.Key, &e.Credential,
			&e.TraceID, &e.Status, &e.Attempt, &e.Age)
		e.Kind, e.Namespace, e.Record = Outcome(outcome), auth.NamespaceID(namespace), record //nolint:gosec // one of ours
		return e, err
	})
}
