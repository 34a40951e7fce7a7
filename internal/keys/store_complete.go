package keys

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/internal/auth"
)

// sqlCompleteSet and sqlCompleteEnd are the statement that completes records,
// or releases those whose store_errors says so, around the completions that it
// stores. expires_at moves only where what is left falls short of the
// retention, so that completing within the lease touches no index.
const sqlCompleteSet = `
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
    from `

const sqlCompleteEnd = `
    where k.tenant_id = u.tenant_id and k.id = u.id and k.namespace_id = u.namespace_id
        and k.fence = u.fence and k.state in (1, 4) and k.expires_at > now()
    returning k.tenant_id, k.id, k.fence, k.attempt, k.acquired_at, k.completed_at, k.expires_at, k.credential_id, k.trace_id, k.state, k.operation, k.caller, k.key
), logged as (
    insert into key_history (tenant_id, id, fence, attempt, begun_at, ended_at, how, credential_id, trace_id)
    select tenant_id, id, fence, attempt, acquired_at, now(), 'error_released', credential_id, trace_id
    from ended where state = 2
)
select tenant_id, id, completed_at, expires_at,
    case when state = 2 then operation end, case when state = 2 then caller end, case when state = 2 then key end
from ended`

const completionColumns = `tenant_id, id, namespace_id, fence, released, status, headers, body, body_bytes, body_omitted, body_ref, digest`

const sqlComplete = sqlCompleteSet +
	`unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::boolean[], $6::smallint[], $7::bytea[], $8::bytea[],
            $9::integer[], $10::boolean[], $11::text[], $12::bytea[])
        as u(` + completionColumns + `)` + sqlCompleteEnd

// sqlCompleteOne spares a single completion the twelve arrays.
const sqlCompleteOne = sqlCompleteSet +
	`(values ($1::uuid, $2::uuid, $3::uuid, $4::bigint, $5::boolean, $6::smallint, $7::bytea, $8::bytea,
            $9::integer, $10::boolean, $11::text, $12::bytea))
        as u(` + completionColumns + `)` + sqlCompleteEnd

// completed is what the database says of a record that a completion ended.
type completed struct {
	completedAt time.Time // zero where it was released
	expiresAt   time.Time

	operation, caller, key *string // of a record that was released
}

// complete ends the attempts of entries, in order; nil where the token is not
// current or the record is open, completed or absent. Entries must be sorted
// by tenant and id.
func complete(ctx context.Context, via sender, entries []*completion) ([]*completed, error) {
	after := make([]*completed, len(entries))
	batch := &pgx.Batch{}
	// A statement changes a row once: a record that is named twice waits for
	// the next one of the same transaction.
	for _, places := range rounds(entries) {
		statement, arguments := sqlCompleteOne, entries[places[0]].arguments()
		if len(places) > 1 {
			statement, arguments = sqlComplete, completeArguments(entries, places)
		}
		batch.Queue(statement, arguments...).
			Query(func(rows pgx.Rows) error { return scanCompleted(rows, entries, places, after) })
	}
	return after, via.send(ctx, batch)
}

func completeArguments(entries []*completion, places []int) []any {
	n := len(places)
	var (
		tenants, ids, namespaces = make([]auth.TenantID, n), make([]ID, n), make([]auth.NamespaceID, n)
		fences, released         = make([]int64, n), make([]bool, n)
		statuses, sizes          = make([]int16, n), make([]int32, n)
		headers, bodies, digests = make([][]byte, n), make([][]byte, n), make([][]byte, n)
		omitted, refs            = make([]bool, n), make([]*string, n)
	)
	for i, place := range places {
		c := entries[place]
		tenants[i], ids[i], namespaces[i], fences[i] = c.tenant, c.id, c.namespace, c.fence
		released[i], digests[i] = c.released, c.digest[:]
		statuses[i], headers[i], bodies[i] = int16(c.stored.status), c.stored.headers, c.stored.body                //nolint:gosec // 200 to 599
		sizes[i], omitted[i], refs[i] = int32(c.stored.bodyBytes), c.stored.bodyOmitted, nullText(c.stored.bodyRef) //nolint:gosec // at most 16 MiB
	}
	return []any{tenants, ids, namespaces, fences, released, statuses, headers, bodies, sizes, omitted, refs, digests}
}

// arguments are those of sqlCompleteOne.
func (c *completion) arguments() []any {
	return []any{
		c.tenant, c.id, c.namespace, c.fence, c.released, c.stored.status, c.stored.headers, c.stored.body,
		c.stored.bodyBytes, c.stored.bodyOmitted, nullText(c.stored.bodyRef), c.digest[:],
	}
}

func scanCompleted(rows pgx.Rows, entries []*completion, places []int, after []*completed) error {
	place := make(map[ref]int, len(places))
	for _, i := range places {
		place[ref{tenant: entries[i].tenant, id: entries[i].id}] = i
	}
	var (
		at          ref
		completedAt *time.Time
		expires     pgtype.Timestamptz

		operation, caller, key *string
	)
	_, err := pgx.ForEachRow(rows, []any{&at.tenant, &at.id, &completedAt, &expires, &operation, &caller, &key}, func() error {
		done := &completed{expiresAt: finite(expires), operation: operation, caller: caller, key: key}
		if completedAt != nil {
			done.completedAt = *completedAt
		}
		after[place[at]] = done
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
		kept := false
		batch := &pgx.Batch{}
		batch.Queue(sqlKeepLate, arguments).Exec(func(tag pgconn.CommandTag) error {
			kept = tag.RowsAffected() > 0
			return nil
		})
		if err := pooled(*s).send(ctx, batch); kept || err != nil {
			return err
		}
	}
	return nil
}
