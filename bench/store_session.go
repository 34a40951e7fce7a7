//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/auth"
)

// session is the bench's own connection to a database: it prepares tables and
// counts what is in them.
type session struct{ conn *pgx.Conn }

func newSession(ctx context.Context, url string) (*session, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to the bench's database: %w", err)
	}
	return &session{conn}, nil
}

func (s *session) close(ctx context.Context) { _ = s.conn.Close(ctx) }

// promised are the settings without which no figure counts.
func promised() []string { return []string{"fsync", "synchronous_commit", "full_page_writes"} }

// checkDurable reads the settings back from the server, and compresses its WAL
// by lz4 where it was built with it. The text names what is in force.
func (s *session) checkDurable(ctx context.Context) (settings string, err error) {
	var hasLZ4 bool
	const sqlLZ4 = `select 'lz4' = any(enumvals) from pg_settings where name = 'wal_compression'`
	if err := s.conn.QueryRow(ctx, sqlLZ4).Scan(&hasLZ4); err != nil {
		return "", err
	}
	method := "pglz"
	if hasLZ4 {
		method = "lz4"
	}
	for _, sql := range []string{"alter system set wal_compression = " + method, "select pg_reload_conf()"} {
		if _, err := s.conn.Exec(ctx, sql); err != nil {
			return "", fmt.Errorf("set the compression of the WAL: %w", err)
		}
	}
	var shown []string
	for _, name := range append(promised(), "shared_buffers", "max_wal_size", "min_wal_size", "checkpoint_timeout", "wal_sync_method", "jit") {
		var value string
		if err := s.conn.QueryRow(ctx, "show "+name).Scan(&value); err != nil {
			return "", err
		}
		if len(shown) < len(promised()) && value != "on" {
			return "", fmt.Errorf("%s is %s: a bench without durability would say nothing", name, value)
		}
		shown = append(shown, name+" = "+value)
	}
	return strings.Join(append(shown, "wal_compression = "+method), ", "), nil
}

// recycle writes gigabytes of WAL and then a checkpoint, so that the segments
// that a run needs are there: the first use of each costs tens of milliseconds.
func (s *session) recycle(ctx context.Context, gigabytes int) error {
	const sqlFill = `select count(pg_logical_emit_message(false, 'bench', repeat('x', 1000000))) from generate_series(1, 1000)`
	for range gigabytes {
		if _, err := s.conn.Exec(ctx, sqlFill); err != nil {
			return fmt.Errorf("fill the WAL: %w", err)
		}
	}
	_, err := s.conn.Exec(ctx, "checkpoint")
	return err
}

// exec runs a statement that whoever started the bench gave it.
func (s *session) exec(ctx context.Context, sql string) error {
	_, err := s.conn.Exec(ctx, sql)
	return err
}

// empty throws all records away.
func (s *session) empty(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, "truncate idempotency_keys, key_history, key_late_completions")
	return err
}

// counts are the records of a run that are in the table, each in its first
// attempt.
type counts struct{ acquired, completed int64 }

func (s *session) count(ctx context.Context, tenant auth.TenantID, prefix string) (c counts, err error) {
	const sqlCount = `
select count(*), count(*) filter (where state = 3)
from idempotency_keys
where tenant_id = $1 and starts_with(key, $2) and attempt = 1`
	err = s.conn.QueryRow(ctx, sqlCount, tenant, prefix).Scan(&c.acquired, &c.completed)
	return c, err
}

// written is how much WAL the server has written so far, in bytes.
func (s *session) written(ctx context.Context) (bytes int64, err error) {
	err = s.conn.QueryRow(ctx, `select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&bytes)
	return bytes, err
}

// sqlMake makes records as a begin leaves them, with random ids. Those up to
// $3 expired two hours ago; they lie anywhere in the table.
const sqlMake = `
insert into idempotency_keys
    (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at,
     lease_expires_at, expires_at, attempt, lease_seconds, retention_seconds, state, hold,
     fingerprint, owner_digest, credential_id, caller, operation, key)
select $1, gen_random_uuid(), $2, 1795971562123456 + n, 1, now(), now(),
    now() - interval '1 hour', now() + case when n % 5 < $3 then interval '-2 hours' else interval '1 hour' + n % 82800 * interval '1 second' end,
    1, 60, 86400, 1, false,
    sha256(int8send(n)), substr(sha256(int8send(-n)), 1, 16), 'abcdefghijklmnop', '', 'POST /v1/charges', 'made-' || n || '-of-the-bench'
from generate_series($4::bigint, $5::bigint) n`

// makeRecords fills the table; expiredFifths of five records have expired. The
// indexes are built anew at the end, as loosely as random inserts leave them.
func (s *session) makeRecords(ctx context.Context, db *database, records int64, expiredFifths int) error {
	statements := []string{
		"alter table idempotency_keys drop constraint idempotency_keys_pkey",
		"drop index idempotency_keys_expiry",
	}
	for _, sql := range statements {
		if _, err := s.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	const atOnce = 1_000_000
	for from := int64(1); from <= records; from += atOnce {
		if _, err := s.conn.Exec(ctx, sqlMake, db.tenant, db.namespace, expiredFifths, from, min(from+atOnce-1, records)); err != nil {
			return fmt.Errorf("make records: %w", err)
		}
	}
	for _, sql := range []string{
		"set maintenance_work_mem = '1GB'",
		"alter table idempotency_keys add constraint idempotency_keys_pkey primary key (tenant_id, id) with (fillfactor = 70)",
		"create index idempotency_keys_expiry on idempotency_keys (tenant_id, expires_at) with (fillfactor = 70)",
		"vacuum (analyze) idempotency_keys",
		"checkpoint",
	} {
		if _, err := s.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// makeCompleted makes the records that replay.sql reads.
func (s *session) makeCompleted(ctx context.Context, db *database, records int, body, headers string) error {
	const sqlCompleted = `
insert into idempotency_keys
    (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at, completed_at,
     lease_expires_at, expires_at, attempt, lease_seconds, retention_seconds, state, hold, token_used, bound,
     fingerprint, owner_digest, response_digest, credential_id, caller, operation, key, status, headers, body, body_bytes)
select $1, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, $2, 1795971562123456, 1, now(), now(), now(),
    now(), now() + interval '1 day', 1, 60, 86400, 3, false, true, true,
    sha256(int8send(n)), substr(sha256(int8send(n)), 1, 16), sha256(int8send(n)), 'abcdefghijklmnop', '', 'POST /v1/charges', 'made-' || n || '-of-the-bench',
    201, decode($4, 'hex'), convert_to($5, 'UTF8'), octet_length($5)
from generate_series(1, $3::bigint) n`
	_, err := s.conn.Exec(ctx, sqlCompleted, db.plain, db.namespace, records, headers, body)
	if err == nil {
		_, err = s.conn.Exec(ctx, "vacuum (analyze) idempotency_keys")
	}
	return err
}

// bodyOnDisk is how many bytes a stored body takes.
func (s *session) bodyOnDisk(ctx context.Context) (bytes int, err error) {
	const sqlSize = `select pg_column_size(body) from idempotency_keys where body is not null limit 1` // any tenant's: all are the bench's
	err = s.conn.QueryRow(ctx, sqlSize).Scan(&bytes)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return bytes, err
}
