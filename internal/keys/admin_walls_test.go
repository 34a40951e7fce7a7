package keys

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// TestAStrangersAdministrationSeesAndChangesNothing calls every exported method
// of the store of administration as another tenant. A new method fails it until
// it has its line here.
func TestAStrangersAdministrationSeesAndChangesNothing(t *testing.T) {
	t.Parallel()
	postgrestest.NeedsLevel(t, 41)
	h := setup(t)
	held := h.acquire(h.caller, charge())
	if err := h.service.DeclareUnknown(t.Context(), h.caller, held.ID.String(), string(held.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	done := h.acquire(h.caller, charge())
	h.complete(h.caller, done, created)
	if err := h.service.feed.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	stranger, _ := h.newTenant("stranger")
	rows := h.service.admin()
	entry := audit.Entry{Action: "test.test"}
	shortened := tenants.Plan{Default: time.Second}

	calls := map[string]func(){
		"Decidable": func() {
			if d, err := rows.Decidable(t.Context(), stranger.Tenant, held.ID); err != nil || d.exists {
				t.Errorf("%+v, %v", d, err)
			}
		},
		"Forget": func() {
			if forgotten, err := rows.Forget(t.Context(), stranger.Tenant, held.ID, held.Lease.Fence, true, entry); err != nil || forgotten {
				t.Errorf("%v, %v", forgotten, err)
			}
		},
		"Resolve": func() {
			c := &completion{held: heldBy(stranger, held)}
			if resolved, err := rows.Resolve(t.Context(), c, ActionRetry, entry); err != nil || resolved {
				t.Errorf("as another tenant: %v, %v", resolved, err)
			}
			c = &completion{held: heldBy(h.wide, held)}
			if resolved, err := rows.Resolve(t.Context(), c, ActionRetry, entry); err != nil || resolved {
				t.Errorf("in another namespace: %v, %v", resolved, err)
			}
		},
		"Search": func() {
			all, _, more, err := rows.Search(t.Context(), stranger.Tenant, SearchRequest{}, nil, 10)
			if err != nil || len(all) > 0 || more {
				t.Errorf("%+v, %v, %v", all, more, err)
			}
			all, _, _, err = rows.Search(t.Context(), h.caller.Tenant, SearchRequest{Namespace: &h.wide.Namespace}, nil, 10)
			if err != nil || len(all) > 0 {
				t.Errorf("in another namespace: %+v, %v", all, err)
			}
		},
		"PreviewRetention": func() {
			if a, err := rows.PreviewRetention(t.Context(), stranger.Tenant, shortened); err != nil || a != (tenants.Affected{}) {
				t.Errorf("%+v, %v", a, err)
			}
		},
		"ApplyRetention": func() {
			if step, err := rows.ApplyRetention(t.Context(), stranger.Tenant, shortened, true, uuid.UUID{}, 10); err != nil || step.Seen != 0 {
				t.Errorf("%+v, %v", step, err)
			}
		},
		"Compare": func() {
			if _, finished, err := rows.Compare(t.Context(), stranger.Tenant, ID{}, 10); err != nil || !finished {
				t.Errorf("%v, %v", finished, err)
			}
		},
		"CarryOver": func() {
			if err := rows.CarryOver(t.Context(), []ref{{tenant: stranger.Tenant, id: held.ID}}); err != nil {
				t.Error(err)
			}
		},
		// These tell of processes, or are the list of a job; they show no record.
		"NoteFeed": func() {
			if err := rows.NoteFeed(t.Context(), uuid.New(), time.Now()); err != nil {
				t.Error(err)
			}
		},
		"SearchLag": func() {
			if _, err := rows.SearchLag(t.Context(), stranger.Tenant); err != nil {
				t.Error(err)
			}
		},
		"IsCompared": func() {
			if _, err := rows.IsCompared(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"BeginPass": func() {
			if err := rows.BeginPass(t.Context(), uuid.New()); err != nil {
				t.Error(err)
			}
		},
		"EndPass": func() {
			if whole, err := rows.EndPass(t.Context(), uuid.New()); err != nil || whole {
				t.Errorf("a pass that never began ended whole: %v, %v", whole, err)
			}
		},
		"Tenants": func() {
			if all, err := rows.Tenants(t.Context()); err != nil || len(all) != 2 {
				t.Errorf("%v, %v", all, err)
			}
		},
		"DropFeeds": func() {
			if err := rows.DropFeeds(t.Context()); err != nil {
				t.Error(err)
			}
		},
	}
	before := h.whole(h.caller.Tenant)
	for method := range reflect.TypeFor[*adminStore]().Methods() {
		call, ok := calls[method.Name]
		if !ok {
			t.Errorf("%s is not called as a stranger", method.Name)
			continue
		}
		call()
	}
	if after := h.whole(h.caller.Tenant); after != before {
		t.Errorf("a stranger changed this:\n%s\n%s", before, after)
	}
	// And through the service, as everybody else would be told of nothing.
	admin := auth.Caller{Tenant: stranger.Tenant, Role: auth.RoleAdmin}
	fence := held.Lease.Fence
	err := h.service.Forget(t.Context(), admin, ForgetRequest{ID: held.ID.String(), Fence: &fence, Reason: "because"})
	wantKind(t, err, problem.NotFound)
	_, err = h.service.Resolve(t.Context(), admin, ResolveRequest{ID: held.ID.String(), Fence: &fence, Reason: "because", Action: ActionRetry})
	wantKind(t, err, problem.NotFound)
}

func heldBy(caller auth.Caller, a Acquired) held {
	return held{ref: ref{caller.Tenant, caller.Namespace, a.ID}, fence: a.Lease.Fence, by: caller}
}

// whole is every row of the tenant's records as text.
func (h *house) whole(tenant auth.TenantID) string {
	h.t.Helper()
	var b strings.Builder
	for _, table := range []string{"idempotency_keys", "key_history", "key_late_completions", "key_search", "audit"} {
		var text string
		err := h.pool.QueryRow(h.t.Context(), "select coalesce(string_agg(t::text, e'\\n' order by t::text), '') from "+table+" t where tenant_id = $1", tenant).Scan(&text)
		if err != nil {
			h.t.Fatal(err)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}
