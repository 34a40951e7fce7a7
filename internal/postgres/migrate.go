package postgres

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/onceward/onceward/migrations"
)

const (
	// migrationLockName is hashed into the key of the advisory lock under which
	// every migration of a database runs.
	migrationLockName = "onceward-migrate"

	// migrationLockPoll is how often a waiting process asks for the lock.
	migrationLockPoll = 100 * time.Millisecond

	// migrationUnlockTimeout bounds giving the lock back; past it the
	// connection is closed, which gives it back too.
	migrationUnlockTimeout = 5 * time.Second

	gooseTable = "goose_db_version"
)

// errMigrationLockLost is the cause that ends a migration whose lock is gone
// with its connection: another process may have started by then.
var errMigrationLockLost = errors.New("the connection that held the migration lock was lost")

// Migrate brings the schema up to date: first our own migrations, then, under
// the same lock, those of what we build on. Any number of processes may call it
// at once; one works, the others wait until ctx ends, and find nothing left to
// do. A migration that fails leaves those before it in place.
func Migrate(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) error {
	return migrate(ctx, pool, logger, migrations.FS, riverUp)
}

// migration is one step of a migration of pool's database.
type migration func(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) error

func migrate(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, files fs.FS, others ...migration) error {
	steps := []func(ctx context.Context) error{
		func(ctx context.Context) error { return gooseUp(ctx, pool, logger, files) },
	}
	for _, other := range others {
		steps = append(steps, func(ctx context.Context) error { return other(ctx, pool, logger) })
	}
	return withMigrationLock(ctx, pool, logger, func(ctx context.Context) error {
		for _, step := range steps {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// PendingMigrations is how many migrations of this binary the database lacks:
// zero means ready. It only reads. A database that is ahead of the binary, as
// it is during a rolling update, lacks none.
func PendingMigrations(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	ours, err := pendingMigrations(ctx, pool, migrations.FS)
	if err != nil {
		return 0, err
	}
	rivers, err := riverPending(ctx, pool)
	return ours + rivers, err
}

func pendingMigrations(ctx context.Context, pool *pgxpool.Pool, files fs.FS) (int, error) {
	s, err := readSchema(ctx, pool, files)
	return len(s.Pending()), err
}

func gooseUp(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, files fs.FS) error {
	return withGoose(ctx, pool, logger, files, "apply", func(provider *goose.Provider) ([]*goose.MigrationResult, error) {
		return provider.Up(ctx)
	})
}

func gooseDown(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, files fs.FS, version int64) error {
	return withGoose(ctx, pool, logger, files, "take back", func(provider *goose.Provider) ([]*goose.MigrationResult, error) {
		result, err := provider.ApplyVersion(ctx, version, false)
		if err != nil {
			return nil, err
		}
		return []*goose.MigrationResult{result}, nil
	})
}

// withGoose says what was done, and which file failed; verb is what is done to
// a migration.
func withGoose(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, files fs.FS, verb string, do func(*goose.Provider) ([]*goose.MigrationResult, error)) error {
	connConfig := migrationConnConfig(pool)
	db := stdlib.OpenDB(*connConfig)
	defer func() { _ = db.Close() }()

	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithTableName(gooseTable),
		goose.WithDisableGlobalRegistry(true),
		goose.WithSlog(slog.New(slog.DiscardHandler)))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	done, err := do(provider)
	partial, isPartial := errors.AsType[*goose.PartialError](err)
	if isPartial {
		done = partial.Applied
	}
	for _, result := range done {
		about := []any{slog.String("file", result.Source.Path), slog.Duration("took", result.Duration)}
		if result.Direction == "down" {
			logger.InfoContext(ctx, "migration taken back", about...)
			continue
		}
		logger.InfoContext(ctx, "migration applied", about...)
	}
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(cause, errMigrationLockLost):
		return fmt.Errorf("%s migrations: %w", verb, cause)
	case isPartial:
		return fmt.Errorf("%s migration %s: %w", verb, partial.Failed.Source.Path, partial.Err)
	default:
		return fmt.Errorf("%s migrations: %w", verb, err)
	}
}

// migrationConnConfig is the pool's own way to the database without the time
// limits that are set for requests: building an index may take as long as it
// takes.
func migrationConnConfig(pool *pgxpool.Pool) *pgx.ConnConfig {
	connConfig := pool.Config().ConnConfig
	for _, name := range []string{
		"statement_timeout", "lock_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout",
	} {
		connConfig.RuntimeParams[name] = "0"
	}
	return connConfig
}

// withMigrationLock runs fn while no other process migrates this database.
//
// The lock is polled for: a session that waits inside pg_advisory_lock has a
// snapshot, CREATE INDEX CONCURRENTLY waits for snapshots older than its own,
// and the two wait for each other for ever. It sits on a connection of its own,
// outside the pool, so that it is released when the connection ends, whatever
// happens here, and needs no second place in a pool of one.
func withMigrationLock(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, fn func(ctx context.Context) error) error {
	conn, err := pgx.ConnectConfig(ctx, migrationConnConfig(pool))
	if err != nil {
		return fmt.Errorf("connect for the migration lock: %w", err)
	}
	defer closeLockConn(ctx, conn)

	if err := pollMigrationLock(ctx, conn, logger); err != nil {
		return err
	}
	return whileConnLives(ctx, conn, fn)
}

func pollMigrationLock(ctx context.Context, conn *pgx.Conn, logger *slog.Logger) error {
	ticker := time.NewTicker(migrationLockPoll)
	defer ticker.Stop()
	for waiting := false; ; {
		var locked bool
		err := conn.QueryRow(ctx, "select pg_try_advisory_lock($1)", lockKey(migrationLockName)).Scan(&locked)
		if err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if locked {
			return nil
		}
		if !waiting {
			waiting = true
			logger.InfoContext(ctx, "waiting for another process that migrates this database")
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another process still holds the migration lock: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}

// whileConnLives runs fn with a context that ends with the connection. Waiting
// for a notification that nobody sends is how its end is noticed: the read
// returns when the socket closes.
func whileConnLives(ctx context.Context, conn *pgx.Conn, fn func(ctx context.Context) error) error {
	fnCtx, cancelFn := context.WithCancelCause(ctx)
	defer cancelFn(nil)
	watchCtx, stopWatch := context.WithCancel(ctx)
	watchDone := make(chan struct{})
	go func() {
		defer close(watchDone)
		for watchCtx.Err() == nil {
			if _, err := conn.WaitForNotification(watchCtx); err != nil && watchCtx.Err() == nil {
				cancelFn(fmt.Errorf("%w: %w", errMigrationLockLost, err))
				return
			}
		}
	}()
	defer func() {
		stopWatch()
		<-watchDone
	}()
	return fn(fnCtx)
}

// closeLockConn gives the lock back before it closes the connection, so that
// the lock is free when Migrate returns and not some moments later.
func closeLockConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationUnlockTimeout)
	defer cancel()
	if !conn.IsClosed() {
		_, _ = conn.Exec(ctx, "select pg_advisory_unlock_all()")
	}
	_ = conn.Close(ctx)
}

// lockKey spreads a name over the 64 bits of PostgreSQL's advisory lock keys.
func lockKey(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return int64(h.Sum64()) //nolint:gosec // all 64 bits are wanted, the sign means nothing
}
