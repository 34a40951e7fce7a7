package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
)

// patchPolicy changes the tenant's defaults under the ETag as it is now.
func patchPolicy(t *testing.T, c *apitest.Client, body apitest.Object) *apitest.Answer {
	t.Helper()
	return c.Do(t, http.MethodPatch, "/v1/policy", body, "If-Match: "+policyTag(t, c)).Expect(t, 200)
}

func policyTag(t *testing.T, c *apitest.Client) string {
	t.Helper()
	return c.Do(t, http.MethodGet, "/v1/policy", nil).Expect(t, 200).Header.Get("ETag")
}

func putOperation(t *testing.T, c *apitest.Client, body apitest.Object) *apitest.Answer {
	t.Helper()
	return c.Do(t, http.MethodPut, "/v1/policy/operations", body, "If-Match: "+policyTag(t, c)).Expect(t, 200)
}

func TestThePolicyOfANewTenantIsTheContracts(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	var got map[string]any
	w.Client(w.Tenant.Ops).Do(t, http.MethodGet, "/v1/policy", nil).Expect(t, 200).Decode(t, &got)
	want := map[string]any{
		"retention_seconds": 86400.0, "lease_seconds": 60.0, "on_mismatch": "reject", "mismatch_status": 409.0, "on_lease_expiry": "takeover",
		"store_errors": "all", "store_body": "all", "strip_headers": []any{}, "keep_headers": []any{}, "ignore_pointers": []any{},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestTwoAdministratorsCannotOverwriteEachOther(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	stale := policyTag(t, admin)
	changed := patchPolicy(t, admin, apitest.Object{"lease_seconds": 30})
	if changed.Header.Get("ETag") == stale || changed.Header.Get("ETag") != policyTag(t, admin) {
		t.Errorf("the ETag is %s after %s", changed.Header.Get("ETag"), stale)
	}
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPatch, "/v1/policy", apitest.Object{"lease_seconds": 90}},
		{http.MethodPut, "/v1/policy/operations", apitest.Object{"operation": "a", "lease_seconds": 90}},
		{http.MethodPut, "/v1/retention", apitest.Object{"default_seconds": 7200}},
	} {
		for _, tag := range []string{stale, "*", "W/" + changed.Header.Get("ETag"), "2", `"nonsense"`, `"02"`} {
			admin.Do(t, c.method, c.path, c.body, "If-Match: "+tag).Problem(t, 412, "precondition_failed")
		}
		admin.Do(t, c.method, c.path, c.body).Problem(t, 428, "precondition_required")
		// Values come first.
		admin.Do(t, c.method, c.path, apitest.Object{"nosuch": 1}).Problem(t, 400, "invalid_request")
	}
	admin.Do(t, http.MethodDelete, "/v1/policy/operations?operation=a", nil).Problem(t, 404, "not_found")
	patch := admin.Do(t, http.MethodPatch, "/v1/policy", apitest.Object{"lease_seconds": 90}, "If-Match: "+stale+`, `+changed.Header.Get("ETag"))
	patch.Expect(t, 200)
}

func TestAnOperationsPolicyIsPutShownAndTakenAway(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, ops := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Ops)
	live := w.Tenant.Live.String()
	putOperation(t, admin, apitest.Object{"operation": "b", "retention_seconds": 7200, "strip_headers": []string{"X-Trace"}})
	putOperation(t, admin, apitest.Object{"operation": "a", "namespace": live, "on_lease_expiry": "hold"})
	putOperation(t, admin, apitest.Object{"operation": "b", "lease_seconds": 5}) // whole rows: the retention is gone
	var got struct {
		Items      []map[string]any `json:"items"`
		NextCursor *string          `json:"next_cursor"`
	}
	list := ops.Do(t, http.MethodGet, "/v1/policy/operations", nil).Expect(t, 200)
	list.Decode(t, &got)
	want := []map[string]any{
		{"operation": "a", "namespace": live, "on_lease_expiry": "hold"},
		{"operation": "b", "namespace": nil, "lease_seconds": 5.0},
	}
	if diff := cmp.Diff(got.Items, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if list.Header.Get("ETag") != policyTag(t, admin) {
		t.Error("the two have different ETags")
	}
	for _, query := range []string{"operation=a", "operation=b&namespace=" + live, "operation=none"} {
		admin.Do(t, http.MethodDelete, "/v1/policy/operations?"+query, nil, "If-Match: "+policyTag(t, admin)).Problem(t, 404, "not_found")
	}
	admin.Do(t, http.MethodDelete, "/v1/policy/operations", nil, "If-Match: "+policyTag(t, admin)).Problem(t, 400, "invalid_request")
	admin.Do(t, http.MethodDelete, "/v1/policy/operations?operation=a&namespace="+live, nil).Problem(t, 428, "precondition_required")
	admin.Do(t, http.MethodDelete, "/v1/policy/operations?operation=a&namespace="+live, nil, "If-Match: "+policyTag(t, admin)).Expect(t, 204)
}

// Every member, changed under a live record: what is in force when a call is
// answered decides, but what was fixed when the record was acquired.
func TestEveryMemberOfThePolicyDoesWhatItSays(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	response := apitest.Object{"status": 200, "headers": [][2]string{{"X-A", "1"}, {"X-B", "2"}, {"X-C", "3"}}, "body": "hello"}

	patchPolicy(t, admin, apitest.Object{"keep_headers": []string{"x-a", "X-B"}, "strip_headers": []string{"x-B"}, "store_body": "none"})
	done := c.Complete(t, held, response).Completion(t)
	if diff := cmp.Diff(done.DroppedHeaders, []string{"X-B", "X-C"}); diff != "" {
		t.Errorf("dropped (-got +want):\n%s", diff)
	}
	replay := c.Begin(t, apitest.Charge(key)).Replay(t)
	if !replay.Response.BodyOmitted || len(replay.Response.Headers) != 1 {
		t.Errorf("replayed %+v", replay.Response)
	}
	other := apitest.Charge(key).With(apitest.Object{"request": apitest.Object{"method": "POST", "path": "/v1/charges", "body": "other"}})
	c.Begin(t, other).Problem(t, 409, "fingerprint_mismatch")
	patchPolicy(t, admin, apitest.Object{"mismatch_status": 422})
	c.Begin(t, other).Problem(t, 422, "fingerprint_mismatch")
	patchPolicy(t, admin, apitest.Object{"on_mismatch": "replay"})
	if c.Begin(t, other).Replay(t).FingerprintMatched {
		t.Error("another fingerprint is said to match")
	}

	failing := acquire(t, c, newKey(t))
	patchPolicy(t, admin, apitest.Object{"store_errors": "client"})
	if state := c.Complete(t, failing, apitest.Object{"status": 503}).Completion(t).State; state != "open" {
		t.Errorf("a 503 made it %s", state)
	}
	// on_lease_expiry is stored with the attempt: one acquired before stays.
	before := acquire(t, c, newKey(t))
	patchPolicy(t, admin, apitest.Object{"on_lease_expiry": "hold", "lease_seconds": 7})
	held2 := c.Begin(t, apitest.Charge(newKey(t)).With(apitest.Object{"owner": anOwner})).Acquired(t)
	if held2.Lease.OnLeaseExpiry != "hold" || held2.ExpiresAt != nil {
		t.Errorf("acquired %+v under hold", held2)
	}
	if left := held2.Lease.ExpiresAt.Sub(held2.CreatedAt); left != 7*time.Second {
		t.Errorf("a lease of %s, want 7 s", left)
	}
	patchPolicy(t, admin, apitest.Object{"on_lease_expiry": "takeover"})
	w.Advance(t, before.ID, time.Hour)
	w.Advance(t, held2.ID, time.Hour)
	for id, want := range map[string]string{before.ID: `"state":"lapsed"`, held2.ID: `"state":"unknown"`} {
		if a := c.Inspect(t, id, ""); !strings.Contains(string(a.Body), want) {
			t.Errorf("want %s: %s", want, a.Body)
		}
	}
}

func TestIgnorePointersReachTheFingerprintAndARecordKeepsItsOwn(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	sent := func(key, at string) apitest.Object {
		return apitest.Charge(key).With(apitest.Object{"request": apitest.Object{
			"method": "POST", "path": "/v1/charges", "content_type": "application/json", "body": `{"amount":1,"sent_at":"` + at + `"}`,
		}})
	}
	strict, lax := newKey(t), newKey(t)
	c.Begin(t, sent(strict, "1")).Acquired(t)
	putOperation(t, admin, apitest.Object{"operation": "POST /v1/charges", "ignore_pointers": []string{"/sent_at"}})
	c.Begin(t, sent(lax, "1")).Acquired(t)
	c.Begin(t, sent(lax, "2")).Problem(t, 409, "in_progress")
	c.Begin(t, sent(strict, "2")).Problem(t, 409, "fingerprint_mismatch")
	admin.Do(t, http.MethodDelete, "/v1/policy/operations?operation=POST+%2Fv1%2Fcharges", nil, "If-Match: "+policyTag(t, admin)).Expect(t, 204)
	c.Begin(t, sent(lax, "3")).Problem(t, 409, "in_progress")
}

func TestAPolicyIsInForceOnEveryProcessWithin5Seconds(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	other := w.Start(t)
	c := other.Client(w.Tenant.Service)
	acquire(t, c, newKey(t)) // the other process has its copy
	patchPolicy(t, w.Client(w.Tenant.Admin), apitest.Object{"lease_seconds": 9})
	changed := time.Now()
	eventually(t, "the other process gives leases of 9 s", func() bool {
		a := c.Begin(t, apitest.Charge(newKey(t))).Acquired(t)
		return a.Lease.ExpiresAt.Sub(a.CreatedAt) == 9*time.Second
	})
	if took := time.Since(changed); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestWhatAPolicyCannotBeIs400ByPointer(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	tag := policyTag(t, admin)
	many := make([]string, 33)
	for i := range many {
		many[i] = "/a"
	}
	for member, values := range map[string][]any{
		"retention_seconds": {0, -1, nil, 1e12, 0.5, "24h", 3599, 2592001, "86400", true, []int{1}},
		"lease_seconds":     {0, -1, nil, 3601, 1.5, "60"},
		"mismatch_status":   {404, 200, "409", 409.5, nil, 1e12},
		"on_mismatch":       {"ignore", "", 1, nil},
		"on_lease_expiry":   {"release", "", nil},
		"store_errors":      {"some", nil},
		"store_body":        {"half", nil},
		"strip_headers":     {"X-A", []string{""}, []string{"a b"}, nil, []int{1}},
		"keep_headers":      {[]string{"a:"}, nil},
		"ignore_pointers":   {[]string{"a"}, []string{"/~2"}, many, nil},
	} {
		for _, value := range values {
			body := map[string]any{member: value}
			p := admin.Do(t, http.MethodPatch, "/v1/policy", body, "If-Match: "+tag).Problem(t, 400, "invalid_request")
			if len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Pointer, "/"+member) {
				t.Errorf("%s %v: %+v", member, value, p.Errors)
			}
			body["operation"] = "a"
			admin.Do(t, http.MethodPut, "/v1/policy/operations", body, "If-Match: "+tag).Problem(t, 400, "invalid_request")
		}
	}
	for _, body := range []apitest.Object{
		{"lease_seconds": 5},
		{"operation": "", "lease_seconds": 5},
		{"operation": "é"},
		{"operation": strings.Repeat("o", 513)},
		{"operation": "a", "namespace": "x"},
		{"operation": "a", "namespace": w.NewTenant(t).Live.String()},
		{"operation": "a", "namespace": "00000000-0000-0000-0000-000000000000"},
	} {
		admin.Do(t, http.MethodPut, "/v1/policy/operations", body, "If-Match: "+tag).Problem(t, 400, "invalid_request")
	}
	if got := policyTag(t, admin); got != tag {
		t.Errorf("the version is %s after nothing but refusals, it was %s", got, tag)
	}
}
