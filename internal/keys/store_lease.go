package keys

import (
	"context"
	"maps"
	"time"

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
    returning k.tenant_id, k.id, k.fence, k.attempt, k.acquired_at, now() as ended_at, k.credential_id, k.trace_id, k.operation, k.caller, k.key
), logged as (
    insert into key_history (tenant_id, id, fence, attempt, begun_at, ended_at, how, credential_id, trace_id)
    select tenant_id, id, fence, attempt, acquired_at, ended_at, 'released', credential_id, trace_id
    from released
)
select operation, caller, key from released`

const sqlDeclareUnknown = `
update idempotency_keys k set
    state = 4,
    lease_expires_at = least(k.lease_expires_at, now()),
    token_used = true,
    bound = true,
    expires_at = 'infinity'` + sqlHeld + `
returning k.operation, k.caller, k.key`

const sqlSetRecoveryPoint = `
update idempotency_keys k set
    recovery_name = @name,
    recovery_data = @data,
    token_used = true,
    bound = true` + sqlHeld

// leaseCall is one call on a held lease, on its way to the store. changed and
// after are what it became.
type leaseCall struct {
	held
	statement string
	extra     pgx.NamedArgs // beside those of held
	// returned is where to what the statement returns goes; nil: it returns nothing.
	returned func(*leased) []any
}

func renewal(h held, leaseSeconds int) *leaseCall {
	return &leaseCall{held: h, statement: sqlRenew, extra: pgx.NamedArgs{"lease_seconds": leaseSeconds}, returned: renewedTo}
}

func releasing(h held) *leaseCall {
	return &leaseCall{held: h, statement: sqlRelease, returned: endedTo}
}

func declaringUnknown(h held) *leaseCall {
	return &leaseCall{held: h, statement: sqlDeclareUnknown, returned: endedTo}
}

func renewedTo(after *leased) []any { return []any{&after.leaseExpiresAt, &after.hold} }

func endedTo(after *leased) []any { return []any{&after.operation, &after.caller, &after.key} }

func settingRecoveryPoint(h held, name string, data jsontext.Value) *leaseCall {
	return &leaseCall{held: h, statement: sqlSetRecoveryPoint, extra: pgx.NamedArgs{"name": name, "data": []byte(data)}}
}

// leased is what a lease call did; changed is false where the token is not
// current or the record is open, completed or absent.
type leased struct {
	changed        bool
	leaseExpiresAt time.Time // of a renewal
	hold           bool      // of a renewal

	operation, caller, key string // of a record whose attempt ended
}

// runLeaseCalls runs calls in order, in one transaction. They must be sorted
// by tenant and id.
func runLeaseCalls(ctx context.Context, via sender, calls []*leaseCall) ([]leased, error) {
	after := make([]leased, len(calls))
	batch := &pgx.Batch{}
	for i, call := range calls {
		arguments := pgx.NamedArgs{"tenant_id": call.tenant, "id": call.id, "namespace_id": call.namespace, "fence": call.fence}
		maps.Copy(arguments, call.extra)
		queued := batch.Queue(call.statement, arguments)
		if call.returned == nil {
			queued.Exec(func(tag pgconn.CommandTag) error {
				after[i].changed = tag.RowsAffected() > 0
				return nil
			})
			continue
		}
		queued.Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, call.returned(&after[i]), func() error {
				after[i].changed = true
				return nil
			})
			return err
		})
	}
	return after, via.send(ctx, batch)
}
