//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sys/unix"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/devpg"
	"github.com/onceward/onceward/internal/pruning"
	"github.com/onceward/onceward/internal/tenants"
)

// database is one database of the bench's server, with a tenant for the API
// and another for pgbench's own rows.
type database struct {
	url        string
	postmaster int
	tenant     auth.TenantID
	namespace  auth.NamespaceID
	plain      auth.TenantID // whose rows pgbench writes
	key        string        // of a service credential of tenant
	otherKey   string        // of one of another tenant that has nothing to do with it
	session    *session
}

// serverSettings are those of a machine that is PostgreSQL's own, as deploy/ has
// them: checkpoints are rare, and WAL segments are used again instead of made.
func serverSettings(walGB int) map[string]string {
	return map[string]string{
		"shared_buffers":     strconv.Itoa(sharedBuffersMB()) + "MB",
		"wal_buffers":        "64MB",
		"max_wal_size":       strconv.Itoa(walGB*2) + "GB",
		"min_wal_size":       strconv.Itoa(walGB) + "GB",
		"checkpoint_timeout": "15min",
		"jit":                "off",
		"fsync":              "on",
		"synchronous_commit": "on",
		"full_page_writes":   "on",
		"max_connections":    "400",
	}
}

// sharedBuffersMB is 4 GB, or a quarter of the memory where that is less.
func sharedBuffersMB() int {
	const most = 4096
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return most / 4
	}
	return int(min(most, info.Totalram*uint64(info.Unit)>>22))
}

func (b *bench) startPostgres(ctx context.Context) error {
	server, err := devpg.Start(ctx, devpg.Options{
		Settings: serverSettings(b.opts.walGB),
		Progress: func(line string) { b.say("%s", line) },
	})
	if err != nil {
		return err
	}
	b.postgres = server
	var fs syscall.Statfs_t
	if err := syscall.Statfs(server.DataDir, &fs); err == nil && fs.Type == unix.TMPFS_MAGIC {
		return fmt.Errorf("the database lies in %s, which is memory and not a disk: set TMPDIR to a folder on a disk", server.DataDir)
	}
	return nil
}

// open makes a database, its schema and its tenants.
func (b *bench) open(ctx context.Context, name string) (*database, error) {
	if err := b.postgres.CreateDatabase(ctx, name); err != nil {
		return nil, err
	}
	db := &database{url: b.postgres.URL(name), postmaster: b.postgres.PID}
	if err := b.migrate(ctx, db); err != nil {
		return nil, err
	}
	if err := db.setUp(ctx); err != nil {
		return nil, fmt.Errorf("set up the database %s: %w", name, err)
	}
	session, err := newSession(ctx, db.url)
	if err != nil {
		return nil, err
	}
	db.session = session
	for _, sql := range b.opts.schema {
		if err := session.exec(ctx, sql); err != nil {
			return nil, fmt.Errorf("-schema %q: %w", sql, err)
		}
	}
	return db, nil
}

func (db *database) setUp(ctx context.Context) error {
	pool, err := postgres.Open(ctx, postgres.Config{URL: db.url, ApplicationName: "onceward-bench"})
	if err != nil {
		return err
	}
	defer pool.Close()
	service, err := tenants.New(pool)
	if err != nil {
		return err
	}
	tenant, err := service.Create(ctx, tenants.CreateParams{Name: "bench"})
	if err != nil {
		return err
	}
	plain, err := service.Create(ctx, tenants.CreateParams{Name: "pgbench"})
	if err != nil {
		return err
	}
	other, err := service.Create(ctx, tenants.CreateParams{Name: "other"})
	if err != nil {
		return err
	}
	db.tenant, db.plain = tenant.ID, plain.ID
	if db.namespace, db.key, err = caller(ctx, pool, service, tenant.ID); err != nil {
		return err
	}
	_, db.otherKey, err = caller(ctx, pool, service, other.ID)
	return err
}

// caller makes a namespace of the tenant and a service credential in it.
func caller(ctx context.Context, pool *pgxpool.Pool, service *tenants.Service, tenant auth.TenantID) (auth.NamespaceID, string, error) {
	namespace, err := service.CreateNamespace(ctx, tenant, tenants.NamespaceParams{Name: "live"})
	if err != nil {
		return auth.NamespaceID{}, "", err
	}
	_, key, err := auth.NewCredentials(pool, nil).Issue(ctx, tenant, auth.IssueParams{Name: "bench", Role: auth.RoleService, Namespace: namespace.ID})
	if err != nil {
		return auth.NamespaceID{}, "", err
	}
	return namespace.ID, key.Reveal(), nil
}

// prune runs a paced pruning, as the hourly job does, until ctx ends.
func (db *database) prune(ctx context.Context) (pruned int64, err error) {
	pool, err := postgres.Open(ctx, postgres.Config{URL: db.url, ApplicationName: "onceward-bench-pruning"})
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	report, err := pruning.New(pruning.Config{Pool: pool}).Run(ctx, pruning.Request{Delay: pruning.HourlyDelay})
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return report.Pruned, err
}

// maker makes requests of the database's service credential.
func (db *database) maker() maker { return maker{key: db.key, body: responseBody()} }
