package auth

import (
	"crypto/rand"
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/problem"
)

// TestAStrangerSeesAndChangesNothing calls every method of the store as another
// tenant. A new method fails it until it has its line here.
func TestAStrangerSeesAndChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, key := b.service(t)
	stranger, _ := b.service(t)
	rows := b.admin.rows
	entry := audit.Entry{Action: "credential.test"}

	calls := map[string]func(t *testing.T){
		// Names no tenant: its answer says which. It is given a proved id only
		// by the Authenticator, which compares the secret afterwards.
		"Lookup": func(t *testing.T) {
			row, found, err := rows.Lookup(t.Context(), credential.ID)
			if err != nil || !found || TenantID(row.TenantID) != credential.Tenant {
				t.Errorf("%+v, %v, %v: not the tenant of the credential", row, found, err)
			}
		},
		"Insert": func(t *testing.T) {
			_, err := rows.Insert(t.Context(), stranger.Tenant, mustKey(t, rand.Reader), IssueParams{Name: "in", Role: RoleService, Namespace: credential.Namespace}, entry)
			if !errors.Is(err, problem.InvalidRequest) {
				t.Errorf("into a foreign namespace: %v", err)
			}
		},
		"Replace": func(t *testing.T) {
			_, err := rows.Replace(t.Context(), stranger.Tenant, credential.ID, mustKey(t, rand.Reader), 0, entry)
			_, absent := rows.Replace(t.Context(), stranger.Tenant, mustKey(t, rand.Reader).ID(), mustKey(t, rand.Reader), 0, entry)
			wantSame(t, err, absent)
		},
		"Revoke": func(t *testing.T) {
			err := rows.Revoke(t.Context(), stranger.Tenant, credential.ID, entry)
			absent := rows.Revoke(t.Context(), stranger.Tenant, mustKey(t, rand.Reader).ID(), entry)
			wantSame(t, err, absent)
		},
		"RecordUses": func(t *testing.T) {
			if err := rows.RecordUses(t.Context(), []use{{stranger.Tenant, credential.ID, 0}}); err != nil {
				t.Error(err)
			}
		},
		"List": func(t *testing.T) {
			list, err := rows.List(t.Context(), stranger.Tenant)
			if err != nil || len(list) != 1 || list[0].ID != stranger.ID {
				t.Errorf("%+v, %v, want the stranger's own", list, err)
			}
		},
	}
	before, err := rows.List(t.Context(), credential.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	for method := range reflect.TypeFor[*store]().Methods() {
		call, ok := calls[method.Name]
		if !ok {
			t.Errorf("%s is not called as a stranger", method.Name)
			continue
		}
		call(t)
	}
	after, err := rows.List(t.Context(), credential.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(after, before); diff != "" {
		t.Errorf("a stranger changed this (-after +before):\n%s", diff)
	}
	b.mustAuthenticate(t, key)
}

// TestAStrangersSessionIsNobodys calls every exported method of the sessions'
// store as another tenant. A new method fails it until it has its line here.
func TestAStrangersSessionIsNobodys(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t)
	credential, _ := b.issue(t, tenant, IssueParams{Name: "admin", Role: RoleAdmin})
	stranger := b.newTenant(t)
	rows := &sessionStore{db: b.pool}
	entry := audit.Entry{Action: "session.start", Object: audit.Object{Kind: "session"}}
	session, link := sessionID{tenant: tenant, digest: [32]byte{1}}, sessionID{tenant: tenant, digest: [32]byte{2}}
	if err := errors.Join(rows.Insert(t.Context(), session, credential.ID, true, entry), rows.InsertLink(t.Context(), link, credential.ID)); err != nil {
		t.Fatal(err)
	}
	foreign := func(id sessionID) sessionID { return sessionID{tenant: stranger, digest: id.digest} }
	calls := map[string]func(){
		"Lookup": func() {
			if row, found, err := rows.Lookup(t.Context(), foreign(session)); err != nil || found {
				t.Errorf("%+v, %v", row, err)
			}
		},
		"Insert": func() {
			if err := rows.Insert(t.Context(), foreign(session), credential.ID, true, entry); !errors.Is(err, problem.Unauthenticated) {
				t.Errorf("a session of another tenant's credential: %v", err)
			}
		},
		"Touch": func() {
			if err := rows.Touch(t.Context(), foreign(session)); err != nil {
				t.Error(err)
			}
		},
		"Delete": func() {
			if err := rows.Delete(t.Context(), foreign(session), entry); err != nil {
				t.Error(err)
			}
		},
		"InsertLink": func() {
			_ = rows.InsertLink(t.Context(), foreign(link), credential.ID)
			if _, found, err := rows.TakeLink(t.Context(), foreign(link)); err != nil || found {
				t.Errorf("a link of another tenant's credential: %v, %v", found, err)
			}
		},
		"TakeLink": func() {
			if caller, found, err := rows.TakeLink(t.Context(), foreign(link)); err != nil || found {
				t.Errorf("%+v, %v", caller, err)
			}
		},
	}
	whole := func() (text string) {
		err := b.pool.QueryRow(t.Context(), `select concat_ws(e'\n', (select string_agg(s::text, e'\n') from dashboard_sessions s),
			(select string_agg(l::text, e'\n') from dashboard_links l), (select count(*) from audit where tenant_id = $1))`, stranger).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := whole()
	for method := range reflect.TypeFor[*sessionStore]().Methods() {
		call, ok := calls[method.Name]
		if !ok {
			t.Errorf("%s is not called as a stranger", method.Name)
			continue
		}
		call()
	}
	if diff := cmp.Diff(whole(), before); diff != "" {
		t.Errorf("a stranger changed this (-after +before):\n%s", diff)
	}
	if _, found, err := rows.TakeLink(t.Context(), link); err != nil || !found {
		t.Errorf("its own link: %v, %v", found, err)
	}
}

// wantSame holds what a stranger is told of another's against what anybody is
// told of nothing.
func wantSame(t *testing.T, foreign, absent error) {
	t.Helper()
	if !errors.Is(foreign, problem.NotFound) || foreign.Error() != absent.Error() {
		t.Errorf("got %v, and %v where there is nothing", foreign, absent)
	}
}
