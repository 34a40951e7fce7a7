package tenants

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// bench is one database with two processes on it: the Service under test,
// whose clock only the test moves, and another.
type bench struct {
	*Service
	other   *Service
	pool    *pgxpool.Pool
	reads   *readCounter
	elapsed atomic.Int64 // nanoseconds that the test has let pass
}

// readCounter counts how often the Service under test reads a snapshot.
type readCounter struct{ count atomic.Int64 }

func (r *readCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "json_agg") {
		r.count.Add(1)
	}
	return ctx
}

func (r *readCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func newBench(t *testing.T) *bench {
	t.Helper()
	url := postgrestest.NewURL(t)
	b := &bench{reads: &readCounter{}}
	b.pool = openPool(t, postgres.Config{URL: url, MaxConns: 4})
	traced := openPool(t, postgres.Config{URL: url, MaxConns: 4, Tracer: b.reads})
	start := time.Now()
	var err error
	b.Service, err = newService(&store{db: traced}, func() time.Time { return start.Add(time.Duration(b.elapsed.Load())) })
	if err != nil {
		t.Fatal(err)
	}
	if b.other, err = New(b.pool); err != nil {
		t.Fatal(err)
	}
	return b
}

func openPool(t *testing.T, cfg postgres.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (b *bench) pass(d time.Duration) { b.elapsed.Add(int64(d)) }

func (b *bench) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// The helpers that change something do so as the other process does.

func (b *bench) newTenant(t *testing.T, params CreateParams) Tenant {
	t.Helper()
	if params.Name == "" {
		params.Name = "a tenant"
	}
	tenant, err := b.other.Create(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	return tenant
}

func (b *bench) newNamespace(t *testing.T, tenant auth.TenantID, params NamespaceParams) Namespace {
	t.Helper()
	namespace, err := b.other.CreateNamespace(t.Context(), tenant, params)
	if err != nil {
		t.Fatal(err)
	}
	return namespace
}

func (b *bench) setPolicy(t *testing.T, tenant auth.TenantID, row Override) int64 {
	t.Helper()
	version, err := b.other.SetPolicy(t.Context(), tenant, row)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

func (b *bench) mustSnapshot(t *testing.T, tenant auth.TenantID) *Snapshot {
	t.Helper()
	snapshot, err := b.Snapshot(t.Context(), tenant, auth.NamespaceID{})
	if err != nil {
		t.Fatal(err)
	}
	return snapshot
}

func ptr[T any](v T) *T { return &v }
