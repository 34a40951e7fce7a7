package keys

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const sqlReadHistory = `
select h.attempt, h.begun_at, h.ended_at, h.how, h.credential_id, coalesce(h.trace_id, '')
from key_history h
where h.tenant_id = $1 and h.id = $2 and h.begun_at >= $3
order by h.fence desc
limit $4`

// readHistory returns the attempts that ended before the present one, oldest
// first, at most historyLength. The caller has seen the record in its own
// tenant and namespace; what an expired record under the same id left is
// older than createdAt.
func (s *store) readHistory(ctx context.Context, at ref, createdAt time.Time) ([]Attempt, error) {
	rows, err := s.pool.Query(ctx, sqlReadHistory, at.tenant, at.id, createdAt, historyLength)
	if err != nil {
		return nil, err
	}
	attempts, err := pgx.CollectRows(rows, func(from pgx.CollectableRow) (Attempt, error) {
		var a Attempt
		err := from.Scan(&a.Attempt, &a.BegunAt, &a.EndedAt, &a.How, &a.Credential, &a.TraceID)
		return a, err
	})
	slices.Reverse(attempts)
	return attempts, err
}

const sqlReadLate = `
select l.at, l.fence, l.status, l.header_names, l.body_bytes, l.body_sha256, l.body_head, l.credential_id, coalesce(l.trace_id, '')
from key_late_completions l
where l.tenant_id = $1 and l.id = $2 and l.record_created_at = $3
order by l.slot`

// readLate returns the late completions kept beside the record, oldest first.
// The caller has seen the record in its own tenant.
func (s *store) readLate(ctx context.Context, at ref, createdAt time.Time) ([]LateCompletion, error) {
	rows, err := s.pool.Query(ctx, sqlReadLate, at.tenant, at.id, createdAt)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(from pgx.CollectableRow) (LateCompletion, error) {
		var l LateCompletion
		var sum []byte
		err := from.Scan(&l.At, &l.Fence, &l.Status, &l.HeaderNames, &l.BodyBytes, &sum, &l.BodyHead, &l.Credential, &l.TraceID)
		copy(l.BodySHA256[:], sum)
		return l, err
	})
}
