package keys

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
)

// Decidable reads a record of the tenant as a decision needs it; it does not
// exist where it is another tenant's.
func (s *adminStore) Decidable(ctx context.Context, tenant auth.TenantID, id ID) (*decidable, error) {
	const query = `
select clock_timestamp(), k.namespace_id, k.operation, k.fence, k.attempt, k.state, k.hold, k.lease_expires_at, k.expires_at,
    coalesce(k.admin_fence, 0), coalesce(k.admin_result, 0), coalesce(k.admin_action, '')
from idempotency_keys k
where k.tenant_id = $1 and k.id = $2`
	d := &decidable{exists: true}
	var r row
	var expires pgtype.Timestamptz
	err := s.pool.QueryRow(ctx, query, tenant, id).Scan(
		&r.now, &d.namespace, &d.operation, &d.fence, &d.attempt, &r.state, &r.hold, &r.leaseExpiresAt, &expires,
		&d.adminFence, &d.adminResult, &d.adminAction)
	if errors.Is(err, pgx.ErrNoRows) {
		return &decidable{}, nil
	}
	r.expiresAt = finite(expires)
	d.state, d.expired = r.shownState(), r.expired()
	d.live = d.state == StateInProgress
	return d, err
}

func aboutRecord(tenant auth.TenantID, id ID, entry audit.Entry) audit.Entry {
	entry.Tenant, entry.Object = uuid.UUID(tenant), audit.Object{Kind: "record", ID: id.String()}
	return entry
}

// Forget leaves of a record of the tenant an expired row with a risen fence and
// nothing else, and says so in the trail, in one transaction. false: the fence
// is another one, or the lease is live and force is not set; nothing happened.
//
// The row itself is touched last: whoever begins this record waits only for the
// COMMIT.
func (s *adminStore) Forget(ctx context.Context, tenant auth.TenantID, id ID, fence int64, force bool, entry audit.Entry) (forgotten bool, err error) {
	const wipe = `
update idempotency_keys k set
    fence = greatest(` + fenceNow + `, k.fence + 1),
    admin_action = 'forget',
    admin_fence = k.fence,
    admin_result = greatest(` + fenceNow + `, k.fence + 1),
    state = 2,
    expires_at = now(),
    lease_expires_at = least(k.lease_expires_at, now()),
    completed_at = null,
    status = null,
    headers = null,
    body = null,
    body_bytes = 0,
    body_omitted = false,
    body_ref = null,
    recovery_name = null,
    recovery_data = null,
    response_digest = null,
    metadata = null,
    trace_id = null,
    ignore_pointers = null,
    fingerprint = '',
    fingerprint_parts = null,
    owner_digest = '',
    caller = '',
    operation = '',
    key = '',
    credential_id = '',
    bound = false,
    resolved = false,
    token_used = true,
    taken_over = false,
    hold = false
where k.tenant_id = @tenant_id and k.id = @id and k.fence = @fence and k.expires_at > now()
    and (@force::boolean or k.state <> 1 or k.lease_expires_at <= now())`
	arguments := pgx.NamedArgs{"tenant_id": tenant, "id": id, "fence": fence, "force": force}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{
			`delete from key_late_completions where tenant_id = @tenant_id and id = @id`,
			`delete from key_history where tenant_id = @tenant_id and id = @id`,
			`delete from key_search where tenant_id = @tenant_id and id = @id`,
		} {
			if _, err := tx.Exec(ctx, statement, arguments); err != nil {
				return err
			}
		}
		if err := audit.Write(ctx, tx, aboutRecord(tenant, id, entry)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, InvalidationStatement, tenant, id); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, wipe, arguments)
		if err == nil && tag.RowsAffected() == 0 {
			err = errUnchanged
		}
		return err
	})
	if errors.Is(err, errUnchanged) {
		return false, nil
	}
	return err == nil, err
}

// errUnchanged undoes a transaction whose guarded statement found no row.
var errUnchanged = errors.New("the record is not as it was seen")

// sqlUnknown guards a resolution: the record is still unknown by the clock, and
// of the attempt that was decided about.
const sqlUnknown = `
    where k.tenant_id = @tenant_id::uuid and k.id = @id::uuid and k.namespace_id = @namespace_id and k.fence = @fence::bigint and k.expires_at > now()
        and (k.state = 4 or k.state = 1 and k.hold and k.lease_expires_at <= now())
    returning k.tenant_id, k.id, k.fence, k.attempt, k.acquired_at, k.credential_id, k.trace_id`

const sqlResolve = `
with resolved as (
    update idempotency_keys k set
        state = @state::smallint,
        resolved = @state::smallint = 3,
        completed_at = case when @state::smallint = 3 then now() end,
        status = @status,
        headers = @headers,
        body = @body,
        body_bytes = @body_bytes,
        body_omitted = @body_omitted,
        body_ref = @body_ref,
        response_digest = @digest,
        token_used = true,
        bound = true,
        lease_expires_at = least(k.lease_expires_at, now()),
        admin_action = @action,
        admin_fence = k.fence,
        admin_result = k.fence,` + sqlKeepFrom + sqlUnknown + `
)
insert into key_history (tenant_id, id, fence, attempt, begun_at, ended_at, how, credential_id, trace_id)
select tenant_id, id, fence, attempt, acquired_at, now(), @how, credential_id, trace_id
from resolved`

// Resolve decides a record of c's tenant and namespace that is unknown under
// c's fence, and says so in the trail, in one transaction. false: it is not, and
// nothing happened.
func (s *adminStore) Resolve(ctx context.Context, c *completion, action string, entry audit.Entry) (resolved bool, err error) {
	arguments := pgx.NamedArgs{
		"tenant_id": c.tenant, "id": c.id, "namespace_id": c.namespace, "fence": c.fence, "action": action,
		"state": storedOpen, "how": "resolved_retry", "status": nil, "headers": nil, "body": nil, "body_bytes": 0, "body_omitted": false,
		"body_ref": nil, "digest": nil,
	}
	if action == ActionComplete {
		arguments["state"], arguments["how"] = storedCompleted, "resolved_completed"
		arguments["status"], arguments["headers"], arguments["body"] = c.stored.status, c.stored.headers, c.stored.body
		arguments["body_bytes"], arguments["body_omitted"], arguments["body_ref"] = c.stored.bodyBytes, c.stored.bodyOmitted, nullText(c.stored.bodyRef)
		arguments["digest"] = c.digest[:]
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if err := audit.Write(ctx, tx, aboutRecord(c.tenant, c.id, entry)); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sqlResolve, arguments)
		if err == nil && tag.RowsAffected() == 0 {
			err = errUnchanged
		}
		return err
	})
	if errors.Is(err, errUnchanged) {
		return false, nil
	}
	return err == nil, err
}

// clock is the database's.
func (s *adminStore) clock(ctx context.Context) (now time.Time, err error) {
	err = s.pool.QueryRow(ctx, `select clock_timestamp()`).Scan(&now)
	return now, err
}
