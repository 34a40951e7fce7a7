package keys

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/internal/auth"
)

// sqlComplete completes records, or releases those whose store_errors says so.
// expires_at moves only where what is left falls short of the retention, so
// that completing within the lease touches no index.
const sqlComplete = `
with ended as (
    update idempotency_keys k set
        state = case when u.released then 2 else 3 end,
        completed_at = case when u.released then null else now() end,
        status = case when u.released then null else u.status end,
        headers = u.headers,
        body = u.body,
        body_bytes = u.body_bytes,
        body_omitted = u.body_omitted,
        body_ref = u.body_ref,
        response_digest = u.digest,
        token_used = true,
        bound = true,
        lease_expires_at = least(k.lease_expires_at, now()),` + sqlKeepFrom + `
    from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::boolean[], $6::smallint[], $7::bytea[], $8::bytea[],
            $9::integer[], $10::boolean[], $11::text[], $12::bytea[])
        as u(tenant_id, id, namespace_id, fence, released, status, headers, body, body_bytes, body_omitted, body_ref, digest)
    where k.tenant_id = u.tenant_id and k.id = u.id and k.namespace_id = u.namespace_id
        and k.fence = u.fence and k.state in (1, 4) and k.expires_at > now()
    returning k.tenant_id, k.id, k.fence, k.attempt, k.acquired_at, k.completed_at, k.expires_at, k.credential_id, k.trace_id, k.state
), logged as (
    insert into key_history (tenant_id, id, fence, attempt, begun_at, ended_at, how, credential_id, trace_id)
    select tenant_id, id, fence, attempt, acquired_at, now(), 'error_released', credential_id, trace_id
    from ended where state = 2
)
select tenant_id, id, completed_at, expires_at from ended`

// completed is what the database says of a record that a completion ended.
type completed struct {
	completedAt time.Time // zero where it was released
	expiresAt   time.Time
}

// complete ends the attempts of entries, which must be sorted by tenant and id
// and name each record once. A place is nil where the token is not current or
// the record is open, completed or absent.
func (s *store) complete(ctx context.Context, entries []*completion) ([]*completed, error) {
	var (
		tenants, ids, namespaces = make([]auth.TenantID, len(entries)), make([]ID, len(entries)), make([]auth.NamespaceID, len(entries))
		fences, released         = make([]int64, len(entries)), make([]bool, len(entries))
		statuses, sizes          = make([]int16, len(entries)), make([]int32, len(entries))
		headers, bodies, digests = make([][]byte, len(entries)), make([][]byte, len(entries)), make([][]byte, len(entries))
		omitted, refs            = make([]bool, len(entries)), make([]*string, len(entries))
	)
	for i, c := range entries {
		tenants[i], ids[i], namespaces[i], fences[i] = c.tenant, c.id, c.namespace, c.fence
		released[i], digests[i] = c.released, c.digest[:]
		statuses[i], headers[i], bodies[i] = int16(c.stored.status), c.stored.headers, c.stored.body
		sizes[i], omitted[i], refs[i] = int32(c.stored.bodyBytes), c.stored.bodyOmitted, nullText(c.stored.bodyRef)
	}
	after := make([]*completed, len(entries))
	batch := &pgx.Batch{}
	batch.Queue(sqlComplete, tenants, ids, namespaces, fences, released, statuses, headers, bodies, sizes, omitted, refs, digests).
		Query(func(rows pgx.Rows) error { return scanCompleted(rows, entries, after) })
	return after, s.send(ctx, batch)
}

func scanCompleted(rows pgx.Rows, entries []*completion, after []*completed) error {
	places := make(map[ref]int, len(entries))
	for i, c := range entries {
		places[ref{tenant: c.tenant, id: c.id}] = i
	}
	var (
		at          ref
		completedAt *time.Time
		expires     pgtype.Timestamptz
	)
	_, err := pgx.ForEachRow(rows, []any{&at.tenant, &at.id, &completedAt, &expires}, func() error {
		done := &completed{expiresAt: finite(expires)}
		if completedAt != nil {
			done.completedAt = *completedAt
		}
		after[places[at]] = done
		return nil
	})
	return err
}

const (
	maxLate          = 5
	lateBodyHeadSize = 16 << 10
)

// sqlKeepLate keeps a late completion in the record's next free slot; one that
// is there already, and one beyond the last slot, changes nothing.
const sqlKeepLate = `
insert into key_late_completions
    (tenant_id, id, record_created_at, slot, fence, at, status, header_names, body_bytes, body_sha256, digest, body_head, credential_id, trace_id)
select @tenant_id::uuid, @id::uuid, @record_created_at::timestamptz, s.taken + 1, @fence::bigint, now(), @status::smallint, @header_names::text[], @body_bytes::integer, @body_sha256::bytea, @digest::bytea, @body_head::bytea, @credential_id::text, @trace_id::text
from (
    select count(*) as taken
    from key_late_completions l
    where l.tenant_id = @tenant_id::uuid and l.id = @id::uuid and l.record_created_at = @record_created_at::timestamptz
) s
where s.taken < @most::integer
on conflict do nothing`

// keepLate keeps what c tried to store beside the record r, in the tenant of
// both. Two late completions that meet in one slot are both kept: the one that
// loses it tries the next.
func (s *store) keepLate(ctx context.Context, c *completion, r *row) error {
	sum := sha256.Sum256(c.sent.Body)
	names := make([]string, len(c.sent.Headers))
	for i, h := range c.sent.Headers {
		names[i] = printable(h.Name)
	}
	arguments := pgx.NamedArgs{
		"tenant_id": c.tenant, "id": c.id, "record_created_at": r.createdAt, "fence": c.fence,
		"status": c.sent.Status, "header_names": names, "body_bytes": len(c.sent.Body), "body_sha256": sum[:], "digest": c.digest[:],
		"body_head":     append([]byte{}, c.sent.Body[:min(len(c.sent.Body), lateBodyHeadSize)]...),
		"credential_id": c.by.Credential, "trace_id": nullText(c.by.TraceID), "most": maxLate,
	}
	for range maxLate {
		kept, err := s.exec(ctx, sqlKeepLate, arguments)
		if kept || err != nil {
			return err
		}
	}
	return nil
}
