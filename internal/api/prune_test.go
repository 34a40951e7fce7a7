package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/pruning"
)

type prunedBody struct {
	Pruned      int64   `json:"pruned"`
	Left        int64   `json:"left"`
	TookSeconds float64 `json:"took_seconds"`
	Done        bool    `json:"done"`
	Tenants     []struct {
		Tenant string `json:"tenant"`
		Pruned int64  `json:"pruned"`
		Left   int64  `json:"left"`
	} `json:"tenants,omitzero"`
}

// expired makes n records of the tenant that expired a moment ago.
func expired(tb testing.TB, w *apitest.World, tenant *apitest.Tenant, n int) {
	tb.Helper()
	c := w.Client(tenant.Service)
	for range n {
		a := acquire(tb, c, newKey(tb))
		c.Complete(tb, a, apitest.Object{"status": 201}).Expect(tb, http.StatusOK)
		w.Advance(tb, a.ID, 25*time.Hour)
	}
}

func records(tb testing.TB, w *apitest.World, tenant *apitest.Tenant) (n int) {
	tb.Helper()
	if err := w.Pool.QueryRow(tb.Context(), "select count(*) from idempotency_keys where tenant_id = $1", tenant.ID).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

func TestAnAdminPrunesItsOwnRecordsAtOnce(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	other := w.NewTenant(t)
	expired(t, w, w.Tenant, 3)
	expired(t, w, other, 2)
	live := acquire(t, w.Client(w.Tenant.Service), newKey(t))
	for _, key := range []string{w.Tenant.Service, w.Tenant.Ops, w.Tenant.Resolver} {
		w.Client(key).Do(t, http.MethodPost, "/v1/prune", nil).Problem(t, http.StatusForbidden, "forbidden")
	}
	var body prunedBody
	w.Client(w.Tenant.Admin).Do(t, http.MethodPost, "/v1/prune", nil).Expect(t, http.StatusOK).Decode(t, &body)
	if body.Pruned != 3 || body.Left != 0 || !body.Done || body.TookSeconds <= 0 || body.Tenants != nil {
		t.Errorf("%+v", body)
	}
	if got := []int{records(t, w, w.Tenant), records(t, w, other)}; !cmp.Equal(got, []int{1, 2}) {
		t.Errorf("%v records are left", got)
	}
	w.Client(w.Tenant.Service).Inspect(t, live.ID, "").Expect(t, http.StatusOK)
	var entries int
	if err := w.Pool.QueryRow(t.Context(), "select count(*) from audit where tenant_id = $1 and action = 'records.prune'", w.Tenant.ID).Scan(&entries); err != nil || entries != 1 {
		t.Errorf("%d entries in the audit trail, %v", entries, err)
	}
}

func TestTheOperatorPrunesEverybodysRecords(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	other := w.NewTenant(t)
	expired(t, w, w.Tenant, 3)
	expired(t, w, other, 2)
	w.OperatorClient().Do(t, http.MethodPost, "/v1/admin/prune", nil).Problem(t, http.StatusUnauthorized, "unauthenticated")
	w.Client(w.Tenant.Admin).Do(t, http.MethodPost, "/v1/admin/prune", nil).Problem(t, http.StatusNotFound, "not_found")
	var body prunedBody
	w.Operator().Do(t, http.MethodPost, "/v1/admin/prune", nil).Expect(t, http.StatusOK).Decode(t, &body)
	got := map[string]int64{}
	for _, of := range body.Tenants {
		got[of.Tenant] = of.Pruned
	}
	want := map[string]int64{w.Tenant.ID.String(): 3, other.ID.String(): 2}
	if diff := cmp.Diff(got, want); diff != "" || body.Pruned != 5 || !body.Done {
		t.Errorf("%+v (-got +want):\n%s", body, diff)
	}
}

// outOfTime is real pruning whose callers have no time to wait.
type outOfTime struct {
	*pruning.Pruner
	left chan *auth.TenantID
}

func (p outOfTime) Run(ctx context.Context, req pruning.Request) (pruning.Report, error) {
	req.Within = time.Nanosecond
	return p.Pruner.Run(ctx, req)
}

func (p outOfTime) ContinuePruning(_ context.Context, tenant *auth.TenantID) error {
	p.left <- tenant
	return nil
}

func TestWhatTakesLongerThanItsCallerWaitsIsLeftToAJob(t *testing.T) {
	t.Parallel()
	left := make(chan *auth.TenantID, 2)
	w := apitest.New(t, apitest.Pruning(func(pool *pgxpool.Pool) api.Pruning {
		return outOfTime{pruning.New(pruning.Config{Pool: pool}), left}
	}))
	expired(t, w, w.Tenant, 2)
	var body prunedBody
	w.Client(w.Tenant.Admin).Do(t, http.MethodPost, "/v1/prune", nil).Expect(t, http.StatusOK).Decode(t, &body)
	if body.Done || body.Left != 2 || body.Pruned != 0 {
		t.Errorf("%+v", body)
	}
	if tenant := <-left; tenant == nil || *tenant != w.Tenant.ID {
		t.Errorf("a job goes on for %v", tenant)
	}
	w.Operator().Do(t, http.MethodPost, "/v1/admin/prune", nil).Expect(t, http.StatusOK)
	if tenant := <-left; tenant != nil {
		t.Errorf("a job goes on for %v, want everybody", tenant)
	}
}

func TestJobsAreShownToTheOperatorAlone(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Method + " " + r.URL.Path))
	})
	w := apitest.New(t, apitest.Jobs(page))
	a := w.OperatorClient().Do(t, http.MethodGet, "/ops/river/", nil)
	a.Problem(t, http.StatusUnauthorized, "unauthenticated")
	if a.Header.Get("WWW-Authenticate") == "" {
		t.Error("a browser is not asked for a password")
	}
	w.Client(w.Tenant.Admin).Do(t, http.MethodGet, "/ops/river/", nil).Problem(t, http.StatusNotFound, "not_found")
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		got := w.Operator().Do(t, method, "/ops/river/api/jobs", nil).Expect(t, http.StatusOK)
		if string(got.Body) != method+" /ops/river/api/jobs" {
			t.Errorf("%s: %s", method, got.Body)
		}
	}
	// A browser sends the token as a password; another site cannot use it.
	basic, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.OperatorURL+"/ops/river/api/jobs", nil)
	if err != nil {
		t.Fatal(err)
	}
	basic.SetBasicAuth("anybody", apitest.OperatorToken)
	for site, want := range map[string]int{"same-origin": http.StatusOK, "cross-site": http.StatusForbidden} {
		basic.Header.Set("Sec-Fetch-Site", site)
		answer, err := http.DefaultClient.Do(basic)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d", site, answer.StatusCode, want)
		}
	}
	none := apitest.New(t)
	none.Operator().Do(t, http.MethodGet, "/ops/river/", nil).Problem(t, http.StatusNotFound, "not_found")
}
