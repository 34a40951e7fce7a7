package tenants

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/problem"
)

func TestASnapshotIsTheWholeTenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{MinRetention: time.Minute, MaxRetention: time.Hour, BodyLimit: 4096})
	live := b.newNamespace(t, tenant.ID, NamespaceParams{Name: "live"})
	events := b.newNamespace(t, tenant.ID, NamespaceParams{Name: "events", KeyScope: KeyScopeNamespace})
	full := Override{
		Namespace: live.ID, Operation: "POST /v1/payouts",
		Retention: ptr(10 * time.Minute), Lease: ptr(30 * time.Second),
		OnMismatch: ptr(OnMismatchReplay), MismatchStatus: ptr(422), OnLeaseExpiry: ptr(OnLeaseExpiryHold),
		StoreErrors: ptr(StoreErrorsClient), StoreBody: ptr(StoreBodyNone),
		StripHeaders: ptr([]string{"x-internal"}), KeepHeaders: ptr([]string{"content-type", "location"}),
		IgnorePointers: ptr([]string{"/sent_at", "/a~1b/0"}),
	}
	b.setPolicy(t, tenant.ID, full)
	version := b.setPolicy(t, tenant.ID, Override{Lease: ptr(5 * time.Second), KeepHeaders: ptr([]string{})})

	var secret []byte
	if err := b.pool.QueryRow(t.Context(), "select secret from tenants where tenant_id = $1", uuid.UUID(tenant.ID)).Scan(&secret); err != nil {
		t.Fatal(err)
	}
	got := b.mustSnapshot(t, tenant.ID)
	want := NewSnapshot(Snapshot{
		Tenant: tenant.ID, Secret: [32]byte(secret), BodyLimit: 4096,
		MinRetention: time.Minute, MaxRetention: time.Hour, PolicyVersion: version, Limits: Limits{NewKeysPerMinute: defaultNewKeys},
	}, []Namespace{live, events}, []Override{full, {Lease: ptr(5 * time.Second), KeepHeaders: ptr([]string{})}})
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(Snapshot{}, overrideKey{}), cmpopts.IgnoreFields(Snapshot{}, "Keyers")); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if got.Secret == [32]byte{} {
		t.Error("the secret is all zero")
	}
}

func TestANewTenantHasTheContractsDefaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{})
	live := b.newNamespace(t, tenant.ID, NamespaceParams{Name: "live"})
	snapshot := b.mustSnapshot(t, tenant.ID)
	if diff := cmp.Diff(snapshot.Policy(live.ID, "POST /v1/charges"), Policy{
		Retention: 86400 * time.Second, Lease: 60 * time.Second, OnMismatch: "reject", MismatchStatus: 409,
		OnLeaseExpiry: "takeover", StoreErrors: "all", StoreBody: "all",
	}); diff != "" {
		t.Errorf("policy (-got +want):\n%s", diff)
	}
	if snapshot.MinRetention != 3600*time.Second || snapshot.MaxRetention != 2592000*time.Second || snapshot.BodyLimit != 1<<20 || snapshot.PerOperation() {
		t.Errorf("limits %s to %s, %d bytes, per operation %v", snapshot.MinRetention, snapshot.MaxRetention, snapshot.BodyLimit, snapshot.PerOperation())
	}
	if live.KeyScope != KeyScopeOperation {
		t.Errorf("key scope %q", live.KeyScope)
	}
}

func TestEachMemberOfAPolicyComesFromTheNarrowestRowThatHasIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	live := b.newNamespace(t, tenant, NamespaceParams{Name: "live"}).ID
	sandbox := b.newNamespace(t, tenant, NamespaceParams{Name: "sandbox"}).ID
	b.setPolicy(t, tenant, Override{MismatchStatus: ptr(422), Lease: ptr(10 * time.Second), StripHeaders: ptr([]string{"x-a"})})
	b.setPolicy(t, tenant, Override{Operation: "op", Lease: ptr(20 * time.Second), OnLeaseExpiry: ptr(OnLeaseExpiryHold)})
	b.setPolicy(t, tenant, Override{Operation: "op", Namespace: live, Lease: ptr(30 * time.Second), StripHeaders: ptr([]string{})})

	snapshot := b.mustSnapshot(t, tenant)
	type figures struct {
		status int
		lease  time.Duration
		hold   bool
		strip  []string
	}
	for what, tt := range map[string]struct {
		namespace auth.NamespaceID
		operation string
		want      figures
	}{
		"another operation":              {live, "other", figures{422, 10 * time.Second, false, []string{"x-a"}}},
		"the operation elsewhere":        {sandbox, "op", figures{422, 20 * time.Second, true, []string{"x-a"}}},
		"the operation in the namespace": {live, "op", figures{422, 30 * time.Second, true, []string{}}},
	} {
		p := snapshot.Policy(tt.namespace, tt.operation)
		got := figures{p.MismatchStatus, p.Lease, p.OnLeaseExpiry == OnLeaseExpiryHold, p.StripHeaders}
		if diff := cmp.Diff(got, tt.want, cmp.AllowUnexported(figures{})); diff != "" {
			t.Errorf("%s (-got +want):\n%s", what, diff)
		}
	}
	var operations []string
	for _, row := range snapshot.Overrides(sandbox) {
		operations = append(operations, row.Operation)
	}
	slices.Sort(operations)
	if diff := cmp.Diff(operations, []string{"", "op"}); diff != "" {
		t.Errorf("rows that hold in the other namespace (-got +want):\n%s", diff)
	}
	if !snapshot.PerOperation() {
		t.Error("a row names an operation and nothing is per operation")
	}
}

func TestHeaderNamesAreReadInLowerCaseWhoeverWroteThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	b.exec(t, "insert into policies (tenant_id, strip_headers, keep_headers) values ($1, '{X-Internal,SERVER}', '{Content-Type}')", uuid.UUID(tenant))
	p := b.mustSnapshot(t, tenant).Policy(auth.NamespaceID{}, "op")
	if diff := cmp.Diff([][]string{p.StripHeaders, p.KeepHeaders}, [][]string{{"x-internal", "server"}, {"content-type"}}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestAChangeByAnotherProcessIsInForceWithin5Seconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	before := b.mustSnapshot(t, tenant)
	version := b.setPolicy(t, tenant, Override{OnLeaseExpiry: ptr(OnLeaseExpiryHold)})
	if version <= before.PolicyVersion {
		t.Errorf("version %d after %d", version, before.PolicyVersion)
	}
	b.pass(trust - 1)
	if b.mustSnapshot(t, tenant) != before {
		t.Error("within trust it was read again")
	}
	b.pass(1)
	after := b.mustSnapshot(t, tenant)
	if after.PolicyVersion != version || after.Policy(auth.NamespaceID{}, "op").OnLeaseExpiry != OnLeaseExpiryHold {
		t.Errorf("%s later the old policy is in force", trust)
	}
	if trust >= 5*time.Second {
		t.Errorf("a copy is trusted for %s, which breaks the promise of 5 s", trust)
	}
}

func TestAChangeByThisProcessIsInForceAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	b.mustSnapshot(t, tenant)
	version, err := b.SetPolicy(t.Context(), tenant, Override{Lease: ptr(7 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.mustSnapshot(t, tenant); got.PolicyVersion != version || got.Policy(auth.NamespaceID{}, "").Lease != 7*time.Second {
		t.Errorf("version %d, want %d", got.PolicyVersion, version)
	}
	namespace, err := b.CreateNamespace(t.Context(), tenant, NamespaceParams{Name: "live"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := b.mustSnapshot(t, tenant).Namespace(namespace.ID); !ok {
		t.Error("the new namespace is not known")
	}
}

func TestATenantThatWasAbsentIsThereOnceThisProcessHasMadeIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := auth.TenantID(uuid.New())
	if _, err := b.Snapshot(t.Context(), id, auth.NamespaceID{}); !errors.Is(err, problem.NotFound) {
		t.Fatalf("got %v, want not found", err)
	}
	if _, err := b.Create(t.Context(), CreateParams{ID: id, Name: "late"}); err != nil {
		t.Fatal(err)
	}
	b.mustSnapshot(t, id)
}

func TestANamespaceThatAnotherProcessHasJustMadeIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	b.mustSnapshot(t, tenant)
	namespace := b.newNamespace(t, tenant, NamespaceParams{Name: "new"})
	snapshot, err := b.Snapshot(t.Context(), tenant, namespace.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := snapshot.Namespace(namespace.ID); !ok || got != namespace {
		t.Errorf("got %+v, want %+v", got, namespace)
	}
}

func TestANamespaceOfAnotherTenantIsNoNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	foreign := b.newNamespace(t, b.newTenant(t, CreateParams{}).ID, NamespaceParams{Name: "live"})
	tenant := b.newTenant(t, CreateParams{}).ID
	if _, err := b.Snapshot(t.Context(), tenant, foreign.ID); !errors.Is(err, problem.KindInternal) {
		t.Errorf("got %v: no credential can name it, so this is a fault of ours", err)
	}
}

func TestATenantThatCannotBeReadIsUnavailableAndNeverTheDefaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	known, unasked := b.newTenant(t, CreateParams{}).ID, b.newTenant(t, CreateParams{}).ID
	b.mustSnapshot(t, known)
	open := postgrestest.CloseDoors(t, b.pool)
	b.pass(trust - 1)
	b.mustSnapshot(t, known)
	b.pass(1)
	for _, id := range []auth.TenantID{known, unasked} {
		snapshot, err := b.Snapshot(t.Context(), id, auth.NamespaceID{})
		if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind != problem.KindUnavailable || p.RetryAfter <= 0 || snapshot != nil {
			t.Errorf("got %v, want unavailable", err)
		}
	}
	open()
	b.mustSnapshot(t, known)
}

// What a later version writes and this one does not understand is not guessed
// at either.
func TestAPolicyThatCannotBeUnderstoodIsUnavailable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	b.exec(t, "alter table policies alter column lease_seconds type text using lease_seconds::text, drop constraint policies_lease_range")
	b.exec(t, "insert into policies (tenant_id, lease_seconds) values ($1, 'a while')", uuid.UUID(tenant))
	if _, err := b.Snapshot(t.Context(), tenant, auth.NamespaceID{}); !errors.Is(err, problem.KindUnavailable) {
		t.Errorf("got %v, want unavailable", err)
	}
}

// A snapshot is of one moment: the version and the rows that it counts belong
// together, however many changes run beside the reading.
func TestASnapshotNeverMixesTwoVersions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	const changes = 100
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range changes {
			// Version n + 2 comes with a lease of n + 1 seconds.
			if _, err := b.other.SetPolicy(t.Context(), tenant, Override{Lease: ptr(time.Duration(i+1) * time.Second)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for {
		snapshot, found, err := b.rows.Snapshot(t.Context(), tenant)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if snapshot.PolicyVersion > 1 {
			if lease := snapshot.Policy(auth.NamespaceID{}, "").Lease; lease != time.Duration(snapshot.PolicyVersion-1)*time.Second {
				t.Fatalf("version %d with a lease of %s", snapshot.PolicyVersion, lease)
			}
		}
		if snapshot.PolicyVersion == changes+1 || t.Failed() {
			break
		}
	}
	wg.Wait()
}

func TestOneReadServesAllWhoAskForATenant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tenant := b.newTenant(t, CreateParams{}).ID
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := b.Snapshot(t.Context(), tenant, auth.NamespaceID{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := b.reads.count.Load(); got != 1 {
		t.Errorf("%d reads, want 1", got)
	}
}
