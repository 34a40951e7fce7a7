package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
)

func TestATenantOverItsRateIs429AndItsLeasesGoOn(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	patchTenant(t, w, w.Tenant.ID.String(), apitest.Object{"requests_per_second": 1}).Expect(t, 200)
	var limited *apitest.Answer
	eventually(t, "the rate is used up", func() bool {
		limited = c.Do(t, http.MethodGet, "/v1/contract", nil)
		return limited.Status == 429
	})
	limited.Problem(t, 429, "rate_limited")
	wantRate(t, limited, `"tenant";q=1;w=1`, `"tenant";r=0;t=1`)
	// 429 comes after the role and before the body.
	w.Client(w.Tenant.Ops).Begin(t, "{{{").Problem(t, 403, "forbidden")
	c.Begin(t, "{{{", "Content-Type: text/plain").Problem(t, 429, "rate_limited")
	c.Renew(t, held, nil).Expect(t, 200)
	c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
	patchTenant(t, w, w.Tenant.ID.String(), apitest.Object{"requests_per_second": -1}).Expect(t, 200)
	eventually(t, "there is no limit any more", func() bool {
		a := c.Do(t, http.MethodGet, "/v1/contract", nil)
		return a.Status == 200 && a.Header.Get("RateLimit") == ""
	})
}

// The rate of a namespace holds up those in it, and nobody else.
func TestANamespaceOverItsRateHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	tenant := patchTenant(t, w, w.Tenant.ID.String(), apitest.Object{"requests_per_second": 1000, "namespace_requests_per_second": 1}).Expect(t, 200)
	if !strings.Contains(string(tenant.Body), `"namespace_requests_per_second":1,`) {
		t.Errorf("the tenant: %s", tenant.Body)
	}
	var limited *apitest.Answer
	eventually(t, "the rate is used up", func() bool {
		limited = c.Do(t, http.MethodGet, "/v1/contract", nil)
		return limited.Status == 429
	})
	limited.Problem(t, 429, "rate_limited")
	wantRate(t, limited, `"namespace";q=1;w=1`, `"namespace";r=0;t=1`)
	c.Begin(t, "{{{", "Content-Type: text/plain").Problem(t, 429, "rate_limited")
	wantPolicy(t, w.Client(w.Tenant.FlatService).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200), `"namespace";q=1;w=1`)
	wantPolicy(t, w.Client(w.Tenant.Ops).Do(t, http.MethodGet, "/v1/usage", nil).Expect(t, 200), `"tenant";q=1000;w=1`)
	c.Renew(t, held, nil).Expect(t, 200)
	c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
}

// The rate of a caller counts its begins, replays and the entries of a batch
// alike; it is looked at once the JSON has been read, and before the values.
func TestACallerOverItsRateHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	of := func(caller string) apitest.Object {
		return apitest.Charge(newKey(t)).With(apitest.Object{"caller": caller})
	}
	known := of("cus_1")
	held := c.Begin(t, known).Acquired(t)
	c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
	patchTenant(t, w, w.Tenant.ID.String(), apitest.Object{"requests_per_second": 1000, "caller_requests_per_second": 1}).Expect(t, 200)
	var limited *apitest.Answer
	eventually(t, "the rate is used up", func() bool {
		limited = c.Begin(t, known)
		return limited.Status == 429
	})
	limited.Problem(t, 429, "rate_limited")
	wantRate(t, limited, `"caller";q=1;w=1`, `"caller";r=0;t=1`)
	c.Begin(t, "{{{").Problem(t, 400, "invalid_request")
	c.Begin(t, of(strings.Repeat("c", 256))).Problem(t, 400, "invalid_request")
	wantPolicy(t, c.Begin(t, of("cus_2")), `"caller";q=1;w=1`)
	for range 10 {
		wantPolicy(t, c.Begin(t, apitest.Charge(newKey(t))).Expect(t, 201), `"tenant";q=1000;w=1`)
	}
	batch := c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []apitest.Object{of("cus_3"), of("cus_3"), of("cus_4"), apitest.Charge(newKey(t))}})
	var got []int
	for _, r := range batch.Results(t) {
		got = append(got, r.Status)
	}
	if diff := cmp.Diff(got, []int{201, 429, 201, 201}); diff != "" {
		t.Errorf("the batch (-got +want):\n%s", diff)
	}
	wantPolicy(t, batch, `"tenant";q=1000;w=1`)
	if err := w.Limits.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	usage := w.Client(w.Tenant.Ops).Do(t, http.MethodGet, "/v1/usage", nil).Expect(t, 200)
	if !strings.Contains(string(usage.Body), `"caller_requests_per_second":1}`) {
		t.Errorf("the use: %s", usage.Body)
	}
	for _, no := range []apitest.Object{{"caller_requests_per_second": 0}, {"namespace_requests_per_second": 1_000_001}} {
		patchTenant(t, w, w.Tenant.ID.String(), no).Problem(t, 400, "invalid_request")
	}
	patchTenant(t, w, w.Tenant.ID.String(), apitest.Object{"caller_requests_per_second": -1}).Expect(t, 200)
	eventually(t, "there is no limit any more", func() bool {
		return c.Begin(t, known).Header.Get("RateLimit-Policy") == `"tenant";q=1000;w=1`
	})
}

func wantRate(t *testing.T, a *apitest.Answer, policy, left string) {
	t.Helper()
	wantPolicy(t, a, policy)
	if got := a.Header.Get("RateLimit"); got != left || a.Header.Get("Retry-After") != "1" {
		t.Errorf("RateLimit %s, want %s; Retry-After %s", got, left, a.Header.Get("Retry-After"))
	}
}

func wantPolicy(t *testing.T, a *apitest.Answer, policy string) {
	t.Helper()
	if got := a.Header.Get("RateLimit-Policy"); got != policy {
		t.Errorf("RateLimit-Policy %s, want %s", got, policy)
	}
}

func TestACallersNewKeysAreLimitedAndItsRetriesAreNot(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	patchTenant(t, w, w.Tenant.ID.String(), apitest.Object{"new_keys_per_minute": 3}).Expect(t, 200)
	c := w.Client(w.Tenant.Service)
	begin := func(caller string) apitest.Object {
		return apitest.Charge(newKey(t)).With(apitest.Object{"caller": caller})
	}
	known := begin("cus_1")
	held := c.Begin(t, known).Acquired(t)
	c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
	for range 10 {
		c.Begin(t, known).Replay(t) // never counts
	}
	c.Begin(t, begin("cus_1")).Acquired(t)
	c.Begin(t, begin("cus_1")).Acquired(t)
	a := c.Begin(t, begin("cus_1"))
	if a.Problem(t, 429, "rate_limited"); a.Header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	c.Begin(t, known).Replay(t)
	c.Begin(t, begin("cus_2")).Acquired(t)
	c.Begin(t, apitest.Charge(newKey(t))).Acquired(t)
	results := c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []apitest.Object{known, begin("cus_1"), begin("cus_3")}}).Results(t)
	if results[0].Status != 200 || results[1].Status != 429 || results[2].Status != 201 {
		t.Errorf("the batch: %d %d %d", results[0].Status, results[1].Status, results[2].Status)
	}
}

func TestAQuotaRefusesOnlyWhatWouldBeNew(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	patchTenant(t, w, w.Tenant.ID.String(), apitest.Object{"max_live_records": 2}).Expect(t, 200)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	if err := w.Limits.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	acquire(t, c, newKey(t))
	c.Begin(t, apitest.Charge(newKey(t))).Problem(t, 429, "quota_exceeded")
	c.Begin(t, apitest.Charge(key)).Problem(t, 409, "in_progress")
	c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
	c.Begin(t, apitest.Charge(key)).Replay(t)
	if err := w.Limits.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	usage := w.Client(w.Tenant.Ops).Do(t, http.MethodGet, "/v1/usage", nil).Expect(t, 200)
	for _, want := range []string{`"new_records":2`, `"limited":1`, `"live_records":2`, `"max_live_records":2`, `"new_keys_per_minute":600`} {
		if !strings.Contains(string(usage.Body), want) {
			t.Errorf("%s is not in %s", want, usage.Body)
		}
	}
	for _, query := range []string{"?from=x", "?to=1", "?from=2026-01-02&to=2026-01-01", "?from=2020-01-01&to=2026-01-01"} {
		w.Client(w.Tenant.Ops).Do(t, http.MethodGet, "/v1/usage"+query, nil).Problem(t, 400, "invalid_request")
	}
}
