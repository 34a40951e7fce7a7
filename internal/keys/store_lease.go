package keys

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The statements of the lease. Each is guarded by the fence that the token
// proves: a stale token finds no row and changes nothing. States 1 and 4 are
// those in which the last attempt can still be completed, lapsed or not.

const sqlHeld = `
where k.tenant_id = @tenant_id::uuid and k.id = @id::uuid and k.namespace_id = @namespace_id
    and k.fence = @fence::bigint and k.state in (1, 4) and k.expires_at > now()`

// sqlLapseBinds: a lapse, or an outcome once declared unknown, binds the
// fingerprint for good.
const sqlLapseBinds = `
    bound = k.bound or k.state = 4 or k.lease_expires_at <= now()`

// sqlKeepFrom is expires_at where a record ends its attempt: at least the
// retention from now, never back.
const sqlKeepFrom = `
    expires_at = greatest(nullif(k.expires_at, 'infinity'), now() + make_interval(secs => k.retention_seconds))`

const sqlRenew = `
update idempotency_keys k set
    state = 1,
    lease_expires_at = now() + make_interval(secs => @lease_seconds::integer),
    token_used = true,` + sqlLapseBinds + `,
    expires_at = case when k.hold then 'infinity'
        else greatest(nullif(k.expires_at, 'infinity'), now() + make_interval(secs => @lease_seconds::integer + k.retention_seconds)) end` +
	sqlHeld + `
returning k.lease_expires_at, k.hold`

const sqlRelease = `
with released as (
    update idempotency_keys k set
        state = 2,
        lease_expires_at = least(k.lease_expires_at, now()),
        token_used = true,` + sqlLapseBinds + `,` + sqlKeepFrom + sqlHeld + `
    returning k.tenant_id, k.id, k.fence, k.attempt, k.acquired_at, now() as ended_at, k.credential_id, k.trace_id
)
insert into key_history (tenant_id, id, fence, attempt, begun_at, ended_at, how, credential_id, trace_id)
select tenant_id, id, fence, attempt, acquired_at, ended_at, 'released', credential_id, trace_id
from released`

const sqlDeclareUnknown = `
update idempotency_keys k set
    state = 4,
    lease_expires_at = least(k.lease_expires_at, now()),
    token_used = true,
    bound = true,
    expires_at = 'infinity'` + sqlHeld

const sqlSetRecoveryPoint = `
update idempotency_keys k set
    recovery_name = @name,
    recovery_data = @data,
    token_used = true,
    bound = true` + sqlHeld

func (h held) arguments() pgx.NamedArgs {
	return pgx.NamedArgs{"tenant_id": h.tenant, "id": h.id, "namespace_id": h.namespace, "fence": h.fence}
}

// renew prolongs the lease; changed is false where the token is not current or
// the record is open, completed or absent.
func (s *store) renew(ctx context.Context, h held, leaseSeconds int) (after renewed, changed bool, err error) {
	arguments := h.arguments()
	arguments["lease_seconds"] = leaseSeconds
	batch := &pgx.Batch{}
	batch.Queue(sqlRenew, arguments).QueryRow(func(r pgx.Row) error {
		return r.Scan(&after.leaseExpiresAt, &after.hold)
	})
	err = s.send(ctx, batch)
	if errors.Is(err, pgx.ErrNoRows) {
		return renewed{}, false, nil
	}
	return after, err == nil, err
}

// release opens the record; changed as for renew.
func (s *store) release(ctx context.Context, h held) (changed bool, err error) {
	return s.exec(ctx, sqlRelease, h.arguments())
}

// declareUnknown makes the record hold; changed as for renew.
func (s *store) declareUnknown(ctx context.Context, h held) (changed bool, err error) {
	return s.exec(ctx, sqlDeclareUnknown, h.arguments())
}

// setRecoveryPoint keeps name and data; changed as for renew.
func (s *store) setRecoveryPoint(ctx context.Context, h held, name string, data jsontext.Value) (changed bool, err error) {
	arguments := h.arguments()
	arguments["name"], arguments["data"] = name, []byte(data)
	return s.exec(ctx, sqlSetRecoveryPoint, arguments)
}

func (s *store) exec(ctx context.Context, statement string, arguments pgx.NamedArgs) (changed bool, err error) {
	batch := &pgx.Batch{}
	batch.Queue(statement, arguments).Exec(func(tag pgconn.CommandTag) error {
		changed = tag.RowsAffected() > 0
		return nil
	})
	err = s.send(ctx, batch)
	return changed, err
}
