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

// wantSame holds what a stranger is told of another's against what anybody is
// told of nothing.
func wantSame(t *testing.T, foreign, absent error) {
	t.Helper()
	if !errors.Is(foreign, problem.NotFound) || foreign.Error() != absent.Error() {
		t.Errorf("got %v, and %v where there is nothing", foreign, absent)
	}
}
