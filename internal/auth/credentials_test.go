package auth

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/problem"
)

func TestTheDatabaseHoldsTheDigestOfAKeyAndNothingMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	credential, key := b.service(t)
	var digest []byte
	var row string
	err := b.pool.QueryRow(t.Context(), "select secret_sha256, c::text from credentials c where credential_id = $1", string(credential.ID)).Scan(&digest, &row)
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256([]byte(key.Reveal())); !bytes.Equal(digest, want[:]) {
		t.Errorf("digest %x, want %x", digest, want)
	}
	if secret := key.Reveal()[idEnd+1 : secretEnd]; strings.Contains(row, secret) {
		t.Error("the row holds the secret")
	}
}

// B067: what scopes the keys is the namespace that a credential names, not the
// credential.
func TestTwoServiceCredentialsShareANamespaceAndARotationKeepsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t)
	live := b.newNamespace(t, tenant, "live")
	first, firstKey := b.issue(t, tenant, IssueParams{Name: "backend", Role: RoleService, Namespace: live})
	_, secondKey := b.issue(t, tenant, IssueParams{Name: "batch", Role: RoleService, Namespace: live})
	for _, key := range []Key{firstKey, secondKey} {
		if got := b.mustAuthenticate(t, key).Namespace; got != live {
			t.Errorf("namespace %v, want %v", got, live)
		}
	}
	rotated, rotatedKey, err := b.admin.Rotate(t.Context(), tenant, first.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rotated, first, cmpopts.IgnoreFields(Credential{}, "ID", "CreatedAt")); diff != "" {
		t.Errorf("the rotated credential differs (-new +old):\n%s", diff)
	}
	caller := b.mustAuthenticate(t, rotatedKey)
	if caller.Namespace != live || caller.Credential == first.ID {
		t.Errorf("the new key is %+v", caller)
	}
	b.pass(trust)
	_, err = b.Authenticate(t.Context(), firstKey.Reveal())
	wantUnauthenticated(t, "the old key", Caller{}, err)
	b.mustAuthenticate(t, secondKey)
}

func TestARotationKeepsExpiryAndTheResolversNamespaces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t)
	expiry := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	resolver, _ := b.issue(t, tenant, IssueParams{
		Name: "night shift", Role: RoleResolver, ExpiresAt: &expiry,
		Namespaces: []NamespaceID{b.newNamespace(t, tenant, "live"), b.newNamespace(t, tenant, "test")},
	})
	rotated, _, err := b.admin.Rotate(t.Context(), tenant, resolver.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rotated, resolver, cmpopts.IgnoreFields(Credential{}, "ID", "CreatedAt")); diff != "" {
		t.Errorf("(-new +old):\n%s", diff)
	}
}

func TestWhatHasEndedIsNotRotated(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	revoked, _ := b.service(t)
	if err := b.admin.Revoke(t.Context(), revoked.Tenant, revoked.ID); err != nil {
		t.Fatal(err)
	}
	expired, _ := b.service(t)
	b.exec(t, "update credentials set expires_at = now() where tenant_id = $1", uuid.UUID(expired.Tenant))
	for _, c := range []Credential{revoked, expired} {
		if _, key, err := b.admin.Rotate(t.Context(), c.Tenant, c.ID); !errors.Is(err, problem.NotFound) || key != (Key{}) {
			t.Errorf("got %v, want not found", err)
		}
		if list, err := b.admin.List(t.Context(), c.Tenant); err != nil || len(list) != 1 {
			t.Errorf("%d credentials, %v, want the one", len(list), err)
		}
	}
}

func TestWhatCannotBeIssuedIsNamedByPointer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant, other := b.newTenant(t), b.newTenant(t)
	live, foreign := b.newNamespace(t, tenant, "live"), b.newNamespace(t, other, "live")
	past := time.Now().Add(-time.Second)
	for name, tt := range map[string]struct {
		params IssueParams
		want   []string
	}{
		"no name":                           {IssueParams{Role: RoleOps}, []string{"/name"}},
		"a name of 101 characters":          {IssueParams{Name: strings.Repeat("é", 101), Role: RoleOps}, []string{"/name"}},
		"a name with NUL":                   {IssueParams{Name: "a\x00b", Role: RoleOps}, []string{"/name"}},
		"a name that is not UTF-8":          {IssueParams{Name: "a\xff", Role: RoleOps}, []string{"/name"}},
		"no role":                           {IssueParams{Name: "x"}, []string{"/role"}},
		"the operator's role":               {IssueParams{Name: "x", Role: "operator"}, []string{"/role"}},
		"a service without a namespace":     {IssueParams{Name: "x", Role: RoleService}, []string{"/namespace"}},
		"an admin in a namespace":           {IssueParams{Name: "x", Role: RoleAdmin, Namespace: live}, []string{"/namespace"}},
		"a service with namespaces":         {IssueParams{Name: "x", Role: RoleService, Namespace: live, Namespaces: []NamespaceID{live}}, []string{"/namespaces"}},
		"a resolver in no namespace at all": {IssueParams{Name: "x", Role: RoleResolver, Namespaces: []NamespaceID{}}, []string{"/namespaces"}},
		"a namespace of another tenant":     {IssueParams{Name: "x", Role: RoleService, Namespace: foreign}, []string{"/namespace"}},
		"a namespace that is not there":     {IssueParams{Name: "x", Role: RoleService, Namespace: NamespaceID(uuid.New())}, []string{"/namespace"}},
		"a resolver in another's namespace": {IssueParams{Name: "x", Role: RoleResolver, Namespaces: []NamespaceID{live, foreign}}, []string{"/namespaces"}},
		"an end in the past":                {IssueParams{Name: "x", Role: RoleOps, ExpiresAt: &past}, []string{"/expires_at"}},
		"everything at once, in one answer": {IssueParams{Namespaces: []NamespaceID{live}}, []string{"/name", "/role", "/namespaces"}},
	} {
		_, key, err := b.admin.Issue(t.Context(), tenant, tt.params)
		var got []string
		if p, ok := errors.AsType[*problem.Error](err); ok && p.Kind == problem.InvalidRequest {
			for _, f := range p.Fields {
				got = append(got, f.Pointer)
			}
		}
		if diff := cmp.Diff(got, tt.want); diff != "" || key != (Key{}) {
			t.Errorf("%s: %v (-got +want):\n%s", name, err, diff)
		}
	}
	if list, err := b.admin.List(t.Context(), tenant); err != nil || len(list) != 0 {
		t.Errorf("%d credentials, %v: something was issued all the same", len(list), err)
	}
	b.issue(t, tenant, IssueParams{Name: strings.Repeat("é", 100), Role: RoleOps}) // at the limit
}

func TestANameIsUniqueAmongTheLivingOfOneTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t)
	ops := IssueParams{Name: "ops", Role: RoleOps}
	first, _ := b.issue(t, tenant, ops)
	if _, _, err := b.admin.Issue(t.Context(), tenant, ops); !errors.Is(err, problem.NameTaken) {
		t.Errorf("a second of the name: %v", err)
	}
	b.issue(t, b.newTenant(t), ops)
	if err := b.admin.Revoke(t.Context(), tenant, first.ID); err != nil {
		t.Fatal(err)
	}
	b.issue(t, tenant, ops)
}

func TestIssueInNoTenantIsNotFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if _, _, err := b.admin.Issue(t.Context(), TenantID(uuid.New()), IssueParams{Name: "x", Role: RoleAdmin}); !errors.Is(err, problem.NotFound) {
		t.Errorf("got %v", err)
	}
}

func TestNothingIsIssuedWithoutRandomBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t)
	b.admin.random = io.LimitReader(rand.Reader, 10)
	if _, _, err := b.admin.Issue(t.Context(), tenant, IssueParams{Name: "x", Role: RoleOps}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

func TestTheLastAdminStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t)
	first, firstKey := b.issue(t, tenant, IssueParams{Name: "first", Role: RoleAdmin})
	if err := b.admin.Revoke(t.Context(), tenant, first.ID); !errors.Is(err, problem.LastAdmin) {
		t.Errorf("the only admin: %v", err)
	}
	b.mustAuthenticate(t, firstKey)
	second, _ := b.issue(t, tenant, IssueParams{Name: "second", Role: RoleAdmin})
	b.exec(t, "update credentials set expires_at = now() where credential_id = $1", string(second.ID))
	if err := b.admin.Revoke(t.Context(), tenant, first.ID); !errors.Is(err, problem.LastAdmin) {
		t.Errorf("with an expired one beside it: %v", err)
	}
	b.issue(t, b.newTenant(t), IssueParams{Name: "third", Role: RoleAdmin})
	if err := b.admin.Revoke(t.Context(), tenant, first.ID); !errors.Is(err, problem.LastAdmin) {
		t.Errorf("with another tenant's: %v", err)
	}
	b.issue(t, tenant, IssueParams{Name: "fourth", Role: RoleAdmin})
	for range 2 { // the second time changes nothing
		if err := b.admin.Revoke(t.Context(), tenant, first.ID); err != nil {
			t.Errorf("with another living: %v", err)
		}
	}
}

func TestOfTwoAdminsRevokedAtOnceOneStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for range 20 {
		tenant := b.newTenant(t)
		var ids []CredentialID
		for _, name := range []string{"a", "b"} {
			c, _ := b.issue(t, tenant, IssueParams{Name: name, Role: RoleAdmin})
			ids = append(ids, c.ID)
		}
		var wg sync.WaitGroup
		errs := make([]error, len(ids))
		start := make(chan struct{})
		for i, id := range ids {
			wg.Go(func() {
				<-start
				errs[i] = b.admin.Revoke(t.Context(), tenant, id)
			})
		}
		close(start)
		wg.Wait()
		lost := 0
		for _, err := range errs {
			if errors.Is(err, problem.LastAdmin) {
				lost++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if lost != 1 {
			t.Fatalf("%d refusals, want 1", lost)
		}
	}
}

func TestARevocationKeepsItsMoment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c, _ := b.service(t)
	var moments []time.Time
	for range 2 {
		if err := b.admin.Revoke(t.Context(), c.Tenant, c.ID); err != nil {
			t.Fatal(err)
		}
		list, err := b.admin.List(t.Context(), c.Tenant)
		if err != nil || len(list) != 1 || list[0].RevokedAt == nil {
			t.Fatalf("%+v, %v", list, err)
		}
		moments = append(moments, *list[0].RevokedAt)
	}
	if !moments[0].Equal(moments[1]) {
		t.Errorf("revoked at %v, then at %v", moments[0], moments[1])
	}
}
