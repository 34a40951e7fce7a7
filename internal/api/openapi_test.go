package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/api/reference/openapitest"
)

// What the table says of every call of both listeners is what the document says.
func TestTheDocumentHasTheCallsOfBothListeners(t *testing.T) {
	t.Parallel()
	v, err := openapitest.New()
	if err != nil {
		t.Fatal(err)
	}
	line := func(operator bool, method, path string, roles, query any, body bool) string {
		return fmt.Sprintf("%s %s operator=%t roles=%v query=%v body=%t", method, path, operator, roles, query, body)
	}
	var got, want []string
	for _, o := range v.Operations() {
		if o.Roles != nil {
			slices.Sort(o.Query)
			got = append(got, line(o.Operator, o.Method, o.Path, o.Roles, o.Query, o.HasBody))
		}
	}
	for _, r := range api.Routes() {
		if r.Roles != nil {
			query := slices.Sorted(slices.Values(r.Query))
			want = append(want, line(r.Listener == api.Operator, r.Method, r.Pattern, r.Roles, query, r.HasBody))
		}
	}
	less := func(a, b string) bool { return a < b }
	if diff := cmp.Diff(got, want, cmpSorted(less)); diff != "" {
		t.Errorf("calls (-document +table):\n%s", diff)
	}
}

// What the operator sends and is answered is as the document says, and so is
// what too many failed sign-ins at a lease call are.
func TestTheOperatorsTrafficIsAsDocumented(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.SignInsPerSecond(1))
	operator := w.Operator()
	made := makeTenant(t, w, apitest.Object{"name": "acme", "max_live_records": 5, "caller_requests_per_second": 7})
	path := "/v1/admin/tenants/" + made.Tenant.ID
	operator.Do(t, http.MethodGet, "/v1/admin/tenants?limit=1", nil).Expect(t, 200)
	operator.Do(t, http.MethodGet, path, nil).Expect(t, 200)
	operator.Do(t, http.MethodDelete, path+"?name=acme", nil).Problem(t, 409, "not_suspended")
	operator.Do(t, http.MethodDelete, path+"?name=other", nil).Problem(t, 400, "invalid_request")
	operator.Do(t, http.MethodPost, path+"/credentials", apitest.Object{"reason": "the last key is lost"}).Expect(t, 201)
	patchTenant(t, w, made.Tenant.ID, apitest.Object{"requests_per_second": -1}).Expect(t, 200)
	patchTenant(t, w, made.Tenant.ID, apitest.Object{"state": "suspended", "reason": "unpaid"}).Expect(t, 200)
	operator.Do(t, http.MethodDelete, path+"?name=acme", nil).Expect(t, 202)
	operator.Do(t, http.MethodGet, "/v1/admin/tenants/none", nil).Problem(t, 404, "not_found")
	operator.Do(t, http.MethodPost, "/v1/admin/prune", nil).Expect(t, 200)

	wrong := w.Client("owk_aaaaaaaaaaaaaaaa_nosuchkey")
	lease := "Onceward-Lease: AAZhbaA6LwBkq9ZJ3mVxT0uC1fYpW8sE"
	for _, status := range []int{401, 429} {
		eventually(t, fmt.Sprintf("failed sign-ins are %d", status), func() bool {
			return wrong.Do(t, http.MethodDelete, "/v1/keys/AAAAAAAAAAAAAAAAAAAAAA/lease", nil, lease).Status == status
		})
	}
	v, err := openapitest.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range w.Exchanges() {
		if err := v.Validate(openapitest.Exchange(e)); err != nil {
			t.Error(err)
		}
	}
}
