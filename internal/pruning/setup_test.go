package pruning

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/tenants"
)

// house is a database with tenants and the real keys service.
type house struct {
	t       *testing.T
	pool    *pgxpool.Pool
	tenants *tenants.Service
	keys    *keys.Service
	pruner  *Pruner // does not pause
}

func setup(t *testing.T) *house {
	t.Helper()
	pool := postgrestest.New(t)
	tenantService, err := tenants.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	return &house{
		t: t, pool: pool, tenants: tenantService,
		keys:   keys.New(keys.Config{Pool: pool, Tenants: tenantService}),
		pruner: New(Config{Pool: pool, Pause: -1}),
	}
}

// newTenant makes a tenant whose service credential it returns.
func (h *house) newTenant() auth.Caller {
	h.t.Helper()
	tenant, err := h.tenants.Create(h.t.Context(), tenants.CreateParams{Name: "acme", MinRetention: time.Minute})
	if err != nil {
		h.t.Fatal(err)
	}
	namespace, err := h.tenants.CreateNamespace(h.t.Context(), tenant.ID, tenants.NamespaceParams{Name: "live"})
	if err != nil {
		h.t.Fatal(err)
	}
	return auth.Caller{Tenant: tenant.ID, Namespace: namespace.ID, Credential: "abcdefghijklmnop", Role: auth.RoleService}
}

func charge(key string) keys.BeginRequest {
	return keys.BeginRequest{
		Key: &key, Operation: new("POST /v1/charges"), Owner: new(rand.Text()),
		Request: &keys.RequestPayload{Body: []byte(`{"amount":4999}`)},
	}
}

func (h *house) begin(caller auth.Caller, req keys.BeginRequest) keys.Acquired {
	h.t.Helper()
	outcome, err := h.keys.Begin(h.t.Context(), caller, req)
	if err != nil {
		h.t.Fatal(err)
	}
	acquired, ok := outcome.(keys.Acquired)
	if !ok {
		h.t.Fatalf("begin: %T, want a lease", outcome)
	}
	return acquired
}

func (h *house) complete(caller auth.Caller, a keys.Acquired) {
	h.t.Helper()
	_, err := h.keys.Complete(h.t.Context(), caller, keys.CompleteRequest{ID: a.ID.String(), Token: string(a.Lease.Token), Response: keys.Response{Status: 201, Body: []byte("{}")}})
	if err != nil {
		h.t.Fatal(err)
	}
}

// completed makes a completed record of the key that expires d from now.
func (h *house) completed(caller auth.Caller, key string, d time.Duration) keys.ID {
	h.t.Helper()
	a := h.begin(caller, charge(key))
	h.complete(caller, a)
	h.expire(caller, a.ID, d)
	return a.ID
}

// expire sets when a record expires: the clock of the database cannot be set.
func (h *house) expire(caller auth.Caller, id keys.ID, d time.Duration) {
	h.t.Helper()
	h.exec("update idempotency_keys set expires_at = now() + $3::interval, lease_expires_at = least(lease_expires_at, now() + $3::interval) where tenant_id = $1 and id = $2", caller.Tenant, id, d)
}

// fill makes n completed records that expired, each a millisecond after the
// other, the last one age ago. The rest of them is as a begin leaves it.
func (h *house) fill(caller auth.Caller, n int, age time.Duration) {
	h.t.Helper()
	fill(h.t, h.pool, caller, n, age, 0)
}

const sqlFill = `
insert into idempotency_keys
    (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at, lease_expires_at, expires_at, completed_at,
     attempt, lease_seconds, retention_seconds, body_bytes, state, status, hold, token_used, bound,
     fingerprint, owner_digest, credential_id, caller, operation, key, headers, body)
select $1, gen_random_uuid(), $2, 1, 1, now() - interval '1 day', now() - interval '1 day', now() - interval '1 day',
    now() - $4::interval - (g * interval '1 millisecond'), now() - interval '1 day',
    1, 60, 86400, $5, 3, 201, false, true, true,
    decode(md5(random()::text) || md5(random()::text), 'hex'), decode(md5(random()::text), 'hex'), 'abcdefghijklmnop', 'cus_1', 'POST /v1/charges', 'key-' || gen_random_uuid(), ''::bytea,
    convert_to(coalesce((select left(string_agg(md5(i::text || random() || g), ''), $5) from generate_series(1, 1 + $5 / 32) i where $5 > 0), ''), 'UTF8')
from generate_series(1, $3::integer) g`

func fill(tb testing.TB, pool *pgxpool.Pool, caller auth.Caller, n int, age time.Duration, bodyBytes int) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), sqlFill, caller.Tenant, caller.Namespace, n, age, bodyBytes); err != nil {
		tb.Fatal(err)
	}
}

func (h *house) run(req Request) Report {
	h.t.Helper()
	report, err := h.pruner.Run(h.t.Context(), req)
	if err != nil {
		h.t.Fatalf("prune: %v", err)
	}
	return report
}

func (h *house) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.pool.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

func (h *house) number(sql string, args ...any) (n int64) {
	h.t.Helper()
	if err := h.pool.QueryRow(h.t.Context(), sql, args...).Scan(&n); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (h *house) records(caller auth.Caller) int64 {
	h.t.Helper()
	return h.number("select count(*) from idempotency_keys where tenant_id = $1", caller.Tenant)
}

func (h *house) same(what string, got, want any) {
	h.t.Helper()
	if diff := cmp.Diff(got, want); diff != "" {
		h.t.Errorf("%s (-got +want):\n%s", what, diff)
	}
}

func background(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}
