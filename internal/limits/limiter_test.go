package limits

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// clock is moved by the test alone.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func newTenant(t *testing.T, pool *pgxpool.Pool) auth.TenantID {
	t.Helper()
	service, err := tenants.New(pool)
	if err != nil {
		t.Fatal(err)
	}
	made, err := service.Create(t.Context(), tenants.CreateParams{Name: "a tenant"})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// Over all processes together, however unevenly they are asked, and while the
// demand moves from one to another, the limit holds within 20 %.
func TestALimitHoldsOverAllProcesses(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	tenant := newTenant(t, pool)
	time0 := &clock{time.Now()}
	processes := []*Limiter{newLimiter(pool, time0.read), newLimiter(pool, time0.read), newLimiter(pool, time0.read)}
	limits := tenants.Limits{
		RequestsPerSecond: new(int64(60)), NamespaceRequestsPerSecond: new(int64(60)), CallerRequestsPerSecond: new(int64(60)),
	}
	asked := map[Scope]func(*Limiter) bool{
		OfTenant: func(l *Limiter) bool {
			return l.Request(tenant, auth.NamespaceID{}, tenants.Limits{RequestsPerSecond: limits.RequestsPerSecond}, 1).Allowed
		},
		OfNamespace: func(l *Limiter) bool {
			return l.Request(tenant, auth.NamespaceID{1}, tenants.Limits{NamespaceRequestsPerSecond: limits.NamespaceRequestsPerSecond}, 1).Allowed
		},
		OfCaller: func(l *Limiter) bool { return l.CallerRequest(tenant, auth.NamespaceID{1}, limits, "cus_1").Allowed },
	}
	const seconds, step = 60, 10 * time.Millisecond
	allowed, owed := make(map[Scope]int), make([]float64, len(processes))
	for n := range seconds * int(time.Second/step) {
		demand := []float64{150, 40, 10} // requests per second
		if n > seconds*50 {
			demand = []float64{5, 20, 175}
		}
		for i, l := range processes {
			for owed[i] += demand[i] * step.Seconds(); owed[i] >= 1; owed[i]-- {
				for scope, ask := range asked {
					if ask(l) {
						allowed[scope]++
					}
				}
			}
		}
		time0.now = time0.now.Add(step)
		if n%int(time.Second/step) == 0 {
			for _, l := range processes {
				if err := l.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	want := 60.0 * seconds
	for scope := range asked {
		if off := math.Abs(float64(allowed[scope])-want) / want; off > 0.2 {
			t.Errorf("of a %s %d were allowed in %d s, want %.0f within 20 %%: %.0f %% off", scope, allowed[scope], seconds, want, off*100)
		}
	}
}

func TestWhatIsBelowTheLimitIsNeverRefused(t *testing.T) {
	t.Parallel()
	at := &clock{time.Now()}
	l := newLimiter(nil, at.read)
	limits := tenants.Limits{RequestsPerSecond: new(int64(100))}
	for n := range 1000 {
		if d := l.Request(auth.TenantID{1}, auth.NamespaceID{}, limits, 1); !d.Allowed || d.Limit != 100 {
			t.Fatalf("request %d: %+v", n, d)
		}
		at.now = at.now.Add(10 * time.Millisecond)
	}
	if d := l.Request(auth.TenantID{2}, auth.NamespaceID{}, tenants.Limits{}, 1_000_000); !d.Allowed || d.Limited {
		t.Errorf("without a limit: %+v", d)
	}
}

// A batch counts its entries: a large one goes once the bucket is full, and
// those who come next wait for it.
func TestABatchIsPaidForByThoseAfterIt(t *testing.T) {
	t.Parallel()
	at := &clock{time.Now()}
	l := newLimiter(nil, at.read)
	limits := tenants.Limits{RequestsPerSecond: new(int64(100))}
	if !l.Request(auth.TenantID{1}, auth.NamespaceID{}, limits, 250).Allowed {
		t.Fatal("a batch larger than the bucket never goes")
	}
	at.now = at.now.Add(1900 * time.Millisecond)
	if d := l.Request(auth.TenantID{1}, auth.NamespaceID{}, limits, 1); d.Allowed || d.Reset <= 0 || d.Remaining != 0 {
		t.Errorf("before it is paid: %+v", d)
	}
	at.now = at.now.Add(200 * time.Millisecond)
	if d := l.Request(auth.TenantID{1}, auth.NamespaceID{}, limits, 1); !d.Allowed {
		t.Errorf("after it was paid: %+v", d)
	}
}

// Of several limits the strictest decides and is named, and what it refuses is
// taken from none.
func TestTheStrictestRateDecides(t *testing.T) {
	t.Parallel()
	at := &clock{time.Now()}
	l := newLimiter(nil, at.read)
	tenant, live, test := auth.TenantID{1}, auth.NamespaceID{1}, auth.NamespaceID{2}
	limits := tenants.Limits{RequestsPerSecond: new(int64(20)), NamespaceRequestsPerSecond: new(int64(8)), CallerRequestsPerSecond: new(int64(4))}
	decide := func(namespace auth.NamespaceID, n int) Decision {
		d := l.Request(tenant, namespace, limits, n)
		d.Reset = 0
		return d
	}
	want := func(got, want Decision) {
		t.Helper()
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("(-got +want):\n%s", diff)
		}
	}
	want(decide(live, 1), Decision{Allowed: true, Limited: true, Of: OfNamespace, Limit: 8, Remaining: 3})
	want(decide(live, 3), Decision{Allowed: true, Limited: true, Of: OfNamespace, Limit: 8, Remaining: 0})
	for range 100 { // refused by the namespace: nothing is taken from the tenant
		want(decide(live, 1), Decision{Limited: true, Of: OfNamespace, Limit: 8})
	}
	want(decide(auth.NamespaceID{}, 2), Decision{Allowed: true, Limited: true, Of: OfTenant, Limit: 20, Remaining: 4})
	want(decide(test, 3), Decision{Allowed: true, Limited: true, Of: OfTenant, Limit: 20, Remaining: 1})
	want(decide(auth.NamespaceID{}, 1), Decision{Allowed: true, Limited: true, Of: OfTenant, Limit: 20, Remaining: 0})
	for range 100 { // refused by the tenant: nothing is taken from the namespace
		want(decide(test, 1), Decision{Limited: true, Of: OfTenant, Limit: 20})
	}
	at.now = at.now.Add(100 * time.Millisecond)
	want(decide(test, 1), Decision{Allowed: true, Limited: true, Of: OfNamespace, Limit: 8, Remaining: 0})

	byCaller := func(namespace auth.NamespaceID, caller string) bool {
		d := l.CallerRequest(tenant, namespace, limits, caller)
		if d.Of != OfCaller || d.Limit != 4 {
			t.Errorf("%+v", d)
		}
		return d.Allowed
	}
	var got []bool
	for range 3 {
		got = append(got, byCaller(live, "cus_1"))
	}
	got = append(got, byCaller(live, "cus_2"), byCaller(test, "cus_1"))
	if diff := cmp.Diff(got, []bool{true, true, false, true, true}); diff != "" {
		t.Errorf("begins of callers (-got +want):\n%s", diff)
	}
	limits = tenants.Limits{}
	if d := l.CallerRequest(tenant, live, limits, "cus_1"); d != (Decision{Allowed: true}) {
		t.Errorf("without a limit: %+v", d)
	}
	if d := l.Request(tenant, live, limits, 1); d != (Decision{Allowed: true}) {
		t.Errorf("without a limit: %+v", d)
	}
}

// Every bucket is another one between the processes too.
func TestEveryBucketHasItsOwnName(t *testing.T) {
	t.Parallel()
	live, test := auth.NamespaceID{1}, auth.NamespaceID{2}
	names := make(map[string]key)
	for _, k := range []key{
		{kind: tenantRequests},
		{kind: namespaceRequests, namespace: live},
		{kind: namespaceRequests, namespace: test},
		{kind: callerRequests, namespace: live, caller: "cus_1"},
		{kind: callerRequests, namespace: test, caller: "cus_1"},
		{kind: callerRequests, namespace: live, caller: "cus_2"},
		{kind: newKeys, namespace: live, caller: "cus_1"},
	} {
		if other, taken := names[k.name()]; taken {
			t.Errorf("%+v and %+v are both %s", k, other, k.name())
		}
		names[k.name()] = k
	}
}

func TestNewKeysAreLimitedByCallerAndReplaysCostNothing(t *testing.T) {
	t.Parallel()
	at := &clock{time.Now()}
	l := newLimiter(nil, at.read)
	tenant, namespace := auth.TenantID{1}, auth.NamespaceID{1}
	limits := tenants.Limits{NewKeysPerMinute: 60}
	reserve := func(caller string) error { return l.Reserve(tenant, limits, namespace, caller) }
	for range 500 { // replays: reserved, and given back
		if err := reserve("cus_1"); err != nil {
			t.Fatal(err)
		}
		l.Settle(tenant, namespace, "cus_1", false)
	}
	for n := range 60 {
		if err := reserve("cus_1"); err != nil {
			t.Fatalf("new key %d: %v", n, err)
		}
		l.Settle(tenant, namespace, "cus_1", true)
	}
	err := reserve("cus_1")
	if p, ok := errors.AsType[*problem.Error](err); !ok || p.Kind != problem.RateLimited || p.RetryAfter < time.Second {
		t.Errorf("the 61st: %v", err)
	}
	if err := reserve("cus_2"); err != nil {
		t.Errorf("another caller: %v", err)
	}
	if err := l.Reserve(tenant, limits, auth.NamespaceID{2}, "cus_1"); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
	for range 1000 {
		if err := reserve(""); err != nil {
			t.Fatalf("the empty caller: %v", err)
		}
	}
	at.now = at.now.Add(time.Second)
	if err := reserve("cus_1"); err != nil {
		t.Errorf("a second later: %v", err)
	}
}

func TestAQuotaIsKeptOverProcessesAndCorrectedByTheJob(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	tenant := newTenant(t, pool)
	one, other := New(pool), New(pool)
	limits := tenants.Limits{LiveRecords: new(int64(10)), StoredBytes: new(int64(1000)), NewKeysPerMinute: 600}
	refresh := func() {
		t.Helper()
		for _, l := range []*Limiter{one, other, one} {
			if err := l.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	make10 := func() (made int) {
		for range 20 {
			if one.Reserve(tenant, limits, auth.NamespaceID{}, "") == nil {
				one.Settle(tenant, auth.NamespaceID{}, "", true)
				made++
			}
		}
		return made
	}
	if err := other.Reserve(tenant, limits, auth.NamespaceID{}, ""); err != nil {
		t.Fatal(err)
	}
	other.Settle(tenant, auth.NamespaceID{}, "", false)
	if err := one.Reserve(tenant, limits, auth.NamespaceID{}, ""); err != nil {
		t.Fatal(err)
	}
	one.Settle(tenant, auth.NamespaceID{}, "", false)
	refresh()
	if made := make10(); made != 10 {
		t.Errorf("%d were made, want 10", made)
	}
	refresh()
	err := other.Reserve(tenant, limits, auth.NamespaceID{}, "")
	if !errors.Is(err, problem.QuotaExceeded) {
		t.Errorf("at the other process: %v", err)
	}
	// None of them is there (they have expired, say): the job finds out.
	if err := NewUsage(pool).Recount(t.Context()); err != nil {
		t.Fatal(err)
	}
	refresh()
	if err := other.Reserve(tenant, limits, auth.NamespaceID{}, ""); err != nil {
		t.Errorf("after the count: %v", err)
	}
	other.Stored(tenant, 1000)
	refresh()
	if err := one.Reserve(tenant, limits, auth.NamespaceID{}, ""); !errors.Is(err, problem.QuotaExceeded) {
		t.Errorf("with as many bytes as there may be: %v", err)
	}
	days, err := NewUsage(pool).Days(t.Context(), tenant, time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 2))
	if err != nil || len(days) != 1 || days[0].NewRecords != 10 {
		t.Errorf("the use is %+v, %v", days, err)
	}
}

// TestAStrangerSeesAndChangesNothing calls every exported method of the store
// as another tenant. A new method fails it until it has its line here.
func TestAStrangerSeesAndChangesNothing(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t)
	owner, stranger := newTenant(t, pool), newTenant(t, pool)
	rows := &store{db: pool}
	use := func(tenant auth.TenantID) counted {
		return counted{days: map[auth.TenantID]*day{tenant: {requests: 5}}, held: map[auth.TenantID]held{tenant: {newRecords: 3, newBytes: 7}}}
	}
	if err := rows.AddUse(t.Context(), use(owner)); err != nil {
		t.Fatal(err)
	}
	process := uuid.New()
	if _, _, err := rows.Exchange(t.Context(), process, []demand{{key{tenant: owner}, 9}}); err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(){
		"AddUse": func() {
			if err := rows.AddUse(t.Context(), use(stranger)); err != nil {
				t.Error(err)
			}
		},
		"Exchange": func() {
			totals, _, err := rows.Exchange(t.Context(), uuid.New(), []demand{{key{tenant: stranger}, 1}})
			if err != nil || totals[key{tenant: stranger}] != 1 {
				t.Errorf("%v, %v", totals, err)
			}
		},
		"Held": func() {
			all, err := rows.Held(t.Context(), []auth.TenantID{{9}})
			if err != nil || all[auth.TenantID{9}] != (held{}) {
				t.Errorf("%v, %v", all, err)
			}
		},
		"Recount": func() {
			if err := rows.Recount(t.Context(), stranger); err != nil {
				t.Error(err)
			}
		},
		"Days": func() {
			list, err := rows.Days(t.Context(), auth.TenantID{9}, time.Now().AddDate(0, 0, -2), time.Now().AddDate(0, 0, 2))
			if err != nil || len(list) != 0 {
				t.Errorf("%v, %v", list, err)
			}
		},
		"Holding": func() {
			if h, err := rows.Holding(t.Context(), auth.TenantID{9}); err != nil || h != (Holding{}) {
				t.Errorf("%v, %v", h, err)
			}
		},
		// These tell of processes, or are the list of a job.
		"Sweep": func() {
			if err := rows.Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"Tenants": func() {
			if list, err := rows.Tenants(t.Context()); err != nil || len(list) != 2 {
				t.Errorf("%v, %v", list, err)
			}
		},
	}
	whole := func() (text string) {
		err := pool.QueryRow(t.Context(), `select concat_ws(e'\n', (select u::text from usage_days u where tenant_id = $1),
			(select h::text from tenant_usage h where tenant_id = $1), (select d::text from limit_demands d where tenant_id = $1))`, owner).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := whole()
	for method := range reflect.TypeFor[*store]().Methods() {
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
}
