package postgres

import (
	"context"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
)

// For the tests, which live outside the package because postgrestest, which
// they need, imports it.
var (
	PendingMigrationsFS = pendingMigrations
	CheckVersion        = checkVersion
	ReadSchemaFS        = readSchema
	TakeBackFS          = takeBack

	ErrMigrationLockLost = errMigrationLockLost
)

// MigrateFS runs the migrations of files, and nothing else.
func MigrateFS(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger, files fs.FS) error {
	return migrate(ctx, pool, logger, files)
}

// MigrationLockKey is the key of the advisory lock of migrations.
func MigrationLockKey() int64 { return lockKey(migrationLockName) }
