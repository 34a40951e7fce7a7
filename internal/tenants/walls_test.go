package tenants

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/audit"
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
	preview, change := uuid.New(), uuid.New()
	b.planOf(t, owner.ID, preview, change)
	rows := b.rows
	entry := audit.Entry{Action: "test.test"}

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
			if _, _, err := rows.InsertTenant(t.Context(), CreateParams{ID: owner.ID, Name: "usurper"}.withDefaults(), [32]byte{}, entry); !errors.Is(err, problem.NameTaken) {
				t.Errorf("under the owner's id: %v", err)
			}
		},
		"Tenant": func() {
			if got, err := rows.Tenant(t.Context(), stranger.ID); err != nil || got.Name != stranger.Name {
				t.Errorf("%+v, %v", got, err)
			}
		},
		"SetState": func() {
			if err := rows.SetState(t.Context(), stranger.ID, StateSuspended, ptr("unpaid"), entry); err != nil {
				t.Error(err)
			}
		},
		"InsertNamespace": func() {
			// The same id and name in another tenant are another namespace.
			if err := rows.InsertNamespace(t.Context(), copycat.ID, namespace, entry); err != nil {
				t.Error(err)
			}
		},
		"RenameNamespace": func() {
			_, err := rows.RenameNamespace(t.Context(), stranger.ID, namespace.ID, "mine", entry)
			_, absent := rows.RenameNamespace(t.Context(), stranger.ID, auth.NamespaceID(uuid.New()), "mine", entry)
			if !errors.Is(err, problem.NotFound) || err.Error() != absent.Error() {
				t.Errorf("%v, and %v where there is nothing", err, absent)
			}
		},
		"Policies": func() {
			shown, err := rows.Policies(t.Context(), stranger.ID)
			if err != nil || len(shown.Overrides) != 0 {
				t.Errorf("%+v, %v", shown, err)
			}
		},
		"ChangePolicies": func() {
			_, err := rows.ChangePolicies(t.Context(), stranger.ID, policyChanging{
				pre: Precondition{unconditional: true}, entry: entry, mayShorten: true,
				change: func(_ context.Context, _ pgx.Tx, p *policies) error {
					delete(p.after, overrideKey{operation: "op"})
					p.put(Override{Retention: ptr(2 * time.Hour)})
					return nil
				},
			})
			if err != nil {
				t.Error(err)
			}
		},
		"Retention": func() {
			if r, err := rows.Retention(t.Context(), stranger.ID); err != nil || r.Change != nil {
				t.Errorf("%+v, %v", r, err)
			}
		},
		"PlanOf": func() {
			if plan, err := rows.PlanOf(t.Context(), copycat.ID, RetentionParams{Default: ptr(time.Hour)}); err != nil || plan.Default != time.Hour {
				t.Errorf("%+v, %v", plan, err)
			}
		},
		"InsertPreview": func() {
			if _, err := rows.InsertPreview(t.Context(), stranger.ID, preview, Plan{Default: 2 * time.Hour}); err != nil {
				t.Error(err) // the owner's id in another tenant is another preview
			}
		},
		"LostReplays": func() {
			if lost, all, err := rows.LostReplays(t.Context(), stranger.ID, Plan{Default: time.Second}); err != nil || lost != 0 || all != 0 {
				t.Errorf("%d of %d, %v", lost, all, err)
			}
		},
		"SetRetention": func() {
			_, err := rows.SetRetention(t.Context(), copycat.ID, RetentionParams{
				Default: ptr(time.Hour), ApplyToExisting: true, PreviewID: &preview, Reason: "theirs",
			}, uuid.New(), policyChanging{
				pre: Precondition{unconditional: true}, entry: entry, mayShorten: true,
				change: func(context.Context, pgx.Tx, *policies) error { return nil },
			})
			if !errors.Is(err, problem.InvalidRequest) {
				t.Errorf("with the owner's preview: %v", err)
			}
		},
		"CancelRetention": func() {
			if _, err := rows.CancelRetention(t.Context(), stranger.ID, Precondition{unconditional: true}, entry); !errors.Is(err, problem.NotFound) {
				t.Errorf("%v, want not found", err)
			}
		},
		// Names no tenant: it is the list of a job, each line with its own.
		"DueChanges": func() {
			if list, err := rows.DueChanges(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("%+v, %v", list, err)
			}
		},
		"StepChange": func() {
			if going, err := rows.StepChange(t.Context(), stranger.ID, change, Step{Seen: 1, Changed: 1}); err != nil || going {
				t.Errorf("%v, %v", going, err)
			}
		},
		"ChangeTenant": func() {
			_, err := rows.ChangeTenant(t.Context(), copycat.ID, entry, func(c *changing) error {
				c.Name = "changed"
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		},
		// The operator's list and those of jobs: they show no tenant to another.
		"Tenants": func() {
			if list, _, err := rows.Tenants(t.Context(), auth.TenantID{}, 10); err != nil || len(list) != 3 {
				t.Errorf("%+v, %v", list, err)
			}
		},
		"DueRemovals": func() {
			if list, err := rows.DueRemovals(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("%+v, %v", list, err)
			}
		},
		"TenantTables": func() {
			if list, err := rows.TenantTables(t.Context()); err != nil || list[len(list)-1] != "tenants" {
				t.Errorf("%+v, %v", list, err)
			}
		},
		"Remove": func() {
			tables, err := rows.TenantTables(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range tables { // neither is being deleted
				for _, tenant := range []auth.TenantID{stranger.ID, owner.ID} {
					if removed, err := rows.Remove(t.Context(), tenant, table, 10); err != nil || removed != 0 {
						t.Errorf("%s: %d, %v", table, removed, err)
					}
				}
			}
		},
		"NoteRemoved": func() {
			if err := rows.NoteRemoved(t.Context(), stranger.ID, 1); err != nil {
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
			if _, err := rows.PutOverride(t.Context(), copycat.ID, Override{Operation: "op", Lease: ptr(time.Hour)}, entry); err != nil {
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

// planOf gives the tenant a preview, and a change that waits.
func (b *bench) planOf(t *testing.T, tenant auth.TenantID, preview, change uuid.UUID) {
	t.Helper()
	plan := Plan{Default: time.Hour}
	if _, err := b.other.rows.InsertPreview(t.Context(), tenant, preview, plan); err != nil {
		t.Fatal(err)
	}
	text, err := plan.text()
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, `insert into retention_changes (tenant_id, change_id, starts_at, exact, plan) values ($1, $2, now() + interval '15 minutes', true, $3)`,
		uuid.UUID(tenant), change, text)
}

// whole is every row of the tenant as text.
func (b *bench) whole(t *testing.T, tenant auth.TenantID) string {
	t.Helper()
	var text string
	err := b.pool.QueryRow(t.Context(), `
		select concat_ws(e'\n',
		    (select t::text from tenants t where tenant_id = $1),
		    (select string_agg(n::text, e'\n' order by namespace_id) from namespaces n where tenant_id = $1),
		    (select string_agg(p::text, e'\n' order by namespace_id, operation) from policies p where tenant_id = $1),
		    (select string_agg(r::text, e'\n' order by preview_id) from retention_previews r where tenant_id = $1),
		    (select string_agg(c::text, e'\n' order by change_id) from retention_changes c where tenant_id = $1),
		    (select string_agg(a::text, e'\n' order by entry_id) from audit a where tenant_id = $1))`,
		uuid.UUID(tenant)).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
