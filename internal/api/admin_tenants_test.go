package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/tenants"
)

type tenant struct {
	ID                  string     `json:"id"`
	Name                string     `json:"name"`
	State               string     `json:"state"`
	SuspendedReason     *string    `json:"suspended_reason"`
	MinRetentionSeconds int        `json:"min_retention_seconds"`
	MaxRetentionSeconds int        `json:"max_retention_seconds"`
	BodyLimitBytes      int        `json:"body_limit_bytes"`
	GraceSeconds        int        `json:"grace_seconds"`
	RequestsPerSecond   *int       `json:"requests_per_second"`
	NewKeysPerMinute    int        `json:"new_keys_per_minute"`
	MaxLiveRecords      *int       `json:"max_live_records"`
	MaxStoredBytes      *int       `json:"max_stored_bytes"`
	NamespaceRequests   *int       `json:"namespace_requests_per_second"`
	CallerRequests      *int       `json:"caller_requests_per_second"`
	CreatedAt           time.Time  `json:"created_at"`
	DeleteAfter         *time.Time `json:"delete_after"`
	DeletedRows         int        `json:"deleted_rows"`
}

type madeTenant struct {
	Tenant     tenant     `json:"tenant"`
	Credential credential `json:"credential"`
}

func makeTenant(t *testing.T, w *apitest.World, body apitest.Object) (made madeTenant) {
	t.Helper()
	a := w.Operator().Do(t, http.MethodPost, "/v1/admin/tenants", body).Expect(t, 201)
	a.Decode(t, &made)
	if got := a.Header.Get("Location"); got != "/v1/admin/tenants/"+made.Tenant.ID {
		t.Errorf("Location %q", got)
	}
	return made
}

func patchTenant(t *testing.T, w *apitest.World, id string, body apitest.Object) *apitest.Answer {
	t.Helper()
	return w.Operator().Do(t, http.MethodPatch, "/v1/admin/tenants/"+id, body)
}

func TestANewTenantComesWithItsFirstAdmin(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	made := makeTenant(t, w, apitest.Object{"name": "acme", "min_retention_seconds": 60, "requests_per_second": 100, "caller_requests_per_second": 7, "grace_seconds": 0})
	want := tenant{
		ID: made.Tenant.ID, Name: "acme", State: "active", MinRetentionSeconds: 60, MaxRetentionSeconds: 2592000, BodyLimitBytes: 1 << 20,
		RequestsPerSecond: new(100), CallerRequests: new(7), NewKeysPerMinute: 600, CreatedAt: made.Tenant.CreatedAt,
	}
	if diff := cmp.Diff(made.Tenant, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	admin := w.Client(made.Credential.Secret)
	if got := credentials(t, admin); len(got) != 1 || got[made.Credential.ID].Role != "admin" {
		t.Errorf("its credentials are %+v", got)
	}
	trail := auditOf(t, admin, "")
	if len(trail) != 2 || trail[len(trail)-1].Action != "tenant.create" || trail[0].Actor["kind"] != "operator" {
		t.Errorf("its trail is %+v", trail)
	}
	for _, body := range []apitest.Object{
		{},
		{"name": ""},
		{"name": "x", "body_limit_bytes": 0},
		{"name": "x", "body_limit_bytes": 1e12},
		{"name": "x", "min_retention_seconds": 0},
		{"name": "x", "max_retention_seconds": 60},
		{"name": "x", "grace_seconds": -1},
		{"name": "x", "requests_per_second": 0},
		{"name": "x", "new_keys_per_minute": -1},
		{"name": "x", "max_live_records": -2},
		{"name": "x", "state": "active"},
		{"name": "x", "secret": "mine"},
	} {
		w.Operator().Do(t, http.MethodPost, "/v1/admin/tenants", body).Problem(t, 400, "invalid_request")
	}
}

// A tenant that nobody can sign in to does not come about.
func TestATenantWhoseFirstAdminCannotBeMadeIsNotMade(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	exec(t, w, "alter table credentials add constraint none check (name <> 'first admin') not valid")
	w.Operator().Do(t, http.MethodPost, "/v1/admin/tenants", apitest.Object{"name": "orphan"}).Problem(t, 500, "internal")
	var left int
	if err := w.Pool.QueryRow(t.Context(), "select count(*) from tenants where name = 'orphan'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d tenants without an admin, %v", left, err)
	}
}

func TestTheOperatorListsTenantsInPages(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	want := map[string]bool{w.Tenant.ID.String(): true}
	for range 4 {
		want[makeTenant(t, w, apitest.Object{"name": "acme"}).Tenant.ID] = true // names need not differ
	}
	got := make(map[string]bool)
	for cursor := ""; ; {
		var list struct {
			Items      []tenant `json:"items"`
			NextCursor *string  `json:"next_cursor"`
		}
		w.Operator().Do(t, http.MethodGet, "/v1/admin/tenants?limit=2"+cursor, nil).Expect(t, 200).Decode(t, &list)
		for _, item := range list.Items {
			got[item.ID] = true
		}
		if list.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *list.NextCursor
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

// B063: who is suspended begins and administers nothing within 5 s, and
// finishes what it holds.
func TestASuspendedTenantFinishesWhatItHoldsAndDoesNothingElse(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	other := w.Start(t)
	c, admin := other.Client(w.Tenant.Service), other.Client(w.Tenant.Admin)
	held, lost := acquire(t, c, newKey(t)), acquire(t, c, newKey(t))
	id := w.Tenant.ID.String()
	patchTenant(t, w, id, apitest.Object{"state": "suspended"}).Problem(t, 400, "invalid_request")
	patchTenant(t, w, id, apitest.Object{"state": "suspended", "reason": "the invoice is unpaid"}).Expect(t, 200)
	suspended := time.Now()
	eventually(t, "the other process knows of the suspension", func() bool {
		return c.Begin(t, apitest.Charge(newKey(t))).Status == 403
	})
	if took := time.Since(suspended); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	eventually(t, "the other process knows it of every credential", func() bool {
		return admin.Do(t, http.MethodGet, "/v1/policy", nil).Status == 403
	})
	p := admin.Do(t, http.MethodGet, "/v1/audit", nil).Problem(t, 403, "suspended")
	if p.Detail == "" || !strings.Contains(p.Detail, "the invoice is unpaid") {
		t.Errorf("the detail is %q", p.Detail)
	}
	c.Renew(t, held, nil).Expect(t, 200)
	c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
	c.Release(t, lost).Expect(t, 204)
	patchTenant(t, w, id, apitest.Object{"state": "active"}).Expect(t, 200)
	eventually(t, "it may begin again", func() bool { return c.Begin(t, apitest.Charge(newKey(t))).Status == 201 })
}

func removeTenants(t *testing.T, w *apitest.World) {
	t.Helper()
	if err := tenants.NewUpkeep(w.Pool, keys.NewRetentions(w.Pool)).RemoveTenants(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestATenantIsDeletedAfterAGraceInWhichItCanBeUndone(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	stays := w.Tenant
	made := makeTenant(t, w, apitest.Object{"name": "doomed"})
	path := "/v1/admin/tenants/" + made.Tenant.ID
	admin := w.Client(made.Credential.Secret)
	service := issue(t, admin, apitest.Object{"name": "k", "role": "service", "create_namespace": apitest.Object{"name": "live"}})
	completed(t, w.Client(service.Secret), "a", 10)
	kept := completed(t, w.Client(stays.Service), "a", 10)
	operator := w.Operator()
	del := func(query string) *apitest.Answer {
		t.Helper()
		return operator.Do(t, http.MethodDelete, path+query, nil)
	}
	del("?name=doomed").Problem(t, 409, "not_suspended")
	patchTenant(t, w, made.Tenant.ID, apitest.Object{"state": "suspended", "reason": "gone"}).Expect(t, 200)
	del("").Problem(t, 400, "invalid_request")
	del("?name=Doomed").Problem(t, 400, "invalid_request")
	var doomed tenant
	del("?name=doomed").Expect(t, 202).Decode(t, &doomed)
	if doomed.State != "deleting" || doomed.DeleteAfter == nil || time.Until(*doomed.DeleteAfter) < 71*time.Hour {
		t.Errorf("%+v", doomed)
	}
	other := w.Start(t) // which has no copy of its credentials
	other.Client(service.Secret).Begin(t, apitest.Charge(newKey(t))).Problem(t, 401, "unauthenticated")
	removeTenants(t, w) // not before the grace is over
	patchTenant(t, w, made.Tenant.ID, apitest.Object{"state": "active"}).Problem(t, 404, "not_found")
	patchTenant(t, w, made.Tenant.ID, apitest.Object{"state": "suspended"}).Expect(t, 200)
	patchTenant(t, w, made.Tenant.ID, apitest.Object{"state": "active"}).Expect(t, 200)
	w.Start(t).Client(service.Secret).Begin(t, apitest.Charge(newKey(t))).Acquired(t)

	patchTenant(t, w, made.Tenant.ID, apitest.Object{"state": "suspended", "reason": "gone"}).Expect(t, 200)
	del("?name=doomed").Expect(t, 202)
	exec(t, w, "update tenants set delete_after = now() where tenant_id = $1", made.Tenant.ID)
	patchTenant(t, w, made.Tenant.ID, apitest.Object{"state": "suspended"}).Problem(t, 404, "not_found") // too late
	removeTenants(t, w)
	operator.Do(t, http.MethodGet, path, nil).Problem(t, 404, "not_found")
	rows, err := w.Pool.Query(t.Context(), `select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'tenant_id' where c.relkind = 'r' and c.relnamespace = 'public'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, table)
	}
	if err := rows.Err(); err != nil || len(tables) < 10 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, table := range tables {
		var left int
		if err := w.Pool.QueryRow(t.Context(), "select count(*) from "+table+" where tenant_id = $1", made.Tenant.ID).Scan(&left); err != nil || left != 0 {
			t.Errorf("%d rows are left in %s, %v", left, table, err)
		}
	}
	w.Client(stays.Service).Inspect(t, kept.ID, "").Expect(t, 200)
	if len(auditOf(t, w.Client(stays.Admin), "")) == 0 {
		t.Error("another tenant has lost its trail")
	}
}

func TestAnAdminCredentialIsRecoveredInSightOfTheTenant(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	path := "/v1/admin/tenants/" + w.Tenant.ID.String() + "/credentials"
	w.Operator().Do(t, http.MethodPost, path, apitest.Object{}).Problem(t, 400, "invalid_request")
	var recovered credential
	w.Operator().Do(t, http.MethodPost, path, apitest.Object{"reason": "the only admin has left"}).Expect(t, 201).Decode(t, &recovered)
	trail := auditOf(t, w.Client(recovered.Secret), "&action=credential.recover")
	if len(trail) != 1 || *trail[0].Reason != "the only admin has left" || trail[0].Actor["kind"] != "operator" {
		t.Errorf("the trail has %+v", trail)
	}
	for _, id := range []string{uuid.NewString(), "x"} {
		w.Operator().Do(t, http.MethodPost, "/v1/admin/tenants/"+id+"/credentials", apitest.Object{"reason": "because"}).Problem(t, 404, "not_found")
		w.Operator().Do(t, http.MethodGet, "/v1/admin/tenants/"+id, nil).Problem(t, 404, "not_found")
		w.Operator().Do(t, http.MethodDelete, "/v1/admin/tenants/"+id+"?name=x", nil).Problem(t, 404, "not_found")
		patchTenant(t, w, id, apitest.Object{"name": "x"}).Problem(t, 404, "not_found")
	}
}

func TestOnlyAnOperatorTokenOpensTheOperatorsCallsAndNothingElse(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for _, token := range []string{"", w.Tenant.Admin, apitest.OperatorToken + "x", apitest.OperatorToken[1:]} {
		w.Operator().Do(t, http.MethodGet, "/v1/admin/tenants", nil, "Authorization: Bearer "+token).Problem(t, 401, "unauthenticated")
	}
	for _, token := range []string{apitest.OperatorToken, apitest.OperatorToken + "-next"} {
		w.Operator().Do(t, http.MethodGet, "/v1/admin/tenants", nil, "Authorization: Bearer "+token).Expect(t, 200)
		w.Client(token).Do(t, http.MethodGet, "/v1/policy", nil).Problem(t, 401, "unauthenticated")
		w.Client(token).Do(t, http.MethodGet, "/v1/admin/tenants", nil).Problem(t, 404, "not_found")
	}
}
