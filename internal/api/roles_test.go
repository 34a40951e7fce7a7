package api_test

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
)

// somePath is the path of a route with an id that nothing has.
func somePath(r api.Route) string {
	return strings.ReplaceAll(r.Pattern, "{id}", "AAAAAAAAAAAAAAAAAAAAAA")
}

// TestEveryCallIsOpenToTheRolesOfTheTableAndToNobodyElse calls every route of
// the table with every kind of credential that there is, and compares what it
// is told with the table.
func TestEveryCallIsOpenToTheRolesOfTheTableAndToNobodyElse(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	kinds := map[string]string{ // what is presented, by a name
		"nothing": "", "a text": "let-me-in", "expired": w.Issue(t, w.Tenant, auth.IssueParams{Name: "expired", Role: auth.RoleAdmin, ExpiresAt: new(time.Now().Add(time.Hour))}),
		"revoked":  w.Issue(t, w.Tenant, auth.IssueParams{Name: "revoked", Role: auth.RoleAdmin}),
		"operator": apitest.OperatorToken,
	}
	exec(t, w, "update credentials set expires_at = now() where credential_id = $1", kinds["expired"][4:20])
	exec(t, w, "update credentials set revoked_at = now() where credential_id = $1", kinds["revoked"][4:20])
	roles := map[auth.Role]string{
		auth.RoleService: w.Tenant.Service, auth.RoleOps: w.Tenant.Ops, auth.RoleResolver: w.Tenant.Resolver, auth.RoleAdmin: w.Tenant.Admin,
	}
	gone := w.NewTenant(t) // suspended
	if err := w.Tenants.Suspend(t.Context(), gone.ID, "the invoice is unpaid"); err != nil {
		t.Fatal(err)
	}
	suspended := map[auth.Role]string{
		auth.RoleService: gone.Service, auth.RoleOps: gone.Ops, auth.RoleResolver: gone.Resolver, auth.RoleAdmin: gone.Admin,
	}
	for _, r := range api.Routes() {
		if r.Roles == nil {
			continue
		}
		t.Run(r.Method+" "+r.Pattern, func(t *testing.T) {
			t.Parallel()
			try := func(token string) *apitest.Answer {
				t.Helper()
				c := w.Client(token)
				if r.Listener == api.Operator {
					c = w.OperatorClientWith(token)
				}
				var body any
				if r.HasBody {
					body = "{}"
				}
				return c.Do(t, r.Method, somePath(r), body, "Onceward-Lease: AAZhbaA6LwBkq9ZJ3mVxT0uC1fYpW8sE")
			}
			for name, token := range kinds {
				if name == "operator" && r.Listener == api.Operator {
					if a := try(token); a.Status == 401 || a.Status == 403 {
						t.Errorf("the operator got %d", a.Status)
					}
					continue
				}
				if a := try(token); a.Status != 401 {
					t.Errorf("%s got %d, want 401", name, a.Status)
				}
			}
			for role, token := range roles {
				a := try(token)
				switch {
				case r.Listener == api.Operator:
					a.Problem(t, 401, "unauthenticated")
				case !slices.Contains(r.Roles, role):
					a.Problem(t, 403, "forbidden")
				case a.Status == 401 || a.Status == 403 || a.Status >= 500 && a.Status != 503:
					t.Errorf("%s got %d: %s", role, a.Status, a.Body)
				}
			}
			for role, token := range suspended {
				a := try(token)
				switch {
				case r.Listener == api.Operator:
					a.Problem(t, 401, "unauthenticated")
				case !r.WhileSuspended:
					a.Problem(t, 403, "suspended")
				case slices.Contains(r.Roles, role) && a.Status == 403 && r.Pattern != "/v1/auth/token":
					t.Errorf("%s of the suspended tenant got %d: %s", role, a.Status, a.Body)
				}
			}
		})
	}
}

// TestAnotherTenantsObjectsAreAsIfTheyDidNotExist calls every route that names
// an object with the object of one tenant and the credentials of another: the
// answer is, but for its request id, that of an object that nobody has.
func TestAnotherTenantsObjectsAreAsIfTheyDidNotExist(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	owner, stranger := w.Client(w.Tenant.Service), w.NewTenant(t)
	held := unknownRecord(t, owner, newKey(t))
	credentialID := w.Tenant.Ops[4:20]
	decision := apitest.Object{"fence": held.Lease.Fence, "reason": "because"}
	calls := map[string]struct {
		role         string
		real, nobody string // ids
		body         any
	}{
		"PUT /v1/keys/{id}/response":              {stranger.Service, held.ID, "AAAAAAAAAAAAAAAAAAAAAA", apitest.Object{"status": 200}},
		"PATCH /v1/keys/{id}/lease":               {stranger.Service, held.ID, "AAAAAAAAAAAAAAAAAAAAAA", apitest.Object{}},
		"DELETE /v1/keys/{id}/lease":              {stranger.Service, held.ID, "AAAAAAAAAAAAAAAAAAAAAA", nil},
		"POST /v1/keys/{id}/unknown":              {stranger.Service, held.ID, "AAAAAAAAAAAAAAAAAAAAAA", nil},
		"PUT /v1/keys/{id}/recovery-point":        {stranger.Service, held.ID, "AAAAAAAAAAAAAAAAAAAAAA", apitest.Object{"name": "a", "data": 1}},
		"GET /v1/keys/{id}":                       {stranger.Admin, held.ID, "AAAAAAAAAAAAAAAAAAAAAA", nil},
		"POST /v1/keys/{id}/forget":               {stranger.Admin, held.ID, "AAAAAAAAAAAAAAAAAAAAAA", decision},
		"POST /v1/keys/{id}/resolution":           {stranger.Resolver, held.ID, "AAAAAAAAAAAAAAAAAAAAAA", decision.With(apitest.Object{"action": "retry"})},
		"POST /v1/credentials/{id}/rotate":        {stranger.Admin, credentialID, "aaaaaaaaaaaaaaaa", apitest.Object{}},
		"DELETE /v1/credentials/{id}":             {stranger.Admin, credentialID, "aaaaaaaaaaaaaaaa", nil},
		"PATCH /v1/namespaces/{id}":               {stranger.Admin, w.Tenant.Live.String(), uuid.NewString(), apitest.Object{"name": "x"}},
		"GET /v1/admin/tenants/{id}":              {},
		"PATCH /v1/admin/tenants/{id}":            {},
		"DELETE /v1/admin/tenants/{id}":           {},
		"POST /v1/admin/tenants/{id}/credentials": {},
	}
	for _, r := range api.Routes() {
		name := r.Method + " " + r.Pattern
		if r.Roles == nil || !strings.Contains(r.Pattern, "{id}") {
			continue
		}
		call, known := calls[name]
		if !known {
			t.Errorf("%s is not called as another tenant", name)
			continue
		}
		if r.Listener == api.Operator {
			continue // who belongs to no tenant
		}
		answers := make(map[string]apitest.Problem)
		for _, id := range []string{call.real, call.nobody} {
			a := w.Client(call.role).Do(t, r.Method, strings.ReplaceAll(r.Pattern, "{id}", id), call.body, "Onceward-Lease: "+held.Lease.Token)
			p := a.Problem(t, 404, "not_found")
			p.RequestID = ""
			answers[id] = p
		}
		if diff := cmp.Diff(answers[call.real], answers[call.nobody]); diff != "" {
			t.Errorf("%s tells of another tenant's object (-real +nobody):\n%s", name, diff)
		}
	}
	if got := recordOf(t, w.Client(w.Tenant.Admin).Inspect(t, held.ID, "")); got.State != "unknown" {
		t.Errorf("the record became %s", got.State)
	}
	w.Client(w.Tenant.Ops).Do(t, http.MethodGet, "/v1/policy", nil).Expect(t, 200)
}

// B003: two tenants with the same names, keys and operations see nothing of
// each other in any list, count or answer.
func TestTwoTenantsWithTheSameNamesSeeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	a, b := w.Tenant, w.NewTenant(t)
	key := newKey(t)
	begin := apitest.Charge(key).With(apitest.Object{"caller": "cus_1", "metadata": apitest.Object{"order": "canary-order"}})
	held := w.Client(a.Service).Begin(t, begin).Acquired(t)
	w.Client(a.Service).Complete(t, held, apitest.Object{"status": 200, "body": "canary-body"}).Expect(t, 200)
	putOperation(t, w.Client(a.Admin), apitest.Object{"operation": "canary-operation", "lease_seconds": 5})
	issue(t, w.Client(a.Admin), apitest.Object{"name": "canary-credential", "role": "ops"})
	search(t, w.Client(a.Ops), nil)

	own := w.Client(b.Service).Begin(t, begin).Acquired(t)
	if own.ID == held.ID || own.Attempt != 1 {
		t.Errorf("the other tenant got %+v", own)
	}
	for _, r := range api.Routes() {
		if r.Method != http.MethodGet || r.Listener != api.Public || r.Roles == nil || strings.Contains(r.Pattern, "{id}") {
			continue
		}
		token := b.Admin
		if !slices.Contains(r.Roles, auth.RoleAdmin) {
			token = b.Service
		}
		if answer := w.Client(token).Do(t, r.Method, r.Pattern, nil); strings.Contains(string(answer.Body), "canary") || strings.Contains(string(answer.Body), a.ID.String()) {
			t.Errorf("%s shows the other tenant's: %s", r.Pattern, answer.Body)
		}
	}
	if found := searchOnce(t, w.Client(b.Admin), apitest.Object{"metadata": apitest.Object{"order": "canary-order"}}).Items; len(found) > 0 && found[0].ID != own.ID {
		t.Errorf("search found %+v", found)
	}
	replay := w.Client(a.Service).Begin(t, begin).Replay(t)
	if string(replay.Response.Bytes()) != "canary-body" {
		t.Errorf("the first tenant's replay is %+v", replay.Response)
	}
}

// What a full run logs has no secret in it, whatever goes wrong.
func TestNoSecretReachesTheLog(t *testing.T) {
	t.Parallel()
	book := newLogbook()
	w := apitest.New(t, apitest.Logger(slog.New(book)))
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	made := issue(t, admin, apitest.Object{"name": "k", "role": "ops"})
	token := exchange(t, c)
	key := "canary-key-" + newKey(t)
	held := w.Client(token).Begin(t, apitest.Charge(key).With(apitest.Object{"owner": anOwner})).Acquired(t)
	c.Complete(t, held, apitest.Object{"status": 200, "body": "canary-body"}).Expect(t, 200)
	c.Begin(t, `{"key":"`+key+`","canary-member":1}`).Problem(t, 400, "invalid_request")
	searchOnce(t, admin, apitest.Object{"key": key})
	forget(t, admin, held.ID, held.Lease.Fence, apitest.Object{"reason": "canary-reason"}).Expect(t, 204)
	exec(t, w, "alter table audit add constraint none check (action = '') not valid")
	admin.Do(t, http.MethodPost, "/v1/credentials", apitest.Object{"name": "canary-name", "role": "ops"}).Problem(t, 500, "internal")
	exec(t, w, "alter table audit drop constraint none")
	w.Client(made.Secret+"x").Do(t, http.MethodGet, "/v1/policy?canary-parameter=1", nil).Problem(t, 401, "unauthenticated")
	logged := book.all()
	if !strings.Contains(logged, "POST /v1/keys/{id}/forget") {
		t.Fatalf("the log has not the run: %s", logged)
	}
	for name, secret := range map[string]string{
		"the admin's key": w.Tenant.Admin[21:], "a new key": made.Secret[21:], "a token": token[len(token)-40:], "a lease": held.Lease.Token,
		"the key": "canary-key", "a body": "canary-body", "a member": "canary-member", "a parameter": "canary-parameter", "the owner": anOwner, "the operator's token": apitest.OperatorToken,
	} {
		if strings.Contains(logged, secret) {
			t.Errorf("the log shows %s", name)
		}
	}
}
