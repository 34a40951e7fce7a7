//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// classes names every question of the package that answers yes to err.
func classes(err error) []string {
	got := []string{}
	for _, question := range []struct {
		name string
		yes  bool
	}{
		{"unique", postgres.IsUniqueViolation(err, "")},
		{"lock", postgres.IsLockNotAvailable(err)},
		{"deadlock", postgres.IsDeadlock(err)},
		{"serialization", postgres.IsSerialization(err)},
		{"read only", postgres.IsReadOnly(err)},
		{"data", postgres.IsDataError(err)},
		{"resources", postgres.IsOutOfResources(err)},
		{"connection", postgres.IsConnectionError(err)},
	} {
		if question.yes {
			got = append(got, question.name)
		}
	}
	return got
}

// Every error here is made by a real server or a real network.
func TestErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		provoke func(t *testing.T, pool *pgxpool.Pool) error
		want    []string
	}{
		"unique violation":             {uniqueViolation, []string{"unique", "data"}},
		"check violation":              {statement("insert into items values (-1)"), []string{"data"}},
		"value out of range":           {statement("select 1/0"), []string{"data"}},
		"syntax error":                 {statement("selec 1"), []string{}},
		"no such table":                {statement("select from nowhere"), []string{}},
		"lock refused at once":         {lockRefused, []string{"lock"}},
		"deadlock":                     {deadlock, []string{"deadlock"}},
		"serialization failure":        {serializationFailure, []string{"serialization"}},
		"write in a read-only session": {readOnly, []string{"read only"}},
		"session ended by the server":  {sessionTerminated, []string{"connection"}},
		"idle in transaction too long": {idleInTransaction, []string{"connection"}},
		"too many connections":         {tooManyConnections, []string{"resources", "connection"}},
		"disk full":                    {statement("do $$ begin raise disk_full; end $$"), []string{"resources"}},
		"disk broken":                  {statement("do $$ begin raise io_error; end $$"), []string{"resources"}},
		"connection refused":           {connectionRefused, []string{"connection"}},
		"server hangs up":              {serverHangsUp, []string{"connection"}},
		"server says nothing":          {serverSaysNothing, []string{"connection"}},
		"deadline passed":              {deadlinePassed, []string{"connection"}},
		"no free connection in time":   {poolExhausted, []string{"connection"}},
		"pool closed":                  {poolClosed, []string{"connection"}},
		"caller gone":                  {callerGone, []string{}},
		"wrong password":               {wrongPassword, []string{}},
		"no rows":                      {noRows, []string{}},
		"nothing wrong":                {statement("select 1"), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := poolOf(t, postgrestest.NewEmpty(t), nil)
			if _, err := pool.Exec(t.Context(), "create table items (id int constraint items_id unique constraint items_positive check (id > 0))"); err != nil {
				t.Fatal(err)
			}
			err := test.provoke(t, pool)
			if wrapped := fmt.Errorf("begin key: %w", err); err != nil {
				err = wrapped
			}
			if diff := cmp.Diff(classes(err), test.want); diff != "" {
				t.Errorf("%v is (-got +want):\n%s", err, diff)
			}
		})
	}
}

func TestAUniqueViolationIsToldByItsConstraint(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	if _, err := pool.Exec(t.Context(), "create table items (id int constraint items_id unique)"); err != nil {
		t.Fatal(err)
	}
	err := uniqueViolation(t, pool)
	if !postgres.IsUniqueViolation(err, "items_id") {
		t.Errorf("%v is not a violation of items_id", err)
	}
	if postgres.IsUniqueViolation(err, "items_pkey") {
		t.Errorf("%v is a violation of another constraint", err)
	}
}

func statement(sql string) func(*testing.T, *pgxpool.Pool) error {
	return func(t *testing.T, pool *pgxpool.Pool) error {
		t.Helper()
		_, err := pool.Exec(t.Context(), sql)
		return err
	}
}

// run is for a statement that has to work.
func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if err := statement(sql)(t, pool); err != nil {
		t.Fatal(err)
	}
}

func uniqueViolation(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	_, err := pool.Exec(t.Context(), "insert into items values (1), (1)")
	return err
}

func begin(t *testing.T, pool *pgxpool.Pool, options pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func exec(t *testing.T, tx pgx.Tx, sql string) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func lockRefused(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	exec(t, begin(t, pool, pgx.TxOptions{}), "lock table items")
	_, err := begin(t, pool, pgx.TxOptions{}).Exec(t.Context(), "lock table items nowait")
	return err
}

func deadlock(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	run(t, pool, "insert into items values (1), (2)")
	a, b := begin(t, pool, pgx.TxOptions{}), begin(t, pool, pgx.TxOptions{})
	exec(t, a, "select from items where id = 1 for update")
	exec(t, b, "select from items where id = 2 for update")
	errs := make(chan error, 2)
	go func() {
		_, err := a.Exec(t.Context(), "select from items where id = 2 for update")
		_ = a.Rollback(t.Context())
		errs <- err
	}()
	_, err := b.Exec(t.Context(), "select from items where id = 1 for update")
	_ = b.Rollback(t.Context())
	return errors.Join(err, <-errs)
}

func serializationFailure(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	run(t, pool, "insert into items values (1)")
	tx := begin(t, pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	exec(t, tx, "select from items")
	run(t, pool, "update items set id = 2")
	_, err := tx.Exec(t.Context(), "update items set id = 3")
	return err
}

func readOnly(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	_, err := begin(t, pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}).Exec(t.Context(), "insert into items values (1)")
	return err
}

func sessionTerminated(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	_, err := pool.Exec(t.Context(), "select pg_terminate_backend(pg_backend_pid())")
	return err
}

func idleInTransaction(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	tx := begin(t, pool, pgx.TxOptions{})
	var session int32
	if err := tx.QueryRow(t.Context(), "select pg_backend_pid() from set_config('idle_in_transaction_session_timeout', '1ms', true)").Scan(&session); err != nil {
		t.Fatal(err)
	}
	waitFor(t, pool, "select not exists (select from pg_stat_activity where pid = $1)", session)
	_, err := tx.Exec(t.Context(), "select 1")
	return err
}

// tooManyConnections asks as a role that may not have any, since the superuser
// of the tests is not counted.
func tooManyConnections(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	role := queryAll[string](t, pool, "select current_database() || '_nobody'")[0]
	quoted := pgx.Identifier{role}.Sanitize()
	if _, err := pool.Exec(t.Context(), "create role "+quoted+" login connection limit 0 password 'x'"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = pool.Exec(context.WithoutCancel(t.Context()), "drop role "+quoted) })
	cfg := pool.Config().ConnConfig
	cfg.User, cfg.Password = role, "x"
	_, err := pgx.ConnectConfig(t.Context(), cfg)
	return err
}

func wrongPassword(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	cfg := pool.Config().ConnConfig
	cfg.Password = "wrong"
	_, err := pgx.ConnectConfig(t.Context(), cfg)
	return err
}

func connectionRefused(t *testing.T, _ *pgxpool.Pool) error {
	t.Helper()
	_, err := pgx.Connect(t.Context(), fmt.Sprintf("postgres://ann@127.0.0.1:%d/shop", closedPort(t)))
	return err
}

// fakeServer is a listener whose connections are given to serve.
func fakeServer(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	return "postgres://ann@" + l.Addr().String() + "/shop?sslmode=disable"
}

func serverHangsUp(t *testing.T, _ *pgxpool.Pool) error {
	t.Helper()
	_, err := pgx.Connect(t.Context(), fakeServer(t, func(conn net.Conn) { _ = conn.Close() }))
	return err
}

func serverSaysNothing(t *testing.T, _ *pgxpool.Pool) error {
	t.Helper()
	silent := fakeServer(t, func(conn net.Conn) { go func() { _, _ = io.Copy(io.Discard, conn) }() })
	cfg, err := pgx.ParseConfig(silent)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnectTimeout = 50 * time.Millisecond
	_, err = pgx.ConnectConfig(t.Context(), cfg)
	return err
}

func deadlinePassed(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := pool.Exec(ctx, "select pg_sleep(60)")
	return err
}

func poolExhausted(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	one := poolOf(t, pool, func(cfg *postgres.Config) { cfg.MaxConns = 1 })
	held, err := one.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = one.Exec(ctx, "select 1")
	return err
}

func poolClosed(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	closed := poolOf(t, pool, nil)
	closed.Close()
	_, err := closed.Exec(t.Context(), "select 1")
	return err
}

func callerGone(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := pool.Exec(ctx, "select pg_sleep(60)")
		done <- err
	}()
	waitFor(t, pool, "select exists (select from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep')")
	leave()
	err := <-done
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "deadline") {
		t.Errorf("err = %v, want %v", err, context.Canceled)
	}
	return err
}

func noRows(t *testing.T, pool *pgxpool.Pool) error {
	t.Helper()
	var id int
	return pool.QueryRow(t.Context(), "select id from items").Scan(&id)
}
