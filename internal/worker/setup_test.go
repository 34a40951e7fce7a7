package worker

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/pruning"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/internal/tenants"
)

// patience is how long a test waits for what should come within seconds.
const patience = 60 * time.Second

// house is a database on which workers can be started.
type house struct {
	t    *testing.T
	pool *pgxpool.Pool
}

func setup(t *testing.T) *house {
	t.Helper()
	return &house{t: t, pool: postgrestest.New(t)}
}

func (h *house) config() Config {
	return Config{
		Pool:       h.pool,
		Pruner:     pruning.New(pruning.Config{Pool: h.pool, Pause: -1}),
		Aggregator: analytics.NewAggregator(h.pool),
		Upkeep:     tenants.NewUpkeep(h.pool, keys.NewRetentions(h.pool)),
		Usage:      limits.NewUsage(h.pool),
		Search:     keys.NewSearchUpkeep(h.pool),
		Metrics:    telemetry.NewWorkerMetrics(),
	}
}

// running is a worker in this process.
type running struct {
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
	done  bool
}

func (h *house) start(c Config) *running {
	h.t.Helper()
	w, err := New(c)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(background(h.t))
	r := &running{t: h.t, stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- w.Run(ctx) }()
	h.t.Cleanup(r.end)
	return r
}

// end stops the worker as a signal would, and fails the test where it does not
// end well.
func (r *running) end() {
	r.t.Helper()
	if r.done {
		return
	}
	r.done = true
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil {
			r.t.Errorf("the worker ended with: %v", err)
		}
	case <-time.After(patience):
		r.t.Errorf("the worker did not end within %v", patience)
	}
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

// until polls until the statement says true.
func (h *house) until(sql string, args ...any) {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for ok := false; !ok; {
		if err := h.pool.QueryRow(h.t.Context(), sql, args...).Scan(&ok); err != nil {
			h.t.Fatalf("%s: %v", sql, err)
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("did not come true within %v: %s %v", patience, sql, args)
		}
	}
}

func (h *house) same(what string, got, want any) {
	h.t.Helper()
	if diff := cmp.Diff(got, want); diff != "" {
		h.t.Errorf("%s (-got +want):\n%s", what, diff)
	}
}

// newTenant makes a tenant by its row alone.
func (h *house) newTenant() auth.TenantID {
	h.t.Helper()
	id := auth.TenantID(uuid.New())
	h.exec("insert into tenants (tenant_id, name, secret) values ($1, 'acme', decode(repeat('ab', 32), 'hex'))", id)
	return id
}

// fill makes n completed records of the tenant that expired age ago.
func (h *house) fill(tenant auth.TenantID, n int, age time.Duration) {
	h.t.Helper()
	h.exec(`
insert into idempotency_keys
    (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at, lease_expires_at, expires_at, completed_at,
     attempt, lease_seconds, retention_seconds, state, status, hold, fingerprint, owner_digest, credential_id, caller, operation, key)
select $1, gen_random_uuid(), gen_random_uuid(), 1, 1, now(), now(), now(), now() - $3::interval, now(),
    1, 60, 3600, 3, 201, false, ''::bytea, ''::bytea, '', '', '', ''
from generate_series(1, $2::integer)`, tenant, n, age)
}

func background(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}
