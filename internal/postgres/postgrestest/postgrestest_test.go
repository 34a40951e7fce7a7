//go:build unix

package postgrestest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/devpg"
)

func TestNewGivesEveryTestItsOwnMigratedDatabase(t *testing.T) {
	t.Parallel()
	for i := range 6 {
		t.Run(fmt.Sprintf("database %d", i), func(t *testing.T) {
			t.Parallel()
			pool := New(t)
			pending, err := postgres.PendingMigrations(t.Context(), pool)
			if err != nil || pending != 0 {
				t.Errorf("PendingMigrations = %d, %v, want 0", pending, err)
			}
			if _, err := pool.Exec(t.Context(), "create table mine (id int)"); err != nil {
				t.Errorf("another test has been here: %v", err)
			}
		})
	}
}

func TestNewEmptyGivesADatabaseWithoutTables(t *testing.T) {
	t.Parallel()
	pool := NewEmpty(t)
	var tables int
	if err := pool.QueryRow(t.Context(), "select count(*) from pg_tables where schemaname = 'public'").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables, %v, want none", tables, err)
	}
}

func databaseExists(t *testing.T, admin *pgxpool.Pool, name string) bool {
	t.Helper()
	var exists bool
	if err := admin.QueryRow(t.Context(), "select exists (select from pg_database where datname = $1)", name).Scan(&exists); err != nil {
		t.Fatal(err)
	}
	return exists
}

func TestADatabaseIsDroppedAfterATestThatPassesEvenIfItIsStillConnected(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("passes", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), NewURL(t))
		if err != nil {
			t.Fatal(err)
		}
		name = conn.Config().Database
		if !databaseExists(t, theCluster(t).admin, name) {
			t.Errorf("there is no database %s", name)
		}
	})
	if databaseExists(t, theCluster(t).admin, name) {
		t.Errorf("database %s is still there", name)
	}
}

// recordingTB is a test whose end and outcome the real test decides.
type recordingTB struct {
	testing.TB
	failed   bool
	lines    []string
	cleanups []func()
}

func (tb *recordingTB) Helper()                   {}
func (tb *recordingTB) Failed() bool              { return tb.failed }
func (tb *recordingTB) Cleanup(cleanup func())    { tb.cleanups = append(tb.cleanups, cleanup) }
func (tb *recordingTB) Logf(f string, a ...any)   { tb.lines = append(tb.lines, fmt.Sprintf(f, a...)) }
func (tb *recordingTB) Errorf(f string, a ...any) { tb.failed = true; tb.Logf(f, a...) }

func (tb *recordingTB) end() {
	for i := len(tb.cleanups) - 1; i >= 0; i-- {
		tb.cleanups[i]()
	}
}

func TestADatabaseIsKeptAfterATestThatFails(t *testing.T) {
	t.Parallel()
	c := theCluster(t)
	tb := &recordingTB{TB: t}
	name := New(tb).Config().ConnConfig.Database
	t.Cleanup(func() { c.drop(t, name) })
	tb.failed = true
	tb.end()
	if !databaseExists(t, c.admin, name) {
		t.Errorf("database %s is gone", name)
	}

	// What is said on a server that stays.
	named := &cluster{admin: c.admin}
	tb.lines = nil
	named.drop(tb, name)
	got, cfg := strings.Join(tb.lines, "\n"), c.admin.Config().ConnConfig
	if !strings.Contains(got, name) || !strings.Contains(got, fmt.Sprint(cfg.Port)) {
		t.Errorf("the log says %q, want where the database is", got)
	}
	if cfg.Password != "" && strings.Contains(got, cfg.Password) {
		t.Errorf("the log says %q: the password is in it", got)
	}
}

func TestAConnectionThatIsNotGivenBackFailsTheTestAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	tb := &recordingTB{TB: t}
	pool := New(t)
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	closePool(tb, pool, 10*time.Millisecond)
	conn.Release()
	if got := strings.Join(tb.lines, "\n"); !tb.failed || !strings.Contains(got, "1 connections") {
		t.Errorf("failed: %v, log: %q, want a failure that counts the connection", tb.failed, got)
	}
}

// Test binaries of several packages start at the same time on one server.
func TestATemplateIsMadeOnceByProcessesThatStartTogether(t *testing.T) {
	t.Parallel()
	c := theCluster(t)
	name := databaseName("template")
	t.Cleanup(func() {
		_, _ = c.admin.Exec(context.Background(), "alter database "+name+" is_template false")
		c.drop(t, name)
	})
	// One was interrupted.
	if _, err := c.admin.Exec(t.Context(), "create database "+name+"_new"); err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			admin, err := postgres.Open(t.Context(), postgres.Config{URL: c.databaseURL("postgres"), MaxConns: 1})
			if err != nil {
				errs[i] = err
				return
			}
			defer admin.Close()
			errs[i] = (&cluster{admin: admin}).ensureTemplate(name)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	var isTemplate, connectable bool
	err := c.admin.QueryRow(t.Context(), "select datistemplate, datallowconn from pg_database where datname = $1", name).Scan(&isTemplate, &connectable)
	if err != nil || !isTemplate || connectable {
		t.Errorf("is template %v, connectable %v, %v, want a template that nobody can change", isTemplate, connectable, err)
	}
	if databaseExists(t, c.admin, name+"_new") {
		t.Error("the unfinished template is still there")
	}
}

func TestDatabaseNamesFitAndDiffer(t *testing.T) {
	t.Parallel()
	const maxBytes = 63 // NAMEDATALEN - 1
	long := "TestSomething/" + strings.Repeat("größer ", 30)
	a, b := databaseName(long), databaseName(long)
	if len(a) > maxBytes || a == b || !strings.HasPrefix(a, namePrefix+"testsomething_gr_er") {
		t.Errorf("names %q (%d bytes) and %q", a, len(a), b)
	}
}

func TestTheServersURLIsTurnedIntoADatabases(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"postgres://ann:pw@db:5433/postgres?sslmode=require": "postgres://ann:pw@db:5433/mine?sslmode=require",
		"postgresql://db":                      "postgresql://db/mine",
		"postgres://db/?dbname=other&user=ann": "postgres://db/mine?user=ann",
		"postgres:///x?host=/run/postgresql":   "postgres:///mine?host=%2Frun%2Fpostgresql",
		"host=db user=ann":                     "",
		"https://db/postgres":                  "",
	} {
		got, err := withDatabase(given, "mine")
		if (err != nil) != (want == "") {
			t.Errorf("%s: err = %v", given, err)
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", given, diff)
		}
	}
}

// The decision between skipping and failing is about the process's environment,
// so it is looked at from outside.
func TestWithoutADatabaseTestsAreSkippedAtADeskAndFailInCI(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		env  []string
		want string
	}{
		"nothing to be had at a desk":           {nil, "--- SKIP"},
		"nothing to be had in CI":               {[]string{envRequired + "=1"}, "--- FAIL"},
		"a server is named and does not answer": {[]string{EnvURL + "=postgres://ann@127.0.0.1:1/postgres"}, "--- FAIL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin, err := os.MkdirTemp("", "postgrestest-") //nolint:usetesting // unlike t.TempDir, it can be opened to all
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(bin) }()
			if err := os.Chmod(bin, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(bin, "npm"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestNewEmptyGivesADatabaseWithoutTables$", "-test.v")
			cmd.Dir = bin // outside of the checkout, whose .onceward may hold a PostgreSQL
			cmd.Env = append([]string{
				"PATH=" + bin + ":/bin:/usr/bin", "HOME=" + bin, "XDG_CACHE_HOME=" + bin, "TMPDIR=" + bin, "ONCEWARD_DEVPG=npm",
			}, test.env...)
			out, _ := cmd.CombinedOutput() // its status is in what it prints
			if !strings.Contains(string(out), test.want) {
				t.Errorf("the test prints %q, want %s in it", out, test.want)
			}
			if strings.Contains(string(out), devpg.ErrNotFound.Error()) == strings.Contains(name, "named") {
				t.Errorf("the test prints %q, which is about something else", out)
			}
		})
	}
}
