package analytics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
)

// store runs the statements of this package. tenant_id stands in each of
// them, as a constant wherever rows are locked or deleted; what a tenant asks
// sees no row of another.
type store struct{ pool *pgxpool.Pool }

// flush is one window under its number.
type flush struct {
	process uuid.UUID
	seq     int64
	window  *window
}

// written is what a flush learned.
type written struct {
	names *nameCache // registered by it; valid now that it has committed
	now   time.Time  // of the database; zero where the flush had been written before
}

// sqlClaimFlush changes no row where this flush, sent before, is in the
// database already. A transaction of the same process that is still open makes
// it wait and then see.
const sqlClaimFlush = `
insert into analytics_processes as p (process_id, last_seq, seen_at)
values ($1, $2, now())
on conflict (process_id) do update set last_seq = excluded.last_seq, seen_at = excluded.seen_at
where p.last_seq < excluded.last_seq`

// codeCheckViolation is also what a row ends with that was on its way to the
// default partition when the partition of its day was made.
const codeCheckViolation = "23514"

// write puts the window into the database, whole or not at all, and at most
// once for each number of a process. known is read only.
func (s *store) write(ctx context.Context, f flush, known *nameCache) (written, error) {
	done, err := s.writeOnce(ctx, f, known)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && pgErr.Code == codeCheckViolation {
		return s.writeOnce(ctx, f, known) // there is a partition now
	}
	return done, err
}

func (s *store) writeOnce(ctx context.Context, f flush, known *nameCache) (written, error) {
	var done written
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		done = written{names: newNameCache()}
		tag, err := tx.Exec(ctx, sqlClaimFlush, f.process, f.seq)
		if err != nil {
			return fmt.Errorf("claim the flush: %w", err)
		}
		if tag.RowsAffected() == 0 {
			return nil
		}
		names, err := registerNames(ctx, tx, f.window, known, done.names)
		if err != nil {
			return err
		}
		if err := registerSeries(ctx, tx, f.window, known, names, done.names); err != nil {
			return err
		}
		if err := copyCounts(ctx, tx, f.window, names); err != nil {
			return err
		}
		if err := copyEvents(ctx, tx, f.window.events); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "select clock_timestamp()").Scan(&done.now)
	})
	if err != nil {
		return written{}, err
	}
	return done, nil
}

func (s *store) now(ctx context.Context) (now time.Time, err error) {
	err = s.pool.QueryRow(ctx, "select clock_timestamp()").Scan(&now)
	return now, err
}

func minuteTime(minute int64) time.Time { return time.Unix(minute*60, 0).UTC() }

func copyCounts(ctx context.Context, tx pgx.Tx, w *window, names *nameCache) error {
	var rows [][]any
	for key, c := range w.counts {
		id := names.fold(key).id()
		row := func(outcome Outcome, cell ageCell, n int64) {
			rows = append(rows, []any{key.tenant, minuteTime(key.minute), id, int16(outcome), int16(cell.bucket), cell.bin, n})
		}
		for outcome := Acquired; outcome < outcomes; outcome++ {
			if n := c.n[outcome]; n > 0 && outcome != Replay {
				row(outcome, ageCell{}, n)
			}
		}
		for cell, n := range c.ages.cells {
			row(Replay, cell, n)
		}
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"analytics_counts"},
		[]string{"tenant_id", "minute", "series_id", "outcome", "bucket", "bin", "n"}, pgx.CopyFromRows(rows))
	if err != nil {
		return fmt.Errorf("copy counts: %w", err)
	}
	return nil
}

func copyEvents(ctx context.Context, tx pgx.Tx, events []noted) error {
	if len(events) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"analytics_events"},
		[]string{
			"tenant_id", "at", "event_id", "namespace_id", "record_id", "kind", "status", "attempt", "age",
			"credential_id", "operation", "caller", "key", "trace_id",
		},
		pgx.CopyFromSlice(len(events), func(i int) ([]any, error) {
			// Types that pgx encodes as they are: there may be ten thousand rows.
			e := &events[i]
			return []any{
				uuidOf(e.Tenant), e.at, uuidOf(uuid.New()), uuidOf(e.Namespace), uuidOf(e.Record), int16(e.Outcome),
				pgtype.Int2{Int16: int16(e.Status), Valid: e.Status != 0},   //nolint:gosec // a status
				pgtype.Int4{Int32: int32(e.Attempt), Valid: e.Attempt != 0}, //nolint:gosec // attempts of one record
				pgtype.Interval{Microseconds: e.Age.Microseconds(), Valid: e.Outcome == Replay || e.Outcome.conflict()},
				string(e.Credential), e.Operation, e.Caller, e.Key,
				pgtype.Text{String: e.TraceID, Valid: e.TraceID != ""},
			}, nil
		}))
	if err != nil {
		return fmt.Errorf("copy events: %w", err)
	}
	return nil
}

func uuidOf[T ~[16]byte](id T) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

func nullText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
