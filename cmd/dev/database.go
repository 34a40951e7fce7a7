//go:build unix

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/devpg"
)

const (
	databaseName = "onceward"

	// setUpConns is for migrations and the demo tenant, one thing at a time.
	setUpConns = 2
)

// startDatabase uses the database that ONCEWARD_DATABASE_URL names, or starts
// one on the data of the last run. The caller stops it.
func startDatabase(ctx context.Context, here checkout, out *printer) (*devpg.Database, error) {
	done := out.step()
	db, err := devpg.FromEnv(ctx, databaseName, devpg.Options{
		DataDir:  here.dataDir(),
		WorkDir:  string(here),
		Progress: out.progress,
	})
	if err != nil {
		return nil, err
	}
	if db.Server == nil {
		out.printf("✓ the database that %s names", devpg.EnvURL)
		return db, nil
	}
	done("PostgreSQL %s (%s), data in %s,", db.Server.Version, fromHere(db.Server.BinDir), fromHere(db.Server.DataDir))
	return db, nil
}

// fromHere is path as seen from the working directory, if it lies in it.
func fromHere(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(relative) {
		return relative
	}
	return path
}

// openMigrated connects and brings the schema up to date. The caller closes the
// pool.
func openMigrated(ctx context.Context, url string, out *printer) (*pgxpool.Pool, error) {
	done := out.step()
	pool, err := postgres.Open(ctx, postgres.Config{URL: url, MaxConns: setUpConns, ApplicationName: "onceward-dev"})
	if err != nil {
		return nil, err
	}
	pending, err := postgres.PendingMigrations(ctx, pool)
	if err == nil && pending > 0 {
		err = postgres.Migrate(ctx, pool, slog.New(slog.DiscardHandler))
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("bring the schema of the database up to date: %w", err)
	}
	done("schema up to date (%d migrations applied)", pending)
	return pool, nil
}
