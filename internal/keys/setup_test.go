package keys

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// house is a tenant on a database of its own, with a Service.
type house struct {
	t       *testing.T
	pool    *pgxpool.Pool
	tenants *tenants.Service
	service *Service
	seen    *watcher
	running []*Service  // all that process has made
	caller  auth.Caller // a service credential in a namespace of key_scope operation
	wide    auth.Caller // the same in a namespace of key_scope namespace
}

func setup(t *testing.T) *house {
	t.Helper()
	pool := postgrestest.New(t)
	tenantService, err := tenants.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, pool: pool, tenants: tenantService, seen: &watcher{}}
	h.service = h.process(pool)
	h.caller, h.wide = h.newTenant("acme")
	return h
}

// process is a Service as another API process has it, on the pool.
func (h *house) process(pool *pgxpool.Pool) *Service {
	s := New(Config{Pool: pool, Tenants: h.tenants, Observer: h.seen, PollInterval: 5 * time.Millisecond})
	h.t.Cleanup(s.Close)
	h.running = append(h.running, s)
	return s
}

// forgetReplays empties the caches: who moves a row's times behind the
// service's back has to.
func (h *house) forgetReplays() {
	for _, s := range h.running {
		s.replays.rows.InvalidateAll()
	}
}

// newTenant makes a tenant with one namespace of each key scope.
func (h *house) newTenant(name string) (narrow, wide auth.Caller) {
	h.t.Helper()
	ctx := h.t.Context()
	tenant, err := h.tenants.Create(ctx, tenants.CreateParams{Name: name, MinRetention: time.Minute})
	if err != nil {
		h.t.Fatal(err)
	}
	caller := func(namespace string, scope tenants.KeyScope) auth.Caller {
		made, err := h.tenants.CreateNamespace(ctx, tenant.ID, tenants.NamespaceParams{Name: namespace, KeyScope: scope})
		if err != nil {
			h.t.Fatal(err)
		}
		return auth.Caller{Tenant: tenant.ID, Namespace: made.ID, Credential: "abcdefghijklmnop", Role: auth.RoleService}
	}
	return caller("narrow", tenants.KeyScopeOperation), caller("wide", tenants.KeyScopeNamespace)
}

// policy sets policy members for an operation (empty: the tenant's default).
func (h *house) policy(operation string, change func(*tenants.Override)) {
	h.t.Helper()
	row := tenants.Override{Operation: operation}
	change(&row)
	if _, err := h.tenants.SetPolicy(h.t.Context(), h.caller.Tenant, row); err != nil {
		h.t.Fatal(err)
	}
}

// pass makes time pass for every record: the clock of the database cannot be
// set, so what it is compared with moves back instead.
func (h *house) pass(d time.Duration) {
	h.t.Helper()
	const statement = `
update idempotency_keys set
    created_at = created_at - $1::interval, acquired_at = acquired_at - $1::interval,
    lease_expires_at = lease_expires_at - $1::interval, expires_at = expires_at - $1::interval, completed_at = completed_at - $1::interval`
	for _, s := range []string{
		statement,
		`update key_history set begun_at = begun_at - $1::interval, ended_at = ended_at - $1::interval`,
		`update key_late_completions set record_created_at = record_created_at - $1::interval`,
	} {
		if _, err := h.pool.Exec(h.t.Context(), s, d); err != nil {
			h.t.Fatal(err)
		}
	}
	h.forgetReplays()
}

func (h *house) begin(caller auth.Caller, req BeginRequest) Outcome {
	h.t.Helper()
	outcome, err := h.service.Begin(h.t.Context(), caller, req)
	if err != nil {
		h.t.Fatalf("begin: %v", err)
	}
	return outcome
}

// acquire begins and fails the test where the answer is not a lease.
func (h *house) acquire(caller auth.Caller, req BeginRequest) Acquired {
	h.t.Helper()
	return as[Acquired](h.t, h.begin(caller, req))
}

func (h *house) complete(caller auth.Caller, a Acquired, r Response) Completion {
	h.t.Helper()
	done, err := h.service.Complete(h.t.Context(), caller, CompleteRequest{ID: a.ID.String(), Token: string(a.Lease.Token), Response: r})
	if err != nil {
		h.t.Fatalf("complete: %v", err)
	}
	return done
}

func (h *house) inspect(a Acquired) Record {
	h.t.Helper()
	record, err := h.service.Inspect(h.t.Context(), auth.Caller{Tenant: h.caller.Tenant, Role: auth.RoleAdmin}, a.ID.String(), Include{Response: true, Late: true})
	if err != nil {
		h.t.Fatalf("inspect: %v", err)
	}
	return record
}

// as is the outcome as T, or the end of the test.
func as[T Outcome](t *testing.T, o Outcome) T {
	t.Helper()
	got, ok := o.(T)
	if !ok {
		var want T
		t.Fatalf("outcome is %T %+v, want %T", o, o, want)
	}
	return got
}

// wantKind fails the test unless err is a problem of the kind.
func wantKind(t *testing.T, err error, kind problem.Kind) *problem.Error {
	t.Helper()
	var p *problem.Error
	if !errors.As(err, &p) || p.Kind != kind {
		t.Fatalf("error is %v, want the kind %s", err, kind)
	}
	return p
}

// charge is a begin of a payment; every call makes a key of its own.
func charge() BeginRequest {
	return BeginRequest{
		Key:     new("key-" + rand.Text()),
		Owner:   new(rand.Text()),
		Request: payload(`{"amount":4999}`),
	}
}

func payload(body string) *RequestPayload {
	return &RequestPayload{
		Method: new("POST"), Path: new("/v1/charges"), ContentType: new("application/json"), Body: []byte(body),
	}
}

// anew is the same begin by another attempt: the same key, an owner of its own.
func anew(req BeginRequest) BeginRequest {
	req.Owner = new(rand.Text())
	return req
}

func with(req BeginRequest, change func(*BeginRequest)) BeginRequest {
	change(&req)
	return req
}

//nolint:gochecknoglobals // never changed; every test completes with it
var created = Response{
	Status:  201,
	Headers: []Header{{"Content-Type", "application/json"}, {"Location", "/v1/charges/ch_1"}},
	Body:    []byte(`{"id":"ch_1"}`),
}

// watcher is an Observer that remembers.
type watcher struct {
	mu      sync.Mutex
	begins  []BeginObservation
	late    []LateObservation
	corrupt int
}

func (w *watcher) ObserveBegin(_ auth.Caller, o BeginObservation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begins = append(w.begins, o)
}

func (w *watcher) ObserveLateCompletion(_ auth.Caller, o LateObservation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late = append(w.late, o)
}

func (w *watcher) ObserveCorrupt(auth.Caller, ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.corrupt++
}

func (w *watcher) lateCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.late)
}

// atOnce runs n functions that all start at the same moment.
func atOnce(n int, run func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			run(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func background(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

func describe(o Outcome) string { return fmt.Sprintf("%T", o) }

// cancelAfter gives every second worker a context that ends in the middle of
// its call, at a moment that differs from call to call.
func cancelAfter(ctx context.Context, worker, n int) (context.Context, context.CancelFunc) {
	if worker%2 == 1 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Duration(n*40)*time.Microsecond)
}

// eventually looks at a condition until it holds, for ten seconds at most.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(10 * time.Second); !holds(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
