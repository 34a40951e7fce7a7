package keys

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// endWatcher is an Observer that wants to know of ends.
type endWatcher struct {
	watcher
	mu   sync.Mutex // guards ends
	ends []EndObservation
}

func (w *endWatcher) ObserveEnd(_ auth.Caller, o EndObservation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends = append(w.ends, o)
}

// Each end is told once, and a call that changes nothing tells of none.
func TestTheObserverIsToldHowAttemptsEnd(t *testing.T) {
	t.Parallel()
	h := setup(t)
	seen := &endWatcher{}
	h.service = New(Config{Pool: h.pool, Tenants: h.tenants, Observer: seen})
	t.Cleanup(h.service.Close)
	h.policy("POST /v1/lenient", func(o *tenants.Override) { o.StoreErrors = new(tenants.StoreErrorsClient) })
	ctx := t.Context()
	begin := func(operation string) (Acquired, EndObservation) {
		req := charge()
		req.Operation, req.Caller = &operation, new("cus_1")
		a := h.acquire(h.caller, req)
		return a, EndObservation{ID: a.ID, Namespace: h.caller.Namespace, Operation: operation, Caller: "cus_1", Key: *req.Key}
	}
	var want []EndObservation
	add := func(o EndObservation, how End) {
		o.How = how
		want = append(want, o)
	}

	released, o := begin("POST /v1/charges")
	for range 2 {
		if err := h.service.Release(ctx, h.caller, released.ID.String(), string(released.Lease.Token)); err != nil {
			t.Fatal(err)
		}
	}
	add(o, EndReleased)

	failed, o := begin("POST /v1/lenient")
	for range 2 {
		h.complete(h.caller, failed, Response{Status: 503})
	}
	add(o, EndReleased)

	unknown, o := begin("POST /v1/charges")
	if err := h.service.DeclareUnknown(ctx, h.caller, unknown.ID.String(), string(unknown.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	add(o, EndDeclaredUnknown)
	admin := auth.Caller{Tenant: h.caller.Tenant, Role: auth.RoleAdmin, Credential: "abcdefghijklmnop"}
	for range 2 {
		req := ResolveRequest{ID: unknown.ID.String(), Fence: &unknown.Lease.Fence, Reason: "looked it up", Action: ActionRetry}
		if _, err := h.service.Resolve(ctx, admin, req); err != nil {
			t.Fatal(err)
		}
	}
	add(o, EndResolved)

	done, _ := begin("POST /v1/charges")
	h.complete(h.caller, done, created)
	if err := h.service.Release(ctx, h.caller, done.ID.String(), string(done.Lease.Token)); err == nil {
		t.Error("a completed record was released")
	}
	if diff := cmp.Diff(seen.ends, want); diff != "" {
		t.Errorf("ends (-got +want):\n%s", diff)
	}
}
