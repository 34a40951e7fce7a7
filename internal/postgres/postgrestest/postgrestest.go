//go:build unix

// Package postgrestest gives a test a real PostgreSQL database of its own.
//
// It owns the making, the naming and the dropping of test databases. It must
// not know the schema, which it gets by running the migrations, and holds no
// fixtures. Only tests import it.
//
// The server is the one that ONCEWARD_TEST_DATABASE_URL names (`make test`
// starts one for the whole run), else the one of ONCEWARD_DATABASE_URL, else one
// that the test binary starts for itself, with every promise about crashes
// switched off, and that ends with the process. On a server that is named the
// role needs CREATEDB, and nothing is touched but databases whose name begins
// with onceward_test_.
//
// Where there is no PostgreSQL to be had, tests are skipped, or fail if
// TEST_DATABASE_REQUIRED=1.
package postgrestest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/devpg"
)

const (
	// EnvURL names the environment variable with the server that tests make
	// their databases on. The database in it is only connected to.
	EnvURL = "ONCEWARD_TEST_DATABASE_URL"

	envRequired = "TEST_DATABASE_REQUIRED"

	// maxConns is the size of a test's pool. Packages and tests run in
	// parallel and share the server's max_connections.
	maxConns = 8

	// setUpTimeout and tearDownTimeout bound what is done around a test. They
	// are wide because the first test may wait for an installation.
	setUpTimeout    = 5 * time.Minute
	tearDownTimeout = 30 * time.Second

	// closeTimeout is how long a pool's connections may take to come back.
	closeTimeout = 5 * time.Second
)

// New is a pool on a new database with the current schema. The database is
// dropped when the test has passed and kept when it has failed; the log then
// says where it is. A connection that the test does not give back fails it.
func New(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return open(tb, NewURL(tb))
}

// NewURL is the URL, password included, of a new database with the current
// schema, for a test that opens its own pools or starts a process. It lives as
// long as New's; connections that are left on it are cut off.
func NewURL(tb testing.TB) string {
	tb.Helper()
	return create(tb, (*cluster).template)
}

// NewEmpty is a pool on a new database without any schema.
func NewEmpty(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return open(tb, create(tb, func(*cluster, context.Context) (string, error) { return "template0", nil }))
}

func open(tb testing.TB, databaseURL string) *pgxpool.Pool {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), setUpTimeout)
	defer cancel()
	pool, err := postgres.Open(ctx, postgres.Config{URL: databaseURL, MaxConns: maxConns, ApplicationName: tb.Name()})
	if err != nil {
		tb.Fatalf("open the test database: %v", err)
	}
	tb.Cleanup(func() { closePool(tb, pool, closeTimeout) })
	return pool
}

// CloseDoors makes the database of pool refuse every connection, as one that is
// down does, and cuts off those it has. The returned function opens it again.
func CloseDoors(tb testing.TB, pool *pgxpool.Pool) (open func()) {
	tb.Helper()
	ctx := context.Background() // also in a cleanup
	cfg := pool.Config().ConnConfig
	name := cfg.Database
	cfg.Database = "postgres"
	admin, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = admin.Close(ctx) })
	exec := func(statement string, args ...any) {
		tb.Helper()
		if _, err := admin.Exec(ctx, statement, args...); err != nil {
			tb.Fatal(err)
		}
	}
	quoted := pgx.Identifier{name}.Sanitize()
	exec("alter database " + quoted + " allow_connections false")
	exec("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1", name)
	return func() {
		tb.Helper()
		exec("alter database " + quoted + " allow_connections true")
	}
}

// closePool does not wait for ever, as the pool's own Close does, for a
// connection that is not given back.
func closePool(tb testing.TB, pool *pgxpool.Pool, within time.Duration) {
	tb.Helper()
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(within):
		tb.Errorf("%d connections of the test's pool were not given back within %v of its end", pool.Stat().AcquiredConns(), within)
	}
}

// create makes a database from the template that templateFunc names and returns
// its URL.
func create(tb testing.TB, templateFunc func(*cluster, context.Context) (string, error)) string {
	tb.Helper()
	c := theCluster(tb)
	ctx, cancel := context.WithTimeout(context.Background(), setUpTimeout)
	defer cancel()
	template, err := templateFunc(c, ctx)
	if err != nil {
		tb.Fatalf("make the template of test databases: %v", err)
	}
	name := databaseName(tb.Name())
	statement := "create database " + pgx.Identifier{name}.Sanitize() + " template " + pgx.Identifier{template}.Sanitize()
	if _, err := c.admin.Exec(ctx, statement); err != nil {
		tb.Fatalf("create a test database: %v", err)
	}
	tb.Cleanup(func() { c.drop(tb, name) })
	return c.databaseURL(name)
}

func (c *cluster) drop(tb testing.TB, name string) {
	tb.Helper()
	if tb.Failed() {
		if c.server != nil {
			tb.Logf("the test's database goes with its server; to keep it, set %s to a server that stays", EnvURL)
			return
		}
		kept, err := url.Parse(c.databaseURL(name))
		if err != nil {
			tb.Logf("the test's database is kept: %s", name)
			return
		}
		tb.Logf("the test's database is kept: %s", withoutPassword(kept))
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tearDownTimeout)
	defer cancel()
	if _, err := c.admin.Exec(ctx, "drop database if exists "+pgx.Identifier{name}.Sanitize()+" with (force)"); err != nil {
		tb.Errorf("drop the test's database: %v", err)
	}
}

func withoutPassword(u *url.URL) string {
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	query.Del("password")
	u.RawQuery = query.Encode()
	return u.String()
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// databaseName says whose a kept database is and is like no other. PostgreSQL
// cuts names at 63 bytes.
func databaseName(test string) string {
	const maxTestBytes = 32
	slug := strings.Trim(notInName.ReplaceAllString(strings.ToLower(test), "_"), "_")
	if len(slug) > maxTestBytes {
		slug = slug[:maxTestBytes]
	}
	raw := make([]byte, 6)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	return namePrefix + slug + "_" + hex.EncodeToString(raw)
}

// theCluster is the server of this test binary, or the end of the test.
func theCluster(tb testing.TB) *cluster {
	tb.Helper()
	c, err := sharedCluster()
	if err == nil {
		return c
	}
	if errors.Is(err, devpg.ErrNotFound) && os.Getenv(envRequired) != "1" {
		tb.Skipf("no database to test with: %v", err)
	}
	tb.Fatalf("no database to test with: %v", err)
	return nil
}
