package keys

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// The statements by which a begin acquires a row that stands there. They are
// rare: most begins insert. Each names the fence that the decision saw and
// repeats the decision's conditions, so that of several that saw the same row
// at most one finds it unchanged; the others see no row and decide again.

// sqlAcquire is what they all set.
const sqlAcquire = `
    fence = greatest(` + fenceNow + `, k.fence + 1),
    policy_version = @policy_version,
    acquired_at = now(),
    lease_expires_at = now() + make_interval(secs => @lease_seconds::integer),
    lease_seconds = @lease_seconds::integer,
    retention_seconds = @retention_seconds::integer,
    state = 1,
    hold = @hold::boolean,
    owner_digest = @owner_digest,
    credential_id = @credential_id,
    trace_id = @trace_id,
    metadata = @metadata::jsonb,
    token_used = false,
    response_digest = null`

// sqlBindAnew binds the record to the request of the begin that acquires it.
const sqlBindAnew = `,
    fingerprint = @fingerprint,
    fingerprint_parts = @fingerprint_parts,
    ignore_pointers = @ignore_pointers,
    operation = @operation`

const sqlNextAttempt = `,
    attempt = k.attempt + 1,
    expires_at = case when @hold::boolean then 'infinity'
        else greatest(nullif(k.expires_at, 'infinity'), now() + make_interval(secs => @lease_seconds::integer + @retention_seconds::integer)) end`

const sqlSeen = `
where k.tenant_id = @tenant_id::uuid and k.id = @id::uuid and k.namespace_id = @namespace_id and k.fence = @fence::bigint`

const sqlAcquiredColumns = `
returning k.fence, k.attempt, k.created_at, k.lease_expires_at, k.expires_at`

// sqlRestart makes attempt 1 of a new record with nothing of the expired one
// but the fence, which goes on rising.
const sqlRestart = `
update idempotency_keys k set` + sqlAcquire + sqlBindAnew + `,
    caller = @caller,
    key = @key,
    attempt = 1,
    created_at = now(),
    expires_at = case when @hold::boolean then 'infinity' else now() + make_interval(secs => @lease_seconds::integer + @retention_seconds::integer) end,
    taken_over = false,
    bound = false,
    resolved = false,
    completed_at = null,
    status = null,
    headers = null,
    body = null,
    body_bytes = 0,
    body_omitted = false,
    body_ref = null,
    recovery_name = null,
    recovery_data = null` + sqlSeen + `
    and k.expires_at <= now()` + sqlAcquiredColumns

const sqlReplace = `
update idempotency_keys k set` + sqlAcquire + sqlBindAnew + sqlNextAttempt + `,
    taken_over = false` + sqlSeen + `
    and k.expires_at > now() and k.state = 2 and not k.bound` + sqlAcquiredColumns

const sqlReopen = `
update idempotency_keys k set` + sqlAcquire + sqlNextAttempt + `,
    taken_over = false` + sqlSeen + `
    and k.expires_at > now() and k.state = 2 and k.bound` + sqlAcquiredColumns

const sqlTakeOver = `
with taken as (
    update idempotency_keys k set` + sqlAcquire + sqlNextAttempt + `,
        taken_over = true,
        bound = true` + sqlSeen + `
        and k.expires_at > now() and k.state = 1 and not k.hold and k.lease_expires_at <= now()` + sqlAcquiredColumns + `
), logged as (
    insert into key_history (tenant_id, id, fence, attempt, begun_at, ended_at, how, credential_id, trace_id)
    select @tenant_id::uuid, @id::uuid, @fence::bigint, @old_attempt::integer, @old_acquired_at::timestamptz, @old_lease_expires_at::timestamptz, 'lapsed', @old_credential_id::text, @old_trace_id::text
    from taken
)
select * from taken`

// sqlResume begins the lapsed lease of the same attempt anew, as long as at
// first. The lapse binds the fingerprint.
const sqlResume = `
update idempotency_keys k set
    lease_expires_at = now() + make_interval(secs => k.lease_seconds),
    bound = true` + sqlSeen + `
    and k.expires_at > now() and k.state = 1 and k.lease_expires_at <= now()
    and not k.token_used and k.owner_digest = @owner_digest and k.acquired_at >= now() - make_interval(secs => @resume_seconds)` +
	sqlAcquiredColumns

// acquire runs the statement of the action against the row that the decision
// saw. nil: the row is not as it was; decide again.
func (s *store) acquire(ctx context.Context, e *entry, seen *row, do action) (*row, error) {
	arguments := pgx.NamedArgs{
		"tenant_id": e.tenant, "id": e.id, "namespace_id": e.namespace, "fence": seen.fence,
		"policy_version": e.snapshot.PolicyVersion, "lease_seconds": e.leaseSeconds, "retention_seconds": e.retentionSeconds,
		"hold": e.hold, "owner_digest": e.ownerDigest[:], "credential_id": e.by.Credential,
		"trace_id": nullText(e.by.TraceID), "metadata": nullText(string(e.metadata)),
		"fingerprint": e.print.sum[:], "fingerprint_parts": e.print.parts, "ignore_pointers": nullText(e.print.pointers),
		"operation": e.operation, "caller": e.caller, "key": e.key,
		"old_attempt": seen.attempt, "old_acquired_at": seen.acquiredAt, "old_lease_expires_at": seen.leaseExpiresAt,
		"old_credential_id": seen.credential, "old_trace_id": nullText(seen.traceID),
		"resume_seconds": resumeWindow.Seconds(),
	}
	after := *seen
	batch := &pgx.Batch{}
	batch.Queue(statementOf(do), arguments).QueryRow(func(r pgx.Row) error {
		var expires pgtype.Timestamptz
		err := r.Scan(&after.fence, &after.attempt, &after.createdAt, &after.leaseExpiresAt, &expires)
		after.expiresAt = finite(expires)
		return err
	})
	err := pooled(*s).send(ctx, batch)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // a row that changed is an answer, not a failure
	}
	if err != nil {
		return nil, err
	}
	switch do {
	case actRestart:
		after.recoveryName, after.recoveryData, after.takenOver = "", nil, false
	case actTakeOver:
		after.takenOver = true
	case actReplace, actReopen:
		after.takenOver = false
	case actResume, actAnswer, actCorrupt:
	}
	if do != actResume {
		after.hold = e.hold
	}
	return &after, nil
}

func statementOf(do action) string {
	switch do {
	case actRestart:
		return sqlRestart
	case actReplace:
		return sqlReplace
	case actReopen:
		return sqlReopen
	case actTakeOver:
		return sqlTakeOver
	case actResume:
		return sqlResume
	case actAnswer, actCorrupt:
	}
	panic("keys: this action writes nothing")
}

// finite is the instant, or zero for infinity.
func finite(t pgtype.Timestamptz) time.Time {
	if t.InfinityModifier != pgtype.Finite {
		return time.Time{}
	}
	return t.Time
}
