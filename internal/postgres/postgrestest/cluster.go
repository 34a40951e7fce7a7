//go:build unix

package postgrestest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/devpg"
	"github.com/onceward/onceward/migrations"
)

const (
	namePrefix     = "onceward_test_"
	templatePrefix = namePrefix + "template_"

	// adminConns bounds how many databases one binary makes or drops at a time.
	adminConns = 4

	templateLockPoll = 50 * time.Millisecond
)

// cluster is a server on which test databases are made.
type cluster struct {
	admin  *pgxpool.Pool
	server *devpg.Server // nil where the environment names the server

	templateFunc func() (string, error)
}

// sharedCluster connects to the server, or starts it, once for each process:
// starting one for each test would cost half a second. It is never stopped:
// devpg ends a server with the process that started it, and removes its folder.
//
//nolint:gochecknoglobals // one server for all tests of a process is the point
var sharedCluster = sync.OnceValues(newCluster)

func newCluster() (*cluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setUpTimeout)
	defer cancel()
	c := &cluster{}
	adminURL := os.Getenv(EnvURL)
	if adminURL == "" {
		adminURL = os.Getenv(devpg.EnvURL)
	}
	if adminURL == "" {
		server, err := devpg.Start(ctx, devpg.Options{Fast: true})
		if err != nil {
			return nil, fmt.Errorf("start a PostgreSQL for the tests of this package: %w", err)
		}
		c.server = server
		adminURL = server.URL("postgres")
	} else if _, err := withDatabase(adminURL, "postgres"); err != nil {
		return nil, err
	}
	admin, err := postgres.Open(ctx, postgres.Config{URL: adminURL, MaxConns: adminConns, ApplicationName: "postgrestest"})
	if err != nil {
		return nil, err
	}
	c.admin = admin
	c.templateFunc = sync.OnceValues(func() (string, error) {
		hash, err := migrationsHash()
		if err != nil {
			return "", err
		}
		name := templatePrefix + hash + os.Getenv(envSchema)
		return name, c.ensureTemplate(name)
	})
	return c, nil
}

// databaseURL is the server's URL with another database in it.
func (c *cluster) databaseURL(name string) string {
	databaseURL, err := withDatabase(c.admin.Config().ConnString(), name)
	if err != nil {
		panic(err) // newCluster has seen that it can be done
	}
	return databaseURL
}

func withDatabase(serverURL, name string) (string, error) {
	u, err := url.Parse(serverURL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errors.New("the URL of the server for tests must have the form postgres://user:password@host:port/database")
	}
	u.Path = "/" + name
	query := u.Query()
	query.Del("database")
	query.Del("dbname")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// template is the name of a database with the current schema that is cloned for
// every test.
func (c *cluster) template(context.Context) (string, error) { return c.templateFunc() }

// ensureTemplate makes the template unless this or another process has: test
// binaries of several packages run at the same time. Its name is the hash of
// the migrations, so that a changed one makes a new template.
func (c *cluster) ensureTemplate(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), setUpTimeout)
	defer cancel()
	conn, err := c.admin.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	unlock, err := lockTemplate(ctx, conn, name)
	if err != nil {
		return err
	}
	defer unlock()

	var exists bool
	if err := conn.QueryRow(ctx, "select exists (select from pg_database where datname = $1)", name).Scan(&exists); err != nil {
		return fmt.Errorf("look for the template: %w", err)
	}
	if exists {
		return nil
	}
	return c.buildTemplate(ctx, conn, name)
}

// buildTemplate works under another name until all is done, so that what an
// interrupted process left is never cloned.
func (c *cluster) buildTemplate(ctx context.Context, conn *pgxpool.Conn, name string) error {
	building := name + "_new"
	quoted, quotedName := pgx.Identifier{building}.Sanitize(), pgx.Identifier{name}.Sanitize()
	if _, err := conn.Exec(ctx, "drop database if exists "+quoted+" with (force)"); err != nil {
		return fmt.Errorf("drop what an interrupted test left: %w", err)
	}
	if _, err := conn.Exec(ctx, "create database "+quoted+" template template0"); err != nil {
		return fmt.Errorf("create the template: %w", err)
	}
	if err := c.migrate(ctx, building); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "alter database "+quoted+" with allow_connections false is_template true"); err != nil {
			return fmt.Errorf("seal the template: %w", err)
		}
		if _, err := tx.Exec(ctx, "alter database "+quoted+" rename to "+quotedName); err != nil {
			return fmt.Errorf("name the template: %w", err)
		}
		return nil
	})
}

func (c *cluster) migrate(ctx context.Context, name string) error {
	pool, err := postgres.Open(ctx, postgres.Config{URL: c.databaseURL(name), MaxConns: 2, ApplicationName: "postgrestest"})
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	switch os.Getenv(envSchema) {
	case schemaOldest:
		return toOldest(ctx, pool)
	case schemaNewer:
		return toNewer(ctx, pool)
	}
	return nil
}

// lockTemplate takes an advisory lock by asking again and again, as migrations
// do and for the same reason.
func lockTemplate(ctx context.Context, conn *pgxpool.Conn, name string) (unlock func(), err error) {
	ticker := time.NewTicker(templateLockPoll)
	defer ticker.Stop()
	for {
		var locked bool
		if err := conn.QueryRow(ctx, "select pg_try_advisory_lock(hashtextextended($1, 0))", name).Scan(&locked); err != nil {
			return nil, fmt.Errorf("lock the template: %w", err)
		}
		if locked {
			return func() {
				_, _ = conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock(hashtextextended($1, 0))", name)
			}, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process that makes the template: %w", ctx.Err())
		case <-ticker.C:
		}
	}
}

// migrationsHash is a name for the schema that the migrations make: 16 hex
// digits over every file's name and content.
func migrationsHash() (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(migrations.FS, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(migrations.FS, path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(hash, "%d:%s%d:%s", len(path), path, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash the migrations: %w", err)
	}
	river, err := postgres.RiverVersion()
	if err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(hash, "river:%d", river) // a hash never returns an error (package hash)
	return hex.EncodeToString(hash.Sum(nil)[:8]), nil
}
