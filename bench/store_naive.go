//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/postgres"
)

// naiveStore runs one plain statement for each begin, on a pool of connections.
type naiveStore struct {
	query func(ctx context.Context, sql string, args ...any) pgx.Row
	close func()
}

const naiveConns = 32

func openNaive(ctx context.Context, url string) (*naiveStore, error) {
	pool, err := postgres.Open(ctx, postgres.Config{URL: url, MaxConns: naiveConns, ApplicationName: "onceward-bench-naive"})
	if err != nil {
		return nil, err
	}
	return &naiveStore{pool.QueryRow, pool.Close}, nil
}

const sqlNaive = `
insert into idempotency_keys
    (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at,
     lease_expires_at, expires_at, attempt, lease_seconds, retention_seconds, state, hold,
     fingerprint, owner_digest, credential_id, caller, operation, key)
values
    ($1, $2, $3, (extract(epoch from now()) * 1000000)::bigint, 1, now(), now(),
     now() + make_interval(secs => 60), now() + make_interval(secs => 86460), 1, 60, 86400, 1, false,
     $4, $5, 'abcdefghijklmnop', '', $6, $7)
on conflict (tenant_id, id) do nothing
returning fence, created_at, lease_expires_at, expires_at`

// naiveRow is what the database chose.
type naiveRow struct {
	fence                                int64
	createdAt, leaseExpiresAt, expiresAt time.Time
}

func (s *naiveStore) begin(ctx context.Context, tenant, namespace [16]byte, operation, key string, digest []byte) (id [16]byte, r naiveRow, err error) {
	sum := sha256.Sum256([]byte(operation + "\x00" + key))
	id = [16]byte(sum[:16])
	err = s.query(ctx, sqlNaive, tenant, id, namespace, digest, sum[16:], operation, key).
		Scan(&r.fence, &r.createdAt, &r.leaseExpiresAt, &r.expiresAt)
	return id, r, err
}
