package keys

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/onceward/onceward/internal/auth"
)

// rowColumns are read in the order of scanRow. $1 is inlineBodyBytes.
const rowColumns = `
    clock_timestamp(), k.namespace_id, k.caller, k.operation, k.key,
    k.fingerprint, k.fingerprint_parts, coalesce(k.ignore_pointers, ''),
    k.fence, k.attempt, k.state, k.hold, k.taken_over, k.token_used, k.bound, k.resolved, k.owner_digest,
    k.created_at, k.acquired_at, k.lease_expires_at, k.expires_at, k.completed_at,
    k.credential_id, coalesce(k.trace_id, ''), k.metadata, coalesce(k.recovery_name, ''), k.recovery_data, k.response_digest,
    coalesce(k.status, 0), k.headers, case when k.body_bytes <= $1 then k.body end, k.body_bytes, k.body_omitted, coalesce(k.body_ref, '')`

// scanRow reads before and then rowColumns.
func scanRow(from pgx.CollectableRow, before ...any) (*row, error) {
	var (
		r           row
		sum         []byte
		expires     pgtype.Timestamptz
		completedAt *time.Time
	)
	err := from.Scan(append(before,
		&r.now, &r.namespace, &r.caller, &r.operation, &r.key,
		&sum, &r.print.parts, &r.print.pointers,
		&r.fence, &r.attempt, &r.state, &r.hold, &r.takenOver, &r.tokenUsed, &r.bound, &r.resolved, &r.ownerDigest,
		&r.createdAt, &r.acquiredAt, &r.leaseExpiresAt, &expires, &completedAt,
		&r.credential, &r.traceID, &r.metadata, &r.recoveryName, &r.recoveryData, &r.responseDigest,
		&r.response.status, &r.response.headers, &r.response.body, &r.response.bodyBytes, &r.response.bodyOmitted, &r.response.bodyRef,
	)...)
	if err != nil {
		return nil, err
	}
	// Rows that an older version made hold 32 bytes of both digests.
	copy(r.print.sum[:], sum)
	r.responseDigest = r.responseDigest[:min(len(r.responseDigest), digestSize)]
	r.expiresAt = finite(expires)
	if completedAt != nil {
		r.completedAt = *completedAt
	}
	return &r, nil
}

// nullText is null for an empty text: the column is empty for most records.
func nullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// nullNamespace is null for the zero namespace: any of the tenant.
func nullNamespace(id auth.NamespaceID) *uuid.UUID {
	if id == (auth.NamespaceID{}) {
		return nil
	}
	u := uuid.UUID(id)
	return &u
}
