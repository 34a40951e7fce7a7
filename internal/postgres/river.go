package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// RiverSchema is where River, which runs the worker's jobs, has its tables: a
// schema of their own, so that nothing of ours and of theirs is ever confused.
const RiverSchema = "river"

// What a look at River's version ends with where its schema is not there yet,
// and where it is between its first migration and the one that added lines.
const (
	codeUndefinedTable  = "42P01"
	codeUndefinedColumn = "42703"
)

// sqlGrantRiver lets the application's role, where there is one, enqueue and
// show jobs.
const sqlGrantRiver = `
do $$
begin
    if exists (select from pg_roles where rolname = 'onceward_app') then
        grant usage on schema ` + RiverSchema + ` to onceward_app;
        grant select, insert, update, delete on all tables in schema ` + RiverSchema + ` to onceward_app;
        grant usage on all sequences in schema ` + RiverSchema + ` to onceward_app;
    end if;
end
$$`

// RiverVersion is the version of River's tables that this binary works with.
func RiverVersion() (int, error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(nil), &rivermigrate.Config{Schema: RiverSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, fmt.Errorf("read River's migrations: %w", err)
	}
	versions := migrator.AllVersions()
	return versions[len(versions)-1].Version, nil
}

// riverUp brings River's tables up to date. River's migrator fails where two
// run at once, so it runs under the lock of ours; and it has a migration that
// cannot be in one transaction with those before it, so each has its own.
func riverUp(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) error {
	own := pool.Config()
	own.ConnConfig = migrationConnConfig(pool)
	own.MaxConns, own.MinConns, own.MinIdleConns = 1, 0, 0
	single, err := pgxpool.NewWithConfig(ctx, own)
	if err != nil {
		return fmt.Errorf("set up a connection for River's migrations: %w", err)
	}
	defer single.Close()
	if _, err := single.Exec(ctx, "create schema if not exists "+RiverSchema); err != nil {
		return fmt.Errorf("create the schema %s: %w", RiverSchema, err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(single), &rivermigrate.Config{Schema: RiverSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("read River's migrations: %w", err)
	}
	result, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errMigrationLockLost) {
			return fmt.Errorf("apply River's migrations: %w", cause)
		}
		return fmt.Errorf("apply River's migrations: %w", err)
	}
	if _, err := single.Exec(ctx, sqlGrantRiver); err != nil {
		return fmt.Errorf("grant the application River's tables: %w", err)
	}
	for _, version := range result.Versions {
		logger.InfoContext(ctx, "migration applied",
			slog.String("file", fmt.Sprintf("river %03d %s", version.Version, version.Name)),
			slog.Duration("took", version.Duration))
	}
	return nil
}

// riverPending is how many of River's migrations the database lacks. It only
// reads.
func riverPending(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	want, err := RiverVersion()
	if err != nil {
		return 0, err
	}
	var have int
	err = pool.QueryRow(ctx, "select coalesce(max(version), 0) from "+pgx.Identifier{RiverSchema, "river_migration"}.Sanitize()+" where line = 'main'").Scan(&have)
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && (pgErr.Code == codeUndefinedTable || pgErr.Code == codeUndefinedColumn) {
		return want, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for River's migrations: %w", err)
	}
	return max(want-have, 0), nil
}
