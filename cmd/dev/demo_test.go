//go:build unix

package main

import (
	"crypto/rand"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
	"github.com/onceward/onceward/test/outputtest"
)

func setUpDemo(t *testing.T) *demo {
	t.Helper()
	d, err := newDemo(postgrestest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustEnsure(t *testing.T, d *demo, kept secrets) access {
	t.Helper()
	now, err := d.ensure(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

func TestTheFirstRunMakesTheDemoTenantAndTheNextFindsIt(t *testing.T) {
	t.Parallel()
	d := setUpDemo(t)
	first := mustEnsure(t, d, secrets{})
	if !first.first || len(first.renewed) != 0 || first.tenant.MinRetention != time.Minute || first.namespace.Name != "live" || len(first.OperatorToken) < 32 {
		t.Errorf("the first run made %+v in namespace %s", first.tenant, first.namespace.Name)
	}
	for _, role := range demoRoles() {
		caller, err := d.authenticator.Authenticate(t.Context(), first.Credentials[string(role)])
		if err != nil || caller.Role != role || caller.Tenant != first.tenant.ID {
			t.Errorf("the key for %s is %+v (%v)", role, caller, err)
		}
	}
	names := namespaceNames(t, d)
	if diff := cmp.Diff(names, []string{"live", "test"}); diff != "" {
		t.Errorf("namespaces (-got +want):\n%s", diff)
	}
	second := mustEnsure(t, d, first.secrets)
	if diff := cmp.Diff(second.secrets, first.secrets); diff != "" || second.first || len(second.renewed) != 0 {
		t.Errorf("the second run made new secrets for %v (-got +want):\n%s", second.renewed, diff)
	}
	if got := issued(t, d); len(got) != len(demoRoles()) {
		t.Errorf("there are %d credentials after two runs, want %d", len(got), len(demoRoles()))
	}
}

func TestAKeyThatIsNotGoodAnyMoreIsReplacedInItsNamespace(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, d *demo, keys map[string]string){
		"lost":            func(_ *testing.T, _ *demo, keys map[string]string) { delete(keys, "service") },
		"mistyped":        func(_ *testing.T, _ *demo, keys map[string]string) { keys["service"] += "x" },
		"of another role": func(_ *testing.T, _ *demo, keys map[string]string) { keys["service"] = keys["ops"] },
		"of another database": func(t *testing.T, _ *demo, keys map[string]string) {
			t.Helper()
			key, err := auth.NewKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			keys["service"] = key.Reveal()
		},
		"rotated by hand": func(t *testing.T, d *demo, _ map[string]string) {
			t.Helper()
			if _, _, err := d.credentials.Rotate(t.Context(), demoTenantID(), serviceID(t, d)); err != nil {
				t.Fatal(err)
			}
		},
		"revoked by hand": func(t *testing.T, d *demo, _ map[string]string) {
			t.Helper()
			if err := d.credentials.Revoke(t.Context(), demoTenantID(), serviceID(t, d)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setUpDemo(t)
			first := mustEnsure(t, d, secrets{})
			kept := secrets{OperatorToken: first.OperatorToken, Credentials: maps.Clone(first.Credentials)}
			spoil(t, d, kept.Credentials)
			second := mustEnsure(t, d, kept)
			if diff := cmp.Diff(second.renewed, []string{"service"}); diff != "" {
				t.Errorf("replaced (-got +want):\n%s", diff)
			}
			if second.namespace != first.namespace || second.OperatorToken != first.OperatorToken || second.Credentials["admin"] != first.Credentials["admin"] {
				t.Errorf("more than the service key has changed: namespace %v, before %v", second.namespace, first.namespace)
			}
			if _, err := d.authenticator.Authenticate(t.Context(), first.Credentials["service"]); !errors.Is(err, problem.Unauthenticated) {
				t.Errorf("the old key: %v, want %v", err, problem.Unauthenticated)
			}
			live := slices.DeleteFunc(issued(t, d), func(c auth.Credential) bool { return c.RevokedAt != nil })
			if len(live) != len(demoRoles()) {
				t.Errorf("%d credentials live, want %d", len(live), len(demoRoles()))
			}
		})
	}
}

func TestAChangedPolicyIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	d := setUpDemo(t)
	first := mustEnsure(t, d, secrets{})
	if got := payoutPolicy(t, d, first); got != tenants.OnLeaseExpiryHold {
		t.Errorf("payouts are under %s after the first run, want hold", got)
	}
	takeover := tenants.OnLeaseExpiryTakeover
	if _, err := d.tenants.SetPolicy(t.Context(), first.tenant.ID, tenants.Override{Operation: demoHoldOperation, OnLeaseExpiry: &takeover}); err != nil {
		t.Fatal(err)
	}
	if got := payoutPolicy(t, d, mustEnsure(t, d, secrets{})); got != takeover {
		t.Errorf("payouts are under %s after another run, want what was set", got)
	}
}

func TestAFirstRunThatEndedHalfWayIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	d := setUpDemo(t)
	if _, err := d.tenants.Create(t.Context(), tenants.CreateParams{ID: demoTenantID(), Name: demoTenantName, MinRetention: demoMinRetention}); err != nil {
		t.Fatal(err)
	}
	now := mustEnsure(t, d, secrets{})
	if got := payoutPolicy(t, d, now); got != tenants.OnLeaseExpiryHold || len(now.Credentials) != len(demoRoles()) {
		t.Errorf("payouts are under %s and there are %d keys", got, len(now.Credentials))
	}
}

func TestASuspendedDemoTenantIsPointedOut(t *testing.T) {
	t.Parallel()
	d := setUpDemo(t)
	first := mustEnsure(t, d, secrets{})
	if err := d.tenants.Suspend(t.Context(), first.tenant.ID, "unpaid invoices"); err != nil {
		t.Fatal(err)
	}
	terminal := &outputtest.Buffer{}
	out := &printer{out: terminal, nowFunc: func() time.Time { return time.Time{} }}
	mustEnsure(t, d, first.secrets).say(out, out.step(), "credentials.json")
	want := "✓ demo tenant as the last run left it, in 0.0 s\n" +
		"! the demo tenant is suspended (unpaid invoices): begins are refused until it is reactivated\n"
	if diff := cmp.Diff(terminal.String(), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestSecretsThatCannotBeReadAreAsLost(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials.json")
	for _, damage := range []string{"", "{", `{"credentials": []}`} {
		writeFile(t, path, damage)
		if got, err := readSecrets(path); err != nil || len(got.Credentials) != 0 {
			t.Errorf("%q is read as %+v (%v)", damage, got, err)
		}
	}
	want := secrets{OperatorToken: "t", Credentials: map[string]string{"ops": "k"}}
	if err := writeJSON(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := readSecrets(path)
	if diff := cmp.Diff(got, want); diff != "" || err != nil {
		t.Errorf("%v (-got +want):\n%s", err, diff)
	}
}

func payoutPolicy(t *testing.T, d *demo, now access) tenants.OnLeaseExpiry {
	t.Helper()
	snapshot, err := d.tenants.Snapshot(t.Context(), now.tenant.ID, now.namespace.ID)
	if err != nil {
		t.Fatal(err)
	}
	return snapshot.Policy(now.namespace.ID, demoHoldOperation).OnLeaseExpiry
}

func issued(t *testing.T, d *demo) []auth.Credential {
	t.Helper()
	list, err := d.credentials.List(t.Context(), demoTenantID())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// serviceID is the demo credential for the role service.
func serviceID(t *testing.T, d *demo) auth.CredentialID {
	t.Helper()
	list := issued(t, d)
	i := slices.IndexFunc(list, func(c auth.Credential) bool { return c.Role == auth.RoleService })
	if i < 0 {
		t.Fatal("there is no service credential")
	}
	return list[i].ID
}

func namespaceNames(t *testing.T, d *demo) []string {
	t.Helper()
	list, err := d.tenants.Namespaces(t.Context(), demoTenantID())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range list {
		names = append(names, n.Name)
	}
	return names
}
