package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
)

// credential is one of GET /v1/credentials, or (with its secret) of a POST.
type credential struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Role       string     `json:"role"`
	Namespace  *string    `json:"namespace"`
	Namespaces *[]string  `json:"namespaces"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	ReplacedAt *time.Time `json:"replaced_at"`
	ExpiresAt  *time.Time `json:"expires_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
	Secret     string     `json:"secret"`
}

func issue(t *testing.T, c *apitest.Client, body any) credential {
	t.Helper()
	var made credential
	c.Do(t, http.MethodPost, "/v1/credentials", body).Expect(t, 201).Decode(t, &made)
	return made
}

func credentials(t *testing.T, c *apitest.Client) map[string]credential {
	t.Helper()
	var list struct {
		Items      []credential `json:"items"`
		NextCursor *string      `json:"next_cursor"`
	}
	c.Do(t, http.MethodGet, "/v1/credentials", nil).Expect(t, 200).Decode(t, &list)
	byID := make(map[string]credential)
	for _, item := range list.Items {
		byID[item.ID] = item
	}
	return byID
}

// B067: two keys of one namespace are one deduper, whichever was there first.
func TestARotatedCredentialGoesOnDedupingAndSoDoesASecondOne(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	first := issue(t, admin, apitest.Object{"name": "k1", "role": "service", "create_namespace": apitest.Object{"name": "payments"}})
	key := newKey(t)
	held := acquire(t, w.Client(first.Secret), key)
	w.Client(first.Secret).Complete(t, held, apitest.Object{"status": 201, "body": "paid"}).Expect(t, 200)

	second := issue(t, admin, apitest.Object{"name": "k2", "role": "service", "namespace": first.Namespace})
	var rotated credential
	admin.Do(t, http.MethodPost, "/v1/credentials/"+first.ID+"/rotate", apitest.Object{"overlap_seconds": 60}).Expect(t, 201).Decode(t, &rotated)
	if rotated.Name != "k1" || rotated.ID == first.ID || *rotated.Namespace != *first.Namespace {
		t.Errorf("rotated into %+v", rotated)
	}
	for _, secret := range []string{first.Secret, second.Secret, rotated.Secret} { // both work for the overlap
		w.Client(secret).Begin(t, apitest.Charge(key)).Replay(t)
	}
	running := acquire(t, w.Client(first.Secret), newKey(t))
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+first.ID, nil).Expect(t, 204)
	w.Client(first.Secret).Begin(t, apitest.Charge(key)).Problem(t, 401, "unauthenticated")
	w.Client(first.Secret).Complete(t, running, apitest.Object{"status": 201}).Problem(t, 401, "unauthenticated")
	for _, secret := range []string{second.Secret, rotated.Secret} {
		if got := w.Client(secret).Begin(t, apitest.Charge(key)).Replay(t); string(got.Response.Bytes()) != "paid" {
			t.Errorf("replayed %+v, want what was stored under the revoked key", got)
		}
	}
	// The lease is the namespace's: what ran under the revoked key is finished under another.
	w.Client(second.Secret).Complete(t, running, apitest.Object{"status": 201}).Completion(t)

	admin.Do(t, http.MethodPost, "/v1/credentials/"+second.ID+"/rotate", apitest.Object{"overlap_seconds": 0}).Expect(t, 201)
	w.Client(second.Secret).Begin(t, apitest.Charge(key)).Problem(t, 401, "unauthenticated")
}

func TestARotationWithOverlapEndsByItself(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	made := issue(t, admin, apitest.Object{"name": "k1", "role": "ops"})
	admin.Do(t, http.MethodPost, "/v1/credentials/"+made.ID+"/rotate", nil).Expect(t, 201)
	old := credentials(t, w.Client(w.Tenant.Ops))[made.ID]
	if old.ReplacedAt == nil || old.ExpiresAt == nil || old.ExpiresAt.Sub(*old.ReplacedAt) != 24*time.Hour || old.RevokedAt != nil {
		t.Errorf("the old one is %+v, want it to end in a day", old)
	}
	admin.Do(t, http.MethodPost, "/v1/credentials/"+made.ID+"/rotate", nil).Problem(t, 404, "not_found") // its successor has the name
	for _, overlap := range []any{-1, 2592001, 0.5, "60", nil} {
		body := apitest.Object{"overlap_seconds": overlap}
		admin.Do(t, http.MethodPost, "/v1/credentials/"+made.ID+"/rotate", map[string]any(body)).Problem(t, 400, "invalid_request")
	}
}

func TestACredentialIsIssuedAsAsked(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	live := w.Tenant.Live.String()
	end := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	made := issue(t, admin, apitest.Object{"name": "r", "role": "resolver", "namespaces": []string{live}, "expires_at": end})
	if made.Secret == "" || made.Namespaces == nil || (*made.Namespaces)[0] != live || made.ExpiresAt == nil || !made.ExpiresAt.Equal(end) {
		t.Errorf("made %+v", made)
	}
	shown := credentials(t, admin)[made.ID]
	made.Secret = ""
	if diff := cmp.Diff(shown, made); diff != "" {
		t.Errorf("the list says something else (-list +issued):\n%s", diff)
	}
	for name, tt := range map[string]struct {
		body   apitest.Object
		status int
		code   string
		at     string
	}{
		"a name in use":             {apitest.Object{"name": "r", "role": "ops"}, 409, "name_taken", ""},
		"a service without one":     {apitest.Object{"name": "s", "role": "service"}, 400, "invalid_request", "/namespace"},
		"another tenant's":          {apitest.Object{"name": "s", "role": "service", "namespace": w.NewTenant(t).Live.String()}, 400, "invalid_request", "/namespace"},
		"no id":                     {apitest.Object{"name": "s", "role": "service", "namespace": "live"}, 400, "invalid_request", "/namespace"},
		"an admin with one":         {apitest.Object{"name": "s", "role": "admin", "namespace": live}, 400, "invalid_request", "/namespace"},
		"a role of the operator":    {apitest.Object{"name": "s", "role": "operator"}, 400, "invalid_request", "/role"},
		"no role":                   {apitest.Object{"name": "s"}, 400, "invalid_request", "/role"},
		"no name":                   {apitest.Object{"role": "ops"}, 400, "invalid_request", "/name"},
		"the past":                  {apitest.Object{"name": "s", "role": "ops", "expires_at": "2020-01-01T00:00:00Z"}, 400, "invalid_request", "/expires_at"},
		"no time":                   {apitest.Object{"name": "s", "role": "ops", "expires_at": "tomorrow"}, 400, "invalid_request", "/expires_at"},
		"an empty list":             {apitest.Object{"name": "s", "role": "resolver", "namespaces": []string{}}, 400, "invalid_request", "/namespaces"},
		"a namespace of a name":     {apitest.Object{"name": "s", "role": "service", "create_namespace": apitest.Object{"name": "live"}}, 409, "name_taken", ""},
		"a scope that is none":      {apitest.Object{"name": "s", "role": "service", "create_namespace": apitest.Object{"name": "x", "key_scope": "all"}}, 400, "invalid_request", "/create_namespace/key_scope"},
		"a secret of one's own":     {apitest.Object{"name": "s", "role": "ops", "secret": "owk_mine"}, 400, "invalid_request", "/secret"},
		"a null where none is said": {apitest.Object{"name": "s", "role": "ops", "expires_at": (*string)(nil)}, 400, "invalid_request", "/expires_at"},
	} {
		p := admin.Do(t, http.MethodPost, "/v1/credentials", tt.body).Problem(t, tt.status, tt.code)
		if tt.at != "" && (len(p.Errors) == 0 || p.Errors[0].Pointer != tt.at) {
			t.Errorf("%s: %+v, want the pointer %s", name, p.Errors, tt.at)
		}
	}
}

func TestTheLastAdminStays(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	own := w.Tenant.Admin[4:20]
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+own, nil).Problem(t, 409, "last_admin")
	second := issue(t, admin, apitest.Object{"name": "second", "role": "admin"})
	// One that was rotated away ends by itself: it keeps nobody.
	var third credential
	admin.Do(t, http.MethodPost, "/v1/credentials/"+second.ID+"/rotate", nil).Expect(t, 201).Decode(t, &third)
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+third.ID, nil).Expect(t, 204)
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+own, nil).Problem(t, 409, "last_admin")
	for _, id := range []string{w.NewTenant(t).Admin[4:20], "aaaaaaaaaaaaaaaa", "%00", "x"} {
		admin.Do(t, http.MethodDelete, "/v1/credentials/"+id, nil).Problem(t, 404, "not_found")
	}
}

func TestLastUseIsRecordedInBatchesAndNeverMovesAfterARevocation(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	service := w.Tenant.Service[4:20]
	if used := credentials(t, admin)[service].LastUsedAt; used != nil {
		t.Fatalf("used at %v before any use", used)
	}
	w.Client(w.Tenant.Service).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	if used := credentials(t, admin)[service].LastUsedAt; used != nil {
		t.Error("a request has written its own use")
	}
	if err := w.Auth.FlushUses(t.Context()); err != nil {
		t.Fatal(err)
	}
	used := credentials(t, admin)[service].LastUsedAt
	if used == nil || time.Since(*used) > time.Minute {
		t.Fatalf("used at %v", used)
	}
	// A second process uses it until just before it hears of the revocation.
	other := w.Start(t)
	other.Client(w.Tenant.Service).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+service, nil).Expect(t, 204)
	other.Client(w.Tenant.Service).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	if err := other.Auth.FlushUses(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := credentials(t, admin)[service].LastUsedAt; !after.Equal(*used) {
		t.Errorf("moved from %v to %v after the revocation", used, after)
	}
}

func TestARevocationByOneProcessIsSeenByAnotherWithin5Seconds(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	other := w.Start(t)
	other.Client(w.Tenant.Service).Do(t, http.MethodGet, "/v1/contract", nil).Expect(t, 200)
	w.Client(w.Tenant.Admin).Do(t, http.MethodDelete, "/v1/credentials/"+w.Tenant.Service[4:20], nil).Expect(t, 204)
	revoked := time.Now()
	eventually(t, "the other process refuses the key", func() bool {
		return other.Client(w.Tenant.Service).Do(t, http.MethodGet, "/v1/contract", nil).Status == 401
	})
	if took := time.Since(revoked); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestANamespaceIsMadeRenamedAndNeverChangesItsScope(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	type namespace struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		KeyScope string `json:"key_scope"`
	}
	var made, renamed namespace
	admin.Do(t, http.MethodPost, "/v1/namespaces", apitest.Object{"name": "eu", "key_scope": "namespace"}).Expect(t, 201).Decode(t, &made)
	admin.Do(t, http.MethodPost, "/v1/namespaces", apitest.Object{"name": "eu"}).Problem(t, 409, "name_taken")
	path := "/v1/namespaces/" + made.ID
	admin.Do(t, http.MethodPatch, path, apitest.Object{"name": "europe", "key_scope": "operation"}).Problem(t, 409, "immutable")
	admin.Do(t, http.MethodPatch, path, apitest.Object{"name": "live"}).Problem(t, 409, "name_taken")
	admin.Do(t, http.MethodPatch, path, apitest.Object{}).Problem(t, 400, "invalid_request")
	admin.Do(t, http.MethodPatch, path, apitest.Object{"name": "europe", "key_scope": "namespace"}).Expect(t, 200).Decode(t, &renamed)
	if want := (namespace{made.ID, "europe", "namespace"}); renamed != want {
		t.Errorf("renamed into %+v, want %+v", renamed, want)
	}
	var list struct {
		Items      []namespace `json:"items"`
		NextCursor *string     `json:"next_cursor"`
	}
	w.Client(w.Tenant.Ops).Do(t, http.MethodGet, "/v1/namespaces", nil).Expect(t, 200).Decode(t, &list)
	want := []namespace{renamed, {w.Tenant.Flat.String(), "flat", "namespace"}, {w.Tenant.Live.String(), "live", "operation"}}
	if diff := cmp.Diff(list.Items, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	for _, id := range []string{w.NewTenant(t).Live.String(), "x", "00000000-0000-0000-0000-000000000000"} {
		admin.Do(t, http.MethodPatch, "/v1/namespaces/"+id, apitest.Object{"name": "mine"}).Problem(t, 404, "not_found")
		admin.Do(t, http.MethodPatch, "/v1/namespaces/"+id, apitest.Object{"key_scope": "operation"}).Problem(t, 404, "not_found")
	}
}

type auditRecord struct {
	ID     string         `json:"id"`
	At     time.Time      `json:"at"`
	Actor  map[string]any `json:"actor"`
	Action string         `json:"action"`
	Object struct {
		Kind string  `json:"kind"`
		ID   *string `json:"id"`
	} `json:"object"`
	Reason    *string `json:"reason"`
	Before    any     `json:"before"`
	After     any     `json:"after"`
	RequestID *string `json:"request_id"`
	Address   *string `json:"address"`
}

// auditOf reads the whole trail, the newest first, in pages of one size.
func auditOf(t *testing.T, c *apitest.Client, query string) []auditRecord {
	t.Helper()
	var all []auditRecord
	for cursor := ""; ; {
		var list struct {
			Items      []auditRecord `json:"items"`
			NextCursor *string       `json:"next_cursor"`
		}
		c.Do(t, http.MethodGet, "/v1/audit?limit=3"+query+cursor, nil).Expect(t, 200).Decode(t, &list)
		all = append(all, list.Items...)
		if list.NextCursor == nil {
			return all
		}
		cursor = "&cursor=" + *list.NextCursor
	}
}

func TestTheTrailSaysWhoDidWhatAndNoSecret(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	before := len(auditOf(t, admin, ""))
	made := issue(t, admin, apitest.Object{"name": "k1", "role": "ops"})
	var rotated credential
	admin.Do(t, http.MethodPost, "/v1/credentials/"+made.ID+"/rotate", nil).Expect(t, 201).Decode(t, &rotated)
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+rotated.ID, nil).Expect(t, 204)
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+w.Tenant.Admin[4:20], nil).Problem(t, 409, "last_admin")
	refused := w.Client(w.Tenant.Ops).Do(t, http.MethodPost, "/v1/credentials", apitest.Object{"name": "k2", "role": "admin"})
	refused.Problem(t, 403, "forbidden")
	for range 3 { // the trail is told once a minute
		w.Client(w.Tenant.Ops).Do(t, http.MethodPost, "/v1/credentials", apitest.Object{"name": "k2", "role": "admin"}).Problem(t, 403, "forbidden")
	}
	held := acquire(t, w.Client(w.Tenant.Service), newKey(t))
	w.Client(w.Tenant.Service).Complete(t, held, apitest.Object{"status": 200, "body": "a secret body"}).Expect(t, 200)
	admin.Inspect(t, held.ID, "?include=response").Expect(t, 200)
	admin.Inspect(t, held.ID, "").Expect(t, 200)

	trail := auditOf(t, w.Client(w.Tenant.Ops), "")
	var actions []string
	for _, r := range trail[:len(trail)-before] {
		actions = append(actions, r.Action)
	}
	want := []string{"response.read", "call.refuse", "call.refuse", "credential.revoke", "credential.rotate", "credential.issue"}
	if diff := cmp.Diff(actions, want); diff != "" {
		t.Fatalf("actions, the newest first (-got +want):\n%s", diff)
	}
	if got, want := *trail[1].RequestID, refused.Header.Get("Request-Id"); got != want || trail[1].Actor["name"] != w.Tenant.Ops[4:20] ||
		*trail[1].Object.ID != "POST /v1/credentials" || *trail[1].Address != "127.0.0.1" {
		t.Errorf("the refusal is %+v", trail[1])
	}
	if rotation := trail[4]; *rotation.Object.ID != rotated.ID || rotation.After.(map[string]any)["replaces"] != made.ID || rotation.Before == nil {
		t.Errorf("the rotation is %+v", rotation)
	}
	for _, e := range w.Exchanges() {
		if !strings.Contains(e.URL, "/v1/audit") {
			continue
		}
		for _, secret := range []string{made.Secret, rotated.Secret, w.Tenant.Admin, "a secret body", held.Lease.Token} {
			if strings.Contains(string(e.Body), secret[len(secret)-12:]) {
				t.Errorf("the trail shows a secret: %s", e.Body)
			}
		}
	}
	if got := auditOf(t, admin, "&action=credential.rotate"); len(got) != 1 {
		t.Errorf("%d entries of one rotation", len(got))
	}
	if got := auditOf(t, admin, "&object="+made.ID); len(got) != 1 || got[0].Action != "credential.issue" {
		t.Errorf("about the first key: %+v", got)
	}
	if got := auditOf(t, w.Client(w.NewTenant(t).Admin), "&object="+made.ID); len(got) != 0 {
		t.Errorf("another tenant reads %+v", got)
	}
	w.Client(w.Tenant.Admin).Do(t, http.MethodGet, "/v1/audit?cursor=x", nil).Problem(t, 400, "invalid_request")
	w.Client(w.Tenant.Admin).Do(t, http.MethodGet, "/v1/audit?since=yesterday", nil).Problem(t, 400, "invalid_request")
}

// The change and its entry are one transaction: what cannot be audited does
// not happen.
func TestWhatCannotBeAuditedDoesNotHappen(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	exec(t, w, "alter table audit add constraint none check (action = '') not valid")
	admin.Do(t, http.MethodPost, "/v1/credentials", apitest.Object{"name": "k1", "role": "ops"}).Problem(t, 500, "internal")
	admin.Do(t, http.MethodPatch, "/v1/policy", apitest.Object{"lease_seconds": 5}, `If-Match: "1"`).Problem(t, 500, "internal")
	admin.Do(t, http.MethodDelete, "/v1/credentials/"+w.Tenant.Ops[4:20], nil).Problem(t, 500, "internal")
	exec(t, w, "alter table audit drop constraint none")
	for id, c := range credentials(t, admin) {
		if c.Name == "k1" || c.RevokedAt != nil {
			t.Errorf("%s: %+v", id, c)
		}
	}
	if got := admin.Do(t, http.MethodGet, "/v1/policy", nil).Header.Get("ETag"); got != `"1"` {
		t.Errorf("the policy has the version %s", got)
	}
}

func exec(t *testing.T, w *apitest.World, statement string, args ...any) {
	t.Helper()
	if _, err := w.Pool.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
}
