// Package apitest starts the real service for a test: its own database, the
// real tenants, credentials and keys, and any number of API processes' worth
// of it on loopback ports, spoken to over HTTP.
//
// It owns the fixture and the client of end-to-end tests. It must not stand in
// for any part of the service, and knows no more of it than its constructors,
// but for Advance, which moves a record into the past. Only tests import it.
package apitest

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/tenants"
)

// stopTimeout is how long an instance is given to end before the test fails.
const stopTimeout = 20 * time.Second

// Option changes what New makes.
type Option func(*options)

type options struct {
	tenant   tenants.CreateParams
	logger   *slog.Logger
	observer keys.Observer
	keys     func(api.Keys) api.Keys
	checks   []api.Check
	baseURL  string
	signIns  float64

	cacheBytes int64
	pruning    func(*pgxpool.Pool) api.Pruning
	jobs       http.Handler
}

// Jobs is what the operator's listener shows below /ops/river.
func Jobs(h http.Handler) Option { return func(o *options) { o.jobs = h } }

// Pruning makes what prunes on demand; the default prunes and can leave nothing
// to a job.
func Pruning(pruner func(*pgxpool.Pool) api.Pruning) Option {
	return func(o *options) { o.pruning = pruner }
}

// BodyLimit gives the tenants a body limit of that many bytes instead of 1 MiB.
func BodyLimit(limit int) Option { return func(o *options) { o.tenant.BodyLimit = limit } }

// Retention gives the tenants other limits than an hour and 30 days.
func Retention(least, most time.Duration) Option {
	return func(o *options) { o.tenant.MinRetention, o.tenant.MaxRetention = least, most }
}

// Logger receives what the instances log; the default discards it.
func Logger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// Observer is told every outcome of every instance.
func Observer(observer keys.Observer) Option { return func(o *options) { o.observer = observer } }

// WrapKeys puts something between the HTTP edge and the real service, to make
// it fail before or after it has done its work.
func WrapKeys(wrap func(api.Keys) api.Keys) Option { return func(o *options) { o.keys = wrap } }

// ReplayCache gives each instance a replay cache, which the default has not:
// Advance moves a record's times behind the back of whoever has it in memory.
func ReplayCache(bytes int64) Option { return func(o *options) { o.cacheBytes = bytes } }

// SignInsPerSecond limits the failed sign-ins of an address; without it a test
// may fail as often as it likes.
func SignInsPerSecond(n float64) Option { return func(o *options) { o.signIns = n } }

// Checks are what /readyz depends on.
func Checks(checks ...api.Check) Option { return func(o *options) { o.checks = checks } }

// BaseURL is the configured public address of the service.
func BaseURL(url string) Option { return func(o *options) { o.baseURL = url } }

// World is one database with a tenant, and the instances that serve it. The
// first instance is embedded.
type World struct {
	*Instance
	Pool   *pgxpool.Pool
	Tenant *Tenant

	options options

	mu        sync.Mutex // guards what follows
	instances []*Instance
	exchanges []Exchange
}

// New makes a world with one tenant and one instance. Everything ends with the
// test; an instance that does not end cleanly fails it.
func New(tb testing.TB, opts ...Option) *World {
	tb.Helper()
	return On(tb, postgrestest.New(tb), opts...)
}

// On is New on a database that the caller has made and migrated.
func On(tb testing.TB, pool *pgxpool.Pool, opts ...Option) *World {
	tb.Helper()
	w := &World{Pool: pool, options: options{logger: slog.New(slog.DiscardHandler), cacheBytes: -1, pruning: prunes, signIns: 1e9}}
	for _, opt := range opts {
		opt(&w.options)
	}
	w.Instance = w.Start(tb)
	w.Tenant = w.NewTenant(tb)
	return w
}

// Instance is what one API process is: its own caches, waits and listeners.
type Instance struct {
	URL         string // of the public listener, without a slash at its end
	OperatorURL string
	// Tenants is the instance's own service: what it changes is in force here
	// at once. Auth and Keys are the instance's too.
	Tenants *tenants.Service
	Auth    *auth.Authenticator
	Keys    api.Keys
	// Limits are in step with the other instances only where the test refreshes
	// them.
	Limits *limits.Limiter

	world   *World
	records *keys.Service
	stop    context.CancelFunc
	ended   chan error
	once    sync.Once
	err     error
}

// Start starts one more instance on the world's database.
func (w *World) Start(tb testing.TB) *Instance {
	tb.Helper()
	i := &Instance{world: w, ended: make(chan error, 1)}
	var err error
	if i.Tenants, err = tenants.New(w.Pool); err != nil {
		tb.Fatalf("make the tenants service: %v", err)
	}
	if i.Auth, err = auth.NewAuthenticator(w.Pool); err != nil {
		tb.Fatalf("make the authenticator: %v", err)
	}
	i.Limits = limits.New(w.Pool)
	service := keys.New(keys.Config{Pool: w.Pool, Tenants: i.Tenants, Admission: i.Limits, Observer: w.options.observer, Logger: w.options.logger, CacheBytes: w.options.cacheBytes})
	tb.Cleanup(service.Close) // after Stop, which is registered below and so runs first
	i.Keys, i.records = service, service
	if w.options.keys != nil {
		i.Keys = w.options.keys(i.Keys)
	}

	sessions, err := auth.NewSessions(w.Pool)
	if err != nil {
		tb.Fatalf("make the sessions: %v", err)
	}
	admin := i.administration(tb, w)
	ctx, stop := context.WithCancel(context.Background())
	i.stop = stop
	started := make(chan api.Addresses, 1)
	go func() {
		i.ended <- api.Serve(ctx,
			api.Config{
				BaseURL: w.options.baseURL, Auth: i.Auth, Tenants: i.Tenants, Keys: i.Keys, Checks: w.options.checks, Logger: w.options.logger,
				Metrics: http.NotFoundHandler(), Admin: admin, SignInsPerSecond: w.options.signIns,
				Sessions: sessions, Analytics: analytics.NewService(w.Pool), Pruning: w.options.pruning(w.Pool), Jobs: w.options.jobs,
			},
			api.ServeConfig{PublicAddr: "127.0.0.1:0", OperatorAddr: "127.0.0.1:0", Started: func(a api.Addresses) { started <- a }},
		)
	}()
	select {
	case a := <-started:
		i.URL, i.OperatorURL = "http://"+a.Public.String(), "http://"+a.Operator.String()
	case err := <-i.ended:
		stop()
		tb.Fatalf("start the service: %v", err)
	}
	tb.Cleanup(func() {
		if err := i.Stop(); err != nil {
			tb.Errorf("stop the service: %v", err)
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.instances = append(w.instances, i)
	return i
}

// Stop ends the instance as a signal would, and returns what Serve returned.
// A second Stop returns the same.
func (i *Instance) Stop() error {
	i.once.Do(func() {
		i.stop()
		select {
		case i.err = <-i.ended:
		case <-time.After(stopTimeout):
			i.err = context.DeadlineExceeded
		}
	})
	return i.err
}

// Tenant is a customer with two namespaces, one per key_scope, and a
// credential of every role.
type Tenant struct {
	ID   auth.TenantID
	Live auth.NamespaceID // key_scope: operation
	Flat auth.NamespaceID // key_scope: namespace
	// API keys, as a caller would hold them.
	Service     string // in Live
	FlatService string // in Flat
	Ops         string
	Resolver    string
	Admin       string
}

// NewTenant makes one more tenant, with the options of the world.
func (w *World) NewTenant(tb testing.TB) *Tenant {
	tb.Helper()
	ctx := tb.Context()
	params := w.options.tenant
	params.Name = "tenant of " + tb.Name()
	params.Name = params.Name[:min(len(params.Name), 100)]
	made, err := w.Tenants.Create(ctx, params)
	if err != nil {
		tb.Fatalf("make a tenant: %v", err)
	}
	t := &Tenant{ID: made.ID}
	t.Live = w.NewNamespace(tb, t, "live", tenants.KeyScopeOperation)
	t.Flat = w.NewNamespace(tb, t, "flat", tenants.KeyScopeNamespace)
	t.Service = w.Issue(tb, t, auth.IssueParams{Name: "service", Role: auth.RoleService, Namespace: t.Live})
	t.FlatService = w.Issue(tb, t, auth.IssueParams{Name: "flat service", Role: auth.RoleService, Namespace: t.Flat})
	t.Ops = w.Issue(tb, t, auth.IssueParams{Name: "ops", Role: auth.RoleOps})
	t.Resolver = w.Issue(tb, t, auth.IssueParams{Name: "resolver", Role: auth.RoleResolver})
	t.Admin = w.Issue(tb, t, auth.IssueParams{Name: "admin", Role: auth.RoleAdmin})
	return t
}

// NewNamespace makes one more namespace of the tenant.
func (w *World) NewNamespace(tb testing.TB, t *Tenant, name string, scope tenants.KeyScope) auth.NamespaceID {
	tb.Helper()
	namespace, err := w.Tenants.CreateNamespace(tb.Context(), t.ID, tenants.NamespaceParams{Name: name, KeyScope: scope})
	if err != nil {
		tb.Fatalf("make the namespace %s: %v", name, err)
	}
	return namespace.ID
}

// Issue makes one more credential of the tenant and returns its API key.
func (w *World) Issue(tb testing.TB, t *Tenant, params auth.IssueParams) string {
	tb.Helper()
	_, key, err := auth.NewCredentials(w.Pool, nil).Issue(tb.Context(), t.ID, params)
	if err != nil {
		tb.Fatalf("issue the credential %s: %v", params.Name, err)
	}
	return key.Reveal()
}

// SetPolicy puts one policy row of the first tenant in force on every instance
// at once, where the service itself promises 5 s.
func (w *World) SetPolicy(tb testing.TB, row tenants.Override) {
	tb.Helper()
	w.SetPolicyOf(tb, w.Tenant, row)
}

// SetPolicyOf is SetPolicy for another tenant.
func (w *World) SetPolicyOf(tb testing.TB, t *Tenant, row tenants.Override) {
	tb.Helper()
	w.mu.Lock()
	instances := slices.Clone(w.instances)
	w.mu.Unlock()
	for _, i := range instances { // each drops its own copy of what it changed
		if _, err := i.Tenants.SetPolicy(tb.Context(), t.ID, row); err != nil {
			tb.Fatalf("set a policy: %v", err)
		}
	}
}

// Exchanges are the requests that the clients of this world have made so far,
// with their answers.
func (w *World) Exchanges() []Exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.exchanges)
}

func (w *World) record(e Exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exchanges = append(w.exchanges, e)
}
