package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/tenants"
)

func Test200ForARenewalIsTheLease(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	lease := 90 * time.Second
	w.SetPolicy(t, tenants.Override{Lease: &lease})
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	tests := map[string]struct {
		body    any
		headers []string
		want    time.Duration
	}{
		"a length":                  {apitest.Object{"lease_seconds": 600}, nil, 600 * time.Second},
		"no length":                 {apitest.Object{}, nil, lease},
		"nothing":                   {nil, nil, lease},
		"nothing, without a type":   {"", []string{"Content-Type:"}, lease},
		"nothing, as another type":  {"", []string{"Content-Type: text/plain"}, lease},
		"the shortest":              {apitest.Object{"lease_seconds": 1}, nil, time.Second},
		"the longest":               {apitest.Object{"lease_seconds": 3600}, nil, time.Hour},
		"a length with an exponent": {`{"lease_seconds": 6e2}`, nil, 600 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { // one after the other: it is one lease
			before := time.Now()
			a := c.Renew(t, held, tt.body, tt.headers...)
			checkCommonHeaders(t, a)
			got := a.Lease(t)
			if got.Token != held.Lease.Token || got.Fence != held.Lease.Fence || got.OnLeaseExpiry != "takeover" {
				t.Errorf("lease %+v, want the same attempt's", got)
			}
			if granted := got.ExpiresAt.Add(-tt.want); granted.Before(before.Truncate(time.Millisecond)) || granted.After(time.Now()) {
				t.Errorf("the lease ends at %s, want %s after the call, made at %s", got.ExpiresAt, tt.want, before)
			}
			checkTimes(t, a.Body, "expires_at")
		})
	}
	for name, body := range map[string]any{
		"none": apitest.Object{"lease_seconds": 0}, "too long": apitest.Object{"lease_seconds": 3601}, "a string": apitest.Object{"lease_seconds": "60"},
		"half a second": apitest.Object{"lease_seconds": 0.5}, "null": apitest.Object{"lease_seconds": nil},
	} {
		t.Run("400 for "+name, func(t *testing.T) {
			t.Parallel()
			checkFaults(t, c.Renew(t, held, body).Problem(t, 400, "invalid_request"), "/lease_seconds")
		})
	}
	checkFaults(t, c.Renew(t, held, apitest.Object{"seconds": 5}).Problem(t, 400, "invalid_request"), "/seconds")
}

func Test204HasNoBody(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	for name, a := range map[string]*apitest.Answer{
		"recovery point": c.SetRecoveryPoint(t, held, apitest.Object{"name": "a", "data": []int{1}}),
		"unknown":        c.DeclareUnknown(t, held),
		"release":        c.Release(t, held),
	} {
		a.Expect(t, 204)
		checkCommonHeaders(t, a)
		if len(a.Body) != 0 || a.Header.Get("Content-Type") != "" {
			t.Errorf("%s: body %q of type %q", name, a.Body, a.Header.Get("Content-Type"))
		}
	}
}

func Test409LeaseLostAndAlreadyCompletedAreToldApart(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
	stranger := held
	stranger.Lease.Token = "nobody"
	every := map[string]func(apitest.Acquired) *apitest.Answer{
		"complete": func(a apitest.Acquired) *apitest.Answer { return c.Complete(t, a, apitest.Object{"status": 201}) },
		"renew":    func(a apitest.Acquired) *apitest.Answer { return c.Renew(t, a, nil) },
		"release":  func(a apitest.Acquired) *apitest.Answer { return c.Release(t, a) },
		"unknown":  func(a apitest.Acquired) *apitest.Answer { return c.DeclareUnknown(t, a) },
		"recovery point": func(a apitest.Acquired) *apitest.Answer {
			return c.SetRecoveryPoint(t, a, apitest.Object{"name": "n", "data": 1})
		},
	}
	for name, call := range every {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			call(held).Problem(t, 409, "already_completed")
			call(stranger).Problem(t, 409, "lease_lost")
		})
	}
}

func TestARecoveryPointAtItsLimits(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	largest := `"` + strings.Repeat("d", 16<<10-2) + `"`
	tests := map[string]struct{ body, fault string }{
		"a name of 64":          {`{"name":"` + strings.Repeat("n", 64) + `","data":1}`, ""},
		"a name of 65":          {`{"name":"` + strings.Repeat("n", 65) + `","data":1}`, "/name"},
		"an empty name":         {`{"name":"","data":1}`, "/name"},
		"no name":               {`{"data":1}`, "/name"},
		"a name beyond ASCII":   {`{"name":"\u00e9","data":1}`, "/name"},
		"null for a name":       {`{"name":null,"data":1}`, "/name"},
		"no data":               {`{"name":"n"}`, "/data"},
		"null for data":         {`{"name":"n","data":null}`, ""},
		"null within data":      {`{"name":"n","data":[null,{"a":null}]}`, ""},
		"16 KiB of data":        {`{"name":"n","data":` + largest + `}`, ""},
		"a byte more of data":   {`{"name":"n","data": ` + strings.Replace(largest, "d", "dd", 1) + `}`, "/data"},
		"blanks beside 16 KiB":  {`{"name":"n","data":   ` + largest + `   }`, ""},
		"a name twice in data":  {`{"name":"n","data":{"a":1,"a":2}}`, "/data/a"},
		"half a pair in data":   {`{"name":"n","data":"\ud800"}`, "/data"},
		"a member that is none": {`{"name":"n","data":1,"note":2}`, "/note"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := c.Do(t, http.MethodPut, "/v1/keys/"+held.ID+"/recovery-point", tt.body, "Onceward-Lease: "+held.Lease.Token)
			if tt.fault == "" {
				a.Expect(t, 204)
				return
			}
			checkFaults(t, a.Problem(t, 400, "invalid_request"), tt.fault)
		})
	}
}

// B059, and the one 404: what cannot be an id, another tenant's record and
// another namespace's are told in the same words.
func Test404IsTheSameWhateverIsNotThere(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	stranger := w.NewTenant(t)
	foreign := acquire(t, w.Client(stranger.Service), newKey(t))
	elsewhere := acquire(t, w.Client(w.Tenant.FlatService), newKey(t))
	ids := map[string]string{
		"no record":                  "AAAAAAAAAAAAAAAAAAAAAA",
		"another tenant's record":    foreign.ID,
		"another namespace's record": elsewhere.ID,
		"too short":                  "abc",
		"too long":                   strings.Repeat("A", 5000),
		"another alphabet":           "AAAAAAAAAAAAAAAAAAAAA!",
		"stray bits":                 "AAAAAAAAAAAAAAAAAAAAAB",
		"an escape":                  "AAAAAAAAAAAAAAAAAAAAA%41",
		"a slash":                    "a%2F..%2Fb",
		"zero bytes":                 "%00%00",
		"no UTF-8":                   "%ff%fe",
	}
	bodies := map[string]string{}
	for name, id := range ids {
		a := c.Inspect(t, id, "")
		p := a.Problem(t, 404, "not_found")
		p.RequestID = ""
		bodies[name] = p.Detail + p.Title + p.Type
		lost := apitest.Acquired{ID: id, Lease: foreign.Lease}
		c.Complete(t, lost, apitest.Object{"status": 200}).Problem(t, 404, "not_found")
		c.Renew(t, lost, nil).Problem(t, 404, "not_found")
		c.Release(t, lost).Problem(t, 404, "not_found")
		c.DeclareUnknown(t, lost).Problem(t, 404, "not_found")
		c.SetRecoveryPoint(t, lost, apitest.Object{"name": "n", "data": 1}).Problem(t, 404, "not_found")
	}
	for name, body := range bodies {
		if body != bodies["no record"] {
			t.Errorf("%s: %q, want what is said of no record, %q", name, body, bodies["no record"])
		}
	}
	w.Client(stranger.Service).Complete(t, foreign, apitest.Object{"status": 200}).Expect(t, 200)
}

func TestAnIDIsTheSameWithItsDashesEscaped(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	escaped := ""
	for i := range len(held.ID) {
		escaped += "%" + strings.ToUpper(hexOf(held.ID[i]))
	}
	c.Inspect(t, escaped, "").Expect(t, 200)
}
