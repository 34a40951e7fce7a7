package apitest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/keys"
)

// Advance makes it d later for one record: every time that the database keeps
// of it moves into the past by d. A lease of 60 s has lapsed after Advance of
// a minute, and a retention of a day has ended after Advance of a day; what
// does not expire still does not.
func (w *World) Advance(tb testing.TB, id string, d time.Duration) {
	tb.Helper()
	raw, ok := keys.ParseID(id)
	if !ok {
		tb.Fatalf("%q is no id of a record", id)
	}
	statements := []string{
		`update idempotency_keys
		 set created_at = created_at - $2::interval,
		     acquired_at = acquired_at - $2::interval,
		     lease_expires_at = lease_expires_at - $2::interval,
		     completed_at = completed_at - $2::interval,
		     expires_at = expires_at - $2::interval
		 where id = $1`,
		`update key_history
		 set begun_at = begun_at - $2::interval,
		     ended_at = ended_at - $2::interval
		 where id = $1`,
		`update key_late_completions
		 set record_created_at = record_created_at - $2::interval,
		     at = at - $2::interval
		 where id = $1`,
		`update key_search
		 set created_at = created_at - $2::interval,
		     lease_expires_at = lease_expires_at - $2::interval
		 where id = $1`,
	}
	// Without the tenant, unlike every statement of the service: an id is made
	// under the tenant's secret and names one record of the test's database.
	err := pgx.BeginFunc(tb.Context(), w.Pool, func(tx pgx.Tx) error {
		// A process that carries the record over to search does so before all of
		// this or after it, and never with the times of before afterwards.
		if _, err := tx.Exec(tb.Context(), "lock table key_search in share row exclusive mode"); err != nil {
			return err
		}
		return execAll(tb.Context(), tx, statements, raw[:], d)
	})
	if err != nil {
		tb.Fatalf("advance the record %s: %v", id, err)
	}
}

func execAll(ctx context.Context, tx pgx.Tx, statements []string, id []byte, d time.Duration) error {
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement, [16]byte(id), d); err != nil {
			return err
		}
	}
	return nil
}
