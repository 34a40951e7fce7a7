package tenants

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// pointers are what an invalid_request names; nil for any other error.
func pointers(err error) []string {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Kind != problem.InvalidRequest {
		return nil
	}
	var list []string
	for _, f := range p.Fields {
		list = append(list, f.Pointer)
	}
	return list
}

func TestATenantIsReadBackAsItWasMade(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := auth.TenantID(uuid.New())
	for _, params := range []CreateParams{
		{Name: "x"},
		{ID: id, Name: strings.Repeat("é", maxNameLength), MinRetention: time.Second, MaxRetention: longestRetention, BodyLimit: largestBodyLimit},
		{Name: "narrow", MinRetention: time.Minute, MaxRetention: time.Minute, BodyLimit: 1},
	} {
		made, err := b.Create(t.Context(), params)
		if err != nil {
			t.Errorf("%s: %v", params.Name, err)
			continue
		}
		read, err := b.Tenant(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(read, made); diff != "" {
			t.Errorf("(-read +made):\n%s", diff)
		}
		if params.ID != (auth.TenantID{}) && made.ID != params.ID || made.State != StateActive || made.Name != params.Name || made.CreatedAt.IsZero() {
			t.Errorf("made %+v", made)
		}
	}
	if _, err := b.Create(t.Context(), CreateParams{ID: id, Name: "again"}); !errors.Is(err, problem.NameTaken) {
		t.Errorf("the same id again: %v", err)
	}
}

func TestEveryTenantHasASecretOfItsOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := b.mustSnapshot(t, b.newTenant(t, CreateParams{}).ID), b.mustSnapshot(t, b.newTenant(t, CreateParams{}).ID)
	if first.Secret == second.Secret || first.Secret == [32]byte{} {
		t.Error("two tenants share a secret")
	}
}

func TestATenantIsNotMadeWithoutRandomBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.random = strings.NewReader("sixteen bytes id, and a short secret")
	if _, err := b.Create(t.Context(), CreateParams{Name: "x"}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

func TestATenantThatCannotBeIsNamedByPointer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for what, tt := range map[string]struct {
		params CreateParams
		want   []string
	}{
		"no name":                      {CreateParams{}, []string{"/name"}},
		"a name too long":              {CreateParams{Name: strings.Repeat("é", maxNameLength+1)}, []string{"/name"}},
		"a name with a line feed":      {CreateParams{Name: "a\nb"}, []string{"/name"}},
		"half a second":                {CreateParams{Name: "x", MinRetention: time.Second / 2}, []string{"/min_retention_seconds"}},
		"a negative minimum":           {CreateParams{Name: "x", MinRetention: -time.Second}, []string{"/min_retention_seconds"}},
		"a maximum below the minimum":  {CreateParams{Name: "x", MinRetention: 2 * time.Second, MaxRetention: time.Second}, []string{"/max_retention_seconds"}},
		"more than ten years":          {CreateParams{Name: "x", MaxRetention: longestRetention + time.Second}, []string{"/max_retention_seconds"}},
		"a body limit below zero":      {CreateParams{Name: "x", BodyLimit: -1}, []string{"/body_limit_bytes"}},
		"a body limit above the limit": {CreateParams{Name: "x", BodyLimit: largestBodyLimit + 1}, []string{"/body_limit_bytes"}},
	} {
		_, err := b.Create(t.Context(), tt.params)
		if diff := cmp.Diff(pointers(err), tt.want); diff != "" {
			t.Errorf("%s: %v (-got +want):\n%s", what, err, diff)
		}
	}
}

func TestASuspensionStandsUntilItIsEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.newTenant(t, CreateParams{}).ID
	wantState := func(state State, reason string) {
		t.Helper()
		got, err := b.Tenant(t.Context(), id)
		if err != nil || got.State != state || got.SuspendedReason != reason {
			t.Errorf("%s %q, %v, want %s %q", got.State, got.SuspendedReason, err, state, reason)
		}
	}
	for _, reason := range []string{"unpaid", "unpaid since May"} {
		if err := b.Suspend(t.Context(), id, reason); err != nil {
			t.Fatal(err)
		}
		wantState(StateSuspended, reason)
	}
	for _, reason := range []string{"", "no", strings.Repeat("x", 501), "a\x00b"} {
		if err := b.Suspend(t.Context(), id, reason); !cmp.Equal(pointers(err), []string{"/reason"}) {
			t.Errorf("reason %.10q: %v", reason, err)
		}
	}
	for range 2 {
		if err := b.Reactivate(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		wantState(StateActive, "")
	}
}

func TestATenantThatIsBeingDeletedStaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.newTenant(t, CreateParams{}).ID
	b.exec(t, "update tenants set state = 'deleting' where tenant_id = $1", uuid.UUID(id))
	for what, err := range map[string]error{
		"suspend": b.Suspend(t.Context(), id, "unpaid"), "reactivate": b.Reactivate(t.Context(), id),
	} {
		if !errors.Is(err, problem.NotFound) {
			t.Errorf("%s: %v, want not found", what, err)
		}
	}
	if got, err := b.Tenant(t.Context(), id); err != nil || got.State != StateDeleting {
		t.Errorf("%s, %v", got.State, err)
	}
}

func TestANamespacesNameIsUniqueInItsTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	live := b.newNamespace(t, tenant, NamespaceParams{Name: "live"})
	if _, err := b.CreateNamespace(t.Context(), tenant, NamespaceParams{Name: "live", KeyScope: KeyScopeNamespace}); !errors.Is(err, problem.NameTaken) {
		t.Errorf("a second of the name: %v", err)
	}
	b.newNamespace(t, b.newTenant(t, CreateParams{}).ID, NamespaceParams{Name: "live"})
	events := b.newNamespace(t, tenant, NamespaceParams{Name: "events", KeyScope: KeyScopeNamespace})
	list, err := b.Namespaces(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list, []Namespace{events, live}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestANamespaceThatCannotBeIsNamedByPointer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	for what, tt := range map[string]struct {
		params NamespaceParams
		want   []string
	}{
		"nothing":         {NamespaceParams{}, []string{"/name"}},
		"a name too long": {NamespaceParams{Name: strings.Repeat("n", maxNameLength+1)}, []string{"/name"}},
		"another scope":   {NamespaceParams{Name: "x", KeyScope: "tenant"}, []string{"/key_scope"}},
	} {
		_, err := b.CreateNamespace(t.Context(), tenant, tt.params)
		if diff := cmp.Diff(pointers(err), tt.want); diff != "" {
			t.Errorf("%s: %v (-got +want):\n%s", what, err, diff)
		}
	}
}

func TestInNoTenantNothingIsMade(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nobody := auth.TenantID(uuid.New())
	_, namespaceErr := b.CreateNamespace(t.Context(), nobody, NamespaceParams{Name: "live"})
	_, policyErr := b.SetPolicy(t.Context(), nobody, Override{})
	_, tenantErr := b.Tenant(t.Context(), nobody)
	for what, err := range map[string]error{
		"a namespace": namespaceErr, "a policy": policyErr, "the tenant": tenantErr,
		"a suspension": b.Suspend(t.Context(), nobody, "unpaid"), "its end": b.Reactivate(t.Context(), nobody),
	} {
		if !errors.Is(err, problem.NotFound) {
			t.Errorf("%s: %v, want not found", what, err)
		}
	}
}
