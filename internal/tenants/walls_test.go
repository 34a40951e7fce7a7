package tenants

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// TestAStrangerSeesAndChangesNothing calls every method of the store as another
// tenant. A new method fails it until it has its line here.
func TestAStrangerSeesAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner := b.newTenant(t, CreateParams{Name: "the owner"})
	namespace := b.newNamespace(t, owner.ID, NamespaceParams{Name: "live"})
	b.setPolicy(t, owner.ID, Override{Operation: "op", Lease: ptr(time.Second)})
	stranger := b.newTenant(t, CreateParams{Name: "the stranger"})
	copycat := b.newTenant(t, CreateParams{Name: "another stranger"})
	rows := b.rows

	calls := map[string]func(){
		"Snapshot": func() {
			snapshot, _, err := rows.Snapshot(t.Context(), stranger.ID)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := snapshot.Namespace(namespace.ID); ok || snapshot.PerOperation() || snapshot.Tenant != stranger.ID {
				t.Error("the stranger's snapshot holds the owner's rows")
			}
		},
		"InsertTenant": func() {
			if _, err := rows.InsertTenant(t.Context(), CreateParams{ID: owner.ID, Name: "usurper"}.withDefaults(), [32]byte{}); !errors.Is(err, problem.NameTaken) {
				t.Errorf("under the owner's id: %v", err)
			}
		},
		"Tenant": func() {
			if got, err := rows.Tenant(t.Context(), stranger.ID); err != nil || got.Name != stranger.Name {
				t.Errorf("%+v, %v", got, err)
			}
		},
		"SetState": func() {
			if err := rows.SetState(t.Context(), stranger.ID, StateSuspended, ptr("unpaid")); err != nil {
				t.Error(err)
			}
		},
		"InsertNamespace": func() {
			// The same id and name in another tenant are another namespace.
			if err := rows.InsertNamespace(t.Context(), copycat.ID, namespace); err != nil {
				t.Error(err)
			}
		},
		"Namespaces": func() {
			list, err := rows.Namespaces(t.Context(), auth.TenantID(uuid.New()))
			if err != nil || len(list) != 0 {
				t.Errorf("%+v, %v", list, err)
			}
		},
		"PutOverride": func() {
			if _, err := rows.PutOverride(t.Context(), copycat.ID, Override{Operation: "op", Lease: ptr(time.Hour)}); err != nil {
				t.Error(err)
			}
		},
	}
	before := b.whole(t, owner.ID)
	for method := range reflect.TypeFor[*store]().Methods() {
		call, ok := calls[method.Name]
		if !ok {
			t.Errorf("%s is not called as a stranger", method.Name)
			continue
		}
		call()
	}
	after := b.whole(t, owner.ID)
	if diff := cmp.Diff(after, before); diff != "" {
		t.Errorf("a stranger changed this (-after +before):\n%s", diff)
	}
}

// whole is every row of the tenant as text.
func (b *bench) whole(t *testing.T, tenant auth.TenantID) string {
	t.Helper()
	var text string
	err := b.pool.QueryRow(t.Context(), `
		select concat_ws(e'\n',
		    (select t::text from tenants t where tenant_id = $1),
		    (select string_agg(n::text, e'\n' order by namespace_id) from namespaces n where tenant_id = $1),
		    (select string_agg(p::text, e'\n' order by namespace_id, operation) from policies p where tenant_id = $1))`,
		uuid.UUID(tenant)).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
