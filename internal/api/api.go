package api

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/internal/api/reference"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/internal/tenants"
)

// Authenticator tells who presents a token. Its errors are *problem.Error:
// unauthenticated for a token that is nobody's, unavailable where it cannot tell.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (auth.Caller, error)
}

// Snapshots gives everything of a tenant under which its calls are decided.
// Its error is *problem.Error, unavailable: never a default.
type Snapshots interface {
	Snapshot(ctx context.Context, tenant auth.TenantID, namespace auth.NamespaceID) (*tenants.Snapshot, error)
}

// Keys is what the calls of the wire contract, sections 3 to 5, are made of:
// *keys.Service. Every error of it is a *problem.Error.
type Keys interface {
	Begin(ctx context.Context, caller auth.Caller, req keys.BeginRequest) (keys.Outcome, error)
	BeginOrWait(ctx context.Context, caller auth.Caller, req keys.BeginRequest, wait time.Duration) (outcome keys.Outcome, applied bool, err error)
	BeginBatch(ctx context.Context, caller auth.Caller, entries []keys.BatchEntry, emit func(i int, outcome keys.Outcome, err error) error) error
	Complete(ctx context.Context, caller auth.Caller, req keys.CompleteRequest) (keys.Completion, error)
	CompleteBatch(ctx context.Context, caller auth.Caller, entries []keys.CompleteEntry) []keys.CompleteResult
	Renew(ctx context.Context, caller auth.Caller, id, token string, leaseSeconds *int64) (keys.Lease, error)
	Release(ctx context.Context, caller auth.Caller, id, token string) error
	DeclareUnknown(ctx context.Context, caller auth.Caller, id, token string) error
	SetRecoveryPoint(ctx context.Context, caller auth.Caller, id, token string, name *string, data jsontext.Value) error
	Inspect(ctx context.Context, caller auth.Caller, id string, include keys.Include) (keys.Record, error)
	Drain()
}

// Config is what an API is made of. The fields without a word on their zero
// value are required.
type Config struct {
	// BaseURL is the service's own public address, such as
	// https://api.example.com; the "type" of every problem begins with it.
	// Serve takes the address it listens on where this is empty.
	BaseURL string
	Auth    Authenticator
	Tenants Snapshots
	Keys    Keys
	Admin   Administration
	// SignInsPerSecond is how many failed sign-ins of one address are answered
	// 401, the others 429; zero means DefaultSignInsPerSecond.
	SignInsPerSecond float64
	// Sessions are the dashboard's; nil: nobody signs in there.
	Sessions Sessions
	// Analytics and Pruning answer their rows of section 6.
	Analytics Analytics
	Pruning   Pruning
	Metrics   http.Handler // on the operator's listener only
	// Jobs shows the worker's jobs to the operator, below /ops/river; nil shows
	// none. It asks nobody who they are.
	Jobs http.Handler
	// Proxies before this process are believed about who asks.
	Proxies Proxies
	// Clock is the database's; nil: nobody watches it.
	Clock Clock
	// Checks decide /readyz together with whether the process is draining.
	Checks []Check
	Logger *slog.Logger // nil: discarded
	// Requests counts what is answered, and Tracer makes a span of each request;
	// nil: nothing is counted, and there are no spans.
	Requests *telemetry.Metrics
	Tracer   trace.Tracer
}

// API answers the public and the operator's listener of one process.
type API struct {
	baseURL  string
	auth     Authenticator
	tenants  Snapshots
	keys     Keys
	admin    Administration
	signIns  *signIns
	refusals *refusals

	sessions  Sessions
	analytics Analytics
	pruning   Pruning
	metrics   http.Handler
	jobs      http.Handler
	clock     Clock
	proxies   Proxies
	bodies    *bodyRoom

	pages  *reference.Reference
	ready  *readiness
	logger *slog.Logger

	requests  *telemetry.Metrics      // nil: nothing is counted
	unmatched *telemetry.RouteMetrics // of requests without a route; nil as above
	tracer    trace.Tracer            // nil: no spans

	nowFunc func() time.Time // measures latency only
}

// New makes an API. It fails only where its own reference pages cannot be made.
func New(c Config) (*API, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Admin.Operators == nil {
		c.Admin.Operators = auth.NewOperators() // nobody
	}
	baseURL := strings.TrimSuffix(c.BaseURL, "/")
	pages, err := reference.New(baseURL)
	if err != nil {
		return nil, err
	}
	a := &API{
		baseURL: baseURL, auth: c.Auth, tenants: c.Tenants, keys: c.Keys, admin: c.Admin, signIns: newSignIns(c.SignInsPerSecond), refusals: newRefusals(time.Now), sessions: c.Sessions, metrics: c.Metrics,
		analytics: c.Analytics, pruning: c.Pruning, jobs: c.Jobs, clock: c.Clock, proxies: c.Proxies, bodies: newBodyRoom(),
		pages: pages, ready: newReadiness(c.Checks), logger: c.Logger,
		requests: c.Requests, tracer: c.Tracer, nowFunc: time.Now,
	}
	if c.Requests != nil {
		a.unmatched = c.Requests.Route(unmatched)
	}
	return a, nil
}

// Public is the handler of the public listener.
func (a *API) Public() http.Handler { return newRouter(a, Public) }

// Operator is the handler of the operator's listener, which no customer reaches.
func (a *API) Operator() http.Handler { return newRouter(a, Operator) }

// Drain takes the process out of rotation: /readyz says no from now on, and
// parked waits answer at once. Requests go on being served.
func (a *API) Drain() {
	a.ready.drain()
	a.keys.Drain()
}
