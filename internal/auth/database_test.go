package auth

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// bench is one database, one authenticator on it with a clock that only the
// test moves, and the administration of another process.
type bench struct {
	*Authenticator
	admin   *Credentials
	pool    *pgxpool.Pool // of the test itself
	lookups *lookupCounter
	elapsed atomic.Int64 // nanoseconds that the test has let pass
}

// lookupCounter counts the questions that the authenticator asks.
type lookupCounter struct{ count atomic.Int64 }

func (l *lookupCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "from credentials") {
		l.count.Add(1)
	}
	return ctx
}

func (l *lookupCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func newBench(t *testing.T) *bench {
	t.Helper()
	url := postgrestest.NewURL(t)
	b := &bench{lookups: &lookupCounter{}}
	b.pool = openPool(t, postgres.Config{URL: url, MaxConns: 4})
	traced := openPool(t, postgres.Config{URL: url, MaxConns: 4, Tracer: b.lookups})
	start := time.Now()
	var err error
	b.Authenticator, err = newAuthenticator(&store{db: traced}, func() time.Time { return start.Add(time.Duration(b.elapsed.Load())) })
	if err != nil {
		t.Fatal(err)
	}
	b.admin = NewCredentials(b.pool, nil)
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

// pass lets time go by on the process clock; the database's goes its own way.
func (b *bench) pass(d time.Duration) { b.elapsed.Add(int64(d)) }

func (b *bench) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) newTenant(t *testing.T) TenantID {
	t.Helper()
	id := uuid.New()
	b.exec(t, "insert into tenants (tenant_id, name, secret) values ($1, 'a tenant', decode(repeat('5a', 32), 'hex'))", id)
	return TenantID(id)
}

func (b *bench) newNamespace(t *testing.T, tenant TenantID, name string) NamespaceID {
	t.Helper()
	id := uuid.New()
	b.exec(t, "insert into namespaces (tenant_id, namespace_id, name) values ($1, $2, $3)", uuid.UUID(tenant), id, name)
	return NamespaceID(id)
}

func (b *bench) issue(t *testing.T, tenant TenantID, params IssueParams) (Credential, Key) {
	t.Helper()
	credential, key, err := b.admin.Issue(t.Context(), tenant, params)
	if err != nil {
		t.Fatalf("issue %q: %v", params.Name, err)
	}
	return credential, key
}

// service makes a tenant with one namespace and a service credential in it.
func (b *bench) service(t *testing.T) (Credential, Key) {
	t.Helper()
	tenant := b.newTenant(t)
	return b.issue(t, tenant, IssueParams{Name: "backend", Role: RoleService, Namespace: b.newNamespace(t, tenant, "live")})
}

func (b *bench) mustAuthenticate(t *testing.T, key Key) Caller {
	t.Helper()
	caller, err := b.Authenticate(t.Context(), key.Reveal())
	if err != nil {
		t.Fatalf("authenticate %v: %v", key, err)
	}
	return caller
}
