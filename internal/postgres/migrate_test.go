//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/migrations"
)

// patience is how long a test waits for what should come at once.
const patience = 20 * time.Second

var quiet = slog.New(slog.DiscardHandler) //nolint:gochecknoglobals // it holds nothing

func sqlFile(sql string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(sql)} }

// concurrentIndexFS has the statement that a blocking advisory lock around
// migrations would deadlock with.
//
//nolint:gochecknoglobals // a constant that Go cannot declare as one
var concurrentIndexFS = fstest.MapFS{
	"00001_table.sql": sqlFile("-- +goose Up\ncreate table things (id int, name text);\ninsert into things select g, g::text from generate_series(1, 1000) g;\n"),
	"00002_index.sql": sqlFile("-- +goose NO TRANSACTION\n-- +goose Up\ncreate index concurrently things_name on things (name);\n"),
	"00003_more.sql":  sqlFile("-- +goose Up\nalter table things add column more text;\n"),
}

func TestMigrateRunsOnceWhenSeveralProcessesStartTogether(t *testing.T) {
	t.Parallel()
	const processes = 3
	admin := postgrestest.NewEmpty(t)
	errs := make([]error, processes)
	var wg sync.WaitGroup
	for i := range processes {
		pool := poolOf(t, admin, nil)
		wg.Go(func() { errs[i] = postgres.MigrateFS(t.Context(), pool, quiet, concurrentIndexFS) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	got := queryAll[int64](t, admin, "select version_id from goose_db_version where version_id > 0 order by id")
	if diff := cmp.Diff(got, []int64{1, 2, 3}); diff != "" {
		t.Errorf("applied versions (-got +want):\n%s", diff)
	}
	valid := queryAll[bool](t, admin, "select indisvalid from pg_index where indexrelid = 'things_name'::regclass")
	if diff := cmp.Diff(valid, []bool{true}); diff != "" {
		t.Errorf("index is valid (-got +want):\n%s", diff)
	}
}

func TestMigrateNeedsNoSecondPlaceInAPoolOfOne(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, postgrestest.NewEmpty(t), func(cfg *postgres.Config) { cfg.MaxConns = 1 })
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	if err := postgres.Migrate(t.Context(), pool, quiet); err != nil {
		t.Error(err)
	}
}

func TestMigrateIsNotCutShortByTheTimeLimitsOfRequests(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, postgrestest.NewEmpty(t), func(cfg *postgres.Config) {
		cfg.RuntimeParams = map[string]string{"statement_timeout": "50ms"}
	})
	slow := fstest.MapFS{"00001_slow.sql": sqlFile("-- +goose Up\nselect pg_sleep(0.3);\n")}
	if err := postgres.MigrateFS(t.Context(), pool, quiet, slow); err != nil {
		t.Error(err)
	}
}

func TestMigrateThatFailsNamesTheFileKeepsWhatWasDoneAndFreesTheLock(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	faulty := fstest.MapFS{
		"00001_good.sql": sqlFile("-- +goose Up\ncreate table good (id int);\n"),
		"00002_bad.sql":  sqlFile("-- +goose Up\ncreate table half (id int);\nselect no_such_function();\n"),
	}
	err := postgres.MigrateFS(t.Context(), pool, quiet, faulty)
	if err == nil || !strings.Contains(err.Error(), "00002_bad.sql") || !strings.Contains(err.Error(), "no_such_function") {
		t.Errorf("err = %v, want one that names the file and the cause", err)
	}
	tables := queryAll[string](t, pool, "select relname::text from pg_class where relname in ('good', 'half') and relkind = 'r'")
	if diff := cmp.Diff(tables, []string{"good"}); diff != "" {
		t.Errorf("tables (-got +want):\n%s", diff)
	}
	assertLockFree(t, pool)
	pending, err := postgres.PendingMigrationsFS(t.Context(), pool, faulty)
	if err != nil || pending != 1 {
		t.Errorf("PendingMigrations = %d, %v, want 1", pending, err)
	}
}

func TestMigrateGivesUpWaitingWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	other, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if _, err := other.Exec(t.Context(), "select pg_advisory_lock($1)", postgres.MigrationLockKey()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = postgres.Migrate(ctx, pool, quiet)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v, want the context's", err)
	}
	if pending, err := postgres.PendingMigrations(t.Context(), pool); err != nil || pending == 0 {
		t.Errorf("PendingMigrations = %d, %v, want all: nothing may run without the lock", pending, err)
	}
}

// A migration whose lock is lost must end: the next process may already run.
func TestMigrateStopsWhenTheConnectionThatHoldsItsLockIsLost(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	blocker, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = blocker.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := blocker.Exec(t.Context(), "create table in_the_way (id int primary key)"); err != nil {
		t.Fatal(err)
	}
	blocked := fstest.MapFS{"00001_blocked.sql": sqlFile("-- +goose Up\ncreate table in_the_way (id int primary key);\n")}
	done := make(chan error, 1)
	go func() { done <- postgres.MigrateFS(t.Context(), pool, quiet, blocked) }()

	waitFor(t, pool, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
	queryAll[bool](t, pool, `
		select pg_terminate_backend(pid) from pg_locks
		where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
	select {
	case err := <-done:
		if !errors.Is(err, postgres.ErrMigrationLockLost) {
			t.Errorf("err = %v, want %v", err, postgres.ErrMigrationLockLost)
		}
	case <-time.After(patience):
		t.Fatal("the migration goes on without its lock")
	}
}

func TestPendingMigrationsCountsWithoutWriting(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	pending := func() int {
		t.Helper()
		n, err := postgres.PendingMigrationsFS(t.Context(), pool, concurrentIndexFS)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := pending(); got != 3 {
		t.Errorf("in an empty database %d are pending, want 3", got)
	}
	if tables := queryAll[string](t, pool, "select tablename::text from pg_tables where schemaname = 'public'"); len(tables) != 0 {
		t.Errorf("counting has made tables: %v", tables)
	}
	first := fstest.MapFS{"00001_table.sql": concurrentIndexFS["00001_table.sql"]}
	if err := postgres.MigrateFS(t.Context(), pool, quiet, first); err != nil {
		t.Fatal(err)
	}
	if got := pending(); got != 2 {
		t.Errorf("after the first of three %d are pending, want 2", got)
	}
	if err := postgres.MigrateFS(t.Context(), pool, quiet, concurrentIndexFS); err != nil {
		t.Fatal(err)
	}
	if got := pending(); got != 0 {
		t.Errorf("after all %d are pending, want 0", got)
	}
	behind, err := postgres.PendingMigrationsFS(t.Context(), pool, first)
	if err != nil || behind != 0 {
		t.Errorf("a binary older than the database counts %d, %v, want 0", behind, err)
	}
}

func TestEveryMigrationCanBeUndoneAndDoneAgain(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS)
	if err != nil {
		t.Fatal(err)
	}
	up := func() []string {
		t.Helper()
		if _, err := provider.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		return objects(t, pool)
	}
	before := objects(t, pool)
	first := up()
	if len(first) <= len(before) {
		t.Fatalf("the migrations made nothing: %v", first)
	}
	if _, err := provider.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	left := slices.DeleteFunc(objects(t, pool), func(name string) bool { return strings.Contains(name, "goose_db_version") })
	if diff := cmp.Diff(left, before); diff != "" {
		t.Errorf("what is left after undoing all (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(up(), first); diff != "" {
		t.Errorf("what the second time made (-got +first time):\n%s", diff)
	}
}

// objects lists everything in the database that is not PostgreSQL's own.
func objects(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	return queryAll[string](t, pool, `
		select identity from (
			select format('relation %s.%s %s', n.nspname, c.relname, c.relkind) as identity
			from pg_class c join pg_namespace n on n.oid = c.relnamespace
			union all
			select format('type %s.%s', n.nspname, y.typname) from pg_type y join pg_namespace n on n.oid = y.typnamespace
			union all
			select format('function %s.%s', n.nspname, p.proname) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
			union all
			select format('schema %s.', nspname) from pg_namespace
		) o
		where identity !~ ' (pg_catalog|information_schema|pg_toast\S*|pg_temp\S*)\.'
		order by identity`)
}

func assertLockFree(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	held := queryAll[int32](t, pool, `
		select pid from pg_locks
		where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`)
	if len(held) != 0 {
		t.Errorf("the migration lock is still held by %v", held)
	}
}

// poolOf opens another pool on the database of pool, as another process would.
func poolOf(t *testing.T, pool *pgxpool.Pool, adjust func(*postgres.Config)) *pgxpool.Pool {
	t.Helper()
	cfg := postgres.Config{URL: pool.Config().ConnString(), MaxConns: 4}
	if adjust != nil {
		adjust(&cfg)
	}
	opened, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(opened.Close)
	return opened
}

func queryAll[T any](t *testing.T, pool *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[T])
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return all
}

// waitFor asks until the statement says true.
func waitFor(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	deadline := time.After(patience)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !queryAll[bool](t, pool, sql, args...)[0] {
		select {
		case <-deadline:
			t.Fatalf("never became true: %s", sql)
		case <-ticker.C:
		}
	}
}
