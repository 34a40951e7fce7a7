package postgres

// For the tests, which live outside the package because postgrestest, which
// they need, imports it.
var (
	MigrateFS           = migrate
	PendingMigrationsFS = pendingMigrations
	CheckVersion        = checkVersion

	ErrMigrationLockLost = errMigrationLockLost
)

// MigrationLockKey is the key of the advisory lock of migrations.
func MigrationLockKey() int64 { return lockKey(migrationLockName) }
