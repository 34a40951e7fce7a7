//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

const insertNote = "insert into notes (text) values ('a note')"

// notesPool is a pool of one connection on a database with an empty table, so
// that a connection which does not come back is noticed by the next statement.
func notesPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := poolOf(t, postgrestest.NewEmpty(t), func(cfg *postgres.Config) { cfg.MaxConns = 1 })
	if _, err := pool.Exec(t.Context(), "create table notes (text text)"); err != nil {
		t.Fatal(err)
	}
	return pool
}

func assertNotes(t *testing.T, pool *pgxpool.Pool, want int64) {
	t.Helper()
	if diff := cmp.Diff(queryAll[int64](t, pool, "select count(*) from notes"), []int64{want}); diff != "" {
		t.Errorf("rows in the table (-got +want):\n%s", diff)
	}
}

func TestInTxKeepsWhatWasWrittenWhenTheFunctionReturnsNil(t *testing.T) {
	t.Parallel()
	pool := notesPool(t)
	err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), insertNote)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	assertNotes(t, pool, 1)
}

func TestInTxUndoesEverythingAndReturnsTheErrorAsItIs(t *testing.T) {
	t.Parallel()
	pool := notesPool(t)
	want := errors.New("changed our mind")
	err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), insertNote); err != nil {
			t.Fatal(err)
		}
		return want
	})
	if err != want { //nolint:errorlint // as it is, not wrapped
		t.Errorf("err = %v, want %v itself", err, want)
	}
	assertNotes(t, pool, 0)
}

func TestInTxUndoesEverythingWhenTheFunctionPanics(t *testing.T) {
	t.Parallel()
	pool := notesPool(t)
	func() {
		defer func() {
			if got := recover(); got != "a fault" {
				t.Errorf("recovered %v, want the panic of the function", got)
			}
		}()
		_ = postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), insertNote); err != nil {
				t.Fatal(err)
			}
			panic("a fault")
		})
	}()
	assertNotes(t, pool, 0)
}

// The roll-back is sent although the caller is gone: the session is the same
// afterwards, and not a new one because the driver had to close it.
func TestInTxRollsBackOnALiveConnectionWhenTheCallerHasLeft(t *testing.T) {
	t.Parallel()
	pool := notesPool(t)
	session := queryAll[int32](t, pool, "select pg_backend_pid()")
	ctx, leave := context.WithCancel(t.Context())
	err := postgres.InTx(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, insertNote)
		leave()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want %v", err, context.Canceled)
	}
	assertNotes(t, pool, 0)
	if diff := cmp.Diff(queryAll[int32](t, pool, "select pg_backend_pid()"), session); diff != "" {
		t.Errorf("session after the roll-back (-got +want):\n%s", diff)
	}
}

func TestInTxReportsACommitThatTheServerTurnsIntoARollBack(t *testing.T) {
	t.Parallel()
	pool := notesPool(t)
	err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), insertNote); err != nil {
			t.Fatal(err)
		}
		_, _ = tx.Exec(t.Context(), "select 1/0") // a careless caller goes on
		return nil
	})
	if !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("err = %v, want %v", err, pgx.ErrTxCommitRollback)
	}
	assertNotes(t, pool, 0)
}

func TestInTxReportsAConstraintThatOnlyTheCommitChecks(t *testing.T) {
	t.Parallel()
	pool := notesPool(t)
	if _, err := pool.Exec(t.Context(), "create table once (id int constraint once_id unique deferrable initially deferred)"); err != nil {
		t.Fatal(err)
	}
	err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), "insert into once values (1), (1)")
		return err
	})
	if !postgres.IsUniqueViolation(err, "once_id") {
		t.Errorf("err = %v, want a violation of once_id", err)
	}
	assertNotes(t, pool, 0)
}
