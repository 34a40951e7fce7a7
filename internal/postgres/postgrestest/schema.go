//go:build unix

package postgrestest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
)

const (
	// envSchema chooses the schema of every test's database: unset is the
	// current one, schemaOldest the oldest that the code serves with,
	// schemaNewer one that the code does not know yet (`make test/schemas`).
	envSchema    = "ONCEWARD_TEST_SCHEMA"
	schemaOldest = "oldest"
	schemaNewer  = "newer"

	newerLevel = 99999
)

// Oldest takes the schema of pool back to the oldest level on which the code
// serves.
func Oldest(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	if err := toOldest(tb.Context(), pool); err != nil {
		tb.Fatal(err)
	}
}

// Newer brings the schema of pool to a level that the code does not know: every
// table has another column, and there is another table.
func Newer(tb testing.TB, pool *pgxpool.Pool) {
	tb.Helper()
	if err := toNewer(tb.Context(), pool); err != nil {
		tb.Fatal(err)
	}
}

// NeedsLevel skips a test of something that older levels, on which the code
// serves without it, do not have.
func NeedsLevel(tb testing.TB, level int64) {
	tb.Helper()
	if os.Getenv(envSchema) == schemaOldest && postgres.OldestLevel < level {
		tb.Skipf("it needs level %d of the schema", level)
	}
}

func toOldest(ctx context.Context, pool *pgxpool.Pool) error {
	for {
		s, err := postgres.ReadSchema(ctx, pool)
		if err != nil || s.Current() <= postgres.OldestLevel {
			return err
		}
		if _, err := postgres.TakeBack(ctx, pool, slog.New(slog.DiscardHandler), s.Current()); err != nil {
			return err
		}
	}
}

func toNewer(ctx context.Context, pool *pgxpool.Pool) error {
	rows, err := pool.Query(ctx, `
		select format('%I.%I', n.nspname, c.relname)
		from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> 'goose_db_version'`)
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	for _, table := range tables {
		if _, err := pool.Exec(ctx, "alter table "+table+" add column of_a_newer_version text default 'x'"); err != nil {
			return fmt.Errorf("add to %s: %w", table, err)
		}
	}
	_, err = pool.Exec(ctx, "create table newer_things (tenant_id uuid primary key)")
	if err == nil {
		_, err = pool.Exec(ctx, "insert into goose_db_version (version_id, is_applied) values ($1, true)", newerLevel)
	}
	return err
}
