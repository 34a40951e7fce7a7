package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

func forget(t *testing.T, c *apitest.Client, id string, fence int64, more apitest.Object) *apitest.Answer {
	t.Helper()
	return c.Do(t, http.MethodPost, "/v1/keys/"+id+"/forget", apitest.Object{"fence": fence, "reason": "asked for by the customer"}.With(more))
}

func resolve(t *testing.T, c *apitest.Client, id string, fence int64, more apitest.Object) *apitest.Answer {
	t.Helper()
	return c.Do(t, http.MethodPost, "/v1/keys/"+id+"/resolution", apitest.Object{"fence": fence, "reason": "the provider says so"}.With(more))
}

// retrying is more with the action retry; its nil values are kept.
func retrying(more apitest.Object) apitest.Object {
	both := apitest.Object{"action": "retry"}
	for name, value := range more {
		both[name] = value
	}
	return both
}

// unknownRecord is a record whose holder has said that it does not know.
func unknownRecord(t *testing.T, c *apitest.Client, key string) apitest.Acquired {
	t.Helper()
	held := acquire(t, c, key)
	c.DeclareUnknown(t, held).Expect(t, 204)
	return held
}

type shownRecord struct {
	ID     string `json:"id"`
	Key    string `json:"key"`
	Caller string `json:"caller"`
	State  string `json:"state"`
	Fence  int64  `json:"fence"`
}

func recordOf(t *testing.T, a *apitest.Answer) (r shownRecord) {
	t.Helper()
	if err := json.Unmarshal(a.Expect(t, 200).Body, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAForgottenRecordIsGoneWithAllThatWasStored(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	other := w.Start(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	key := "canary-" + newKey(t)
	begin := apitest.Charge(key).With(apitest.Object{"caller": "canary-caller", "metadata": apitest.Object{"order": "canary-order"}})
	first := c.Begin(t, begin).Acquired(t)
	c.SetRecoveryPoint(t, first, `{"name":"canary-point","data":"canary-data"}`).Expect(t, 204)
	w.Advance(t, first.ID, time.Hour)
	second := c.Begin(t, begin).Acquired(t) // a history
	c.Complete(t, second, apitest.Object{"status": 201, "headers": [][2]string{{"X", "canary-header"}}, "body": "canary-body"}).Expect(t, 200)
	c.Complete(t, first, apitest.Object{"status": 201, "body": "canary-late"}).Problem(t, 409, "lease_lost")
	for _, process := range []*apitest.Client{c, other.Client(w.Tenant.Service)} {
		for range 3 {
			process.Begin(t, begin).Replay(t) // it is in memory now
		}
	}
	fence := second.Lease.Fence

	forget(t, admin, first.ID, first.Lease.Fence, nil).Problem(t, 409, "record_changed")
	forget(t, admin, first.ID, fence, nil).Expect(t, 204)
	forget(t, admin, first.ID, fence, nil).Expect(t, 204)
	c.Inspect(t, first.ID, "").Problem(t, 404, "not_found")
	c.Complete(t, second, apitest.Object{"status": 201, "body": "x"}).Problem(t, 404, "not_found")
	c.Release(t, second).Problem(t, 404, "not_found")
	for _, table := range []string{"idempotency_keys", "key_history", "key_late_completions", "key_search", "audit"} {
		var rows string
		if err := w.Pool.QueryRow(t.Context(), "select coalesce(string_agg(t::text || encode(convert_to(t::text, 'utf8'), 'escape'), ''), '') from "+table+" t").Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(rows, "canary") || strings.Contains(rows, fmt.Sprintf("%x", "canary")) {
			t.Errorf("%s still has some of it: %s", table, rows)
		}
	}
	// Nobody serves the old answer from memory, and the fence goes on rising.
	again := other.Client(w.Tenant.Service).Begin(t, begin).Acquired(t)
	if again.Attempt != 1 || again.TakenOver || again.RecoveryPoint != nil || again.Lease.Fence <= fence {
		t.Errorf("acquired %+v after the fence %d", again, fence)
	}
	forget(t, admin, first.ID, fence, nil).Problem(t, 409, "record_changed")
	trail := auditOf(t, admin, "&object="+first.ID+"&action=record.forget")
	if len(trail) != 1 || *trail[0].Reason != "asked for by the customer" {
		t.Errorf("the trail has %+v", trail)
	}
}

func TestForgetOfALiveLeaseNeedsForceAndItsHolderIsLost(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	forget(t, admin, held.ID, held.Lease.Fence, nil).Problem(t, 409, "lease_live")
	forget(t, admin, held.ID, held.Lease.Fence+1, apitest.Object{"force": true}).Problem(t, 409, "record_changed")
	forget(t, admin, held.ID, held.Lease.Fence, apitest.Object{"force": true}).Expect(t, 204)
	next := acquire(t, c, key)
	if next.Lease.Fence <= held.Lease.Fence {
		t.Errorf("the fence fell from %d to %d", held.Lease.Fence, next.Lease.Fence)
	}
	c.Complete(t, held, apitest.Object{"status": 200}).Problem(t, 409, "lease_lost")
	c.Complete(t, next, apitest.Object{"status": 200}).Expect(t, 200)

	unknown := unknownRecord(t, c, newKey(t)) // does not expire, and goes all the same
	forget(t, admin, unknown.ID, unknown.Lease.Fence, nil).Expect(t, 204)
	c.Inspect(t, unknown.ID, "").Problem(t, 404, "not_found")
}

// Begins that wait for the row while it is forgotten come to a higher fence,
// and never to two leases.
func TestBeginsDuringAForgetNeverGetASmallerFence(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	for range 5 {
		key := newKey(t)
		held := acquire(t, c, key)
		c.Complete(t, held, apitest.Object{"status": 200}).Expect(t, 200)
		forgotten := make(chan int, 1)
		go func() {
			a, err := admin.Try(t.Context(), http.MethodPost, "/v1/keys/"+held.ID+"/forget", apitest.Object{"fence": held.Lease.Fence, "reason": "because"})
			if err != nil {
				forgotten <- 0
				return
			}
			forgotten <- a.Status
		}()
		var acquired []apitest.Acquired
		eventually(t, "somebody acquires the forgotten record", func() bool {
			if a := c.Begin(t, apitest.Charge(key)); a.Status == 201 {
				acquired = append(acquired, a.Acquired(t))
			}
			return len(acquired) > 0
		})
		c.Begin(t, apitest.Charge(key)).Problem(t, 409, "in_progress")
		if status := <-forgotten; status != 204 || acquired[0].Lease.Fence <= held.Lease.Fence {
			t.Errorf("forget answered %d, and the fence went from %d to %d", status, held.Lease.Fence, acquired[0].Lease.Fence)
		}
	}
}

func TestWhatForgetAndResolveDoNotTake(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	held := unknownRecord(t, c, newKey(t))
	for name, tt := range map[string]struct {
		more    apitest.Object
		pointer string
	}{
		"no fence":       {apitest.Object{"fence": nil}, "/fence"},
		"a broken fence": {apitest.Object{"fence": 0.5}, "/fence"},
		"no reason":      {apitest.Object{"reason": nil}, "/reason"},
		"a short reason": {apitest.Object{"reason": "no"}, "/reason"},
		"a long reason":  {apitest.Object{"reason": strings.Repeat("é", 501)}, "/reason"},
		"a control":      {apitest.Object{"reason": "a\u0000bc"}, "/reason"},
	} {
		for _, a := range []*apitest.Answer{
			forget(t, admin, held.ID, held.Lease.Fence, tt.more),
			resolve(t, admin, held.ID, held.Lease.Fence, retrying(tt.more)),
		} {
			if p := a.Problem(t, 400, "invalid_request"); len(p.Errors) != 1 || p.Errors[0].Pointer != tt.pointer {
				t.Errorf("%s: %+v", name, p.Errors)
			}
		}
	}
	for name, tt := range map[string]struct {
		more    apitest.Object
		pointer string
	}{
		"no action":           {nil, "/action"},
		"another action":      {apitest.Object{"action": "forget"}, "/action"},
		"no response":         {apitest.Object{"action": "complete"}, "/response"},
		"a response to retry": {apitest.Object{"action": "retry", "response": apitest.Object{"status": 200}}, "/response"},
		"no status":           {apitest.Object{"action": "complete", "response": apitest.Object{}}, "/response/status"},
		"a status of 199":     {apitest.Object{"action": "complete", "response": apitest.Object{"status": 199}}, "/response/status"},
	} {
		if p := resolve(t, admin, held.ID, held.Lease.Fence, tt.more).Problem(t, 400, "invalid_request"); len(p.Errors) == 0 || p.Errors[0].Pointer != tt.pointer {
			t.Errorf("%s: %+v", name, p.Errors)
		}
	}
	big := apitest.Object{"action": "complete", "response": apitest.Object{"status": 200, "body": strings.Repeat("x", 1<<20+1)}}
	resolve(t, admin, held.ID, held.Lease.Fence, big).Problem(t, 413, "body_too_large")
	stranger := w.Client(w.NewTenant(t).Admin)
	for _, id := range []string{held.ID, "x", "AAAAAAAAAAAAAAAAAAAAAA"} {
		forget(t, stranger, id, held.Lease.Fence, nil).Problem(t, 404, "not_found")
		resolve(t, stranger, id, held.Lease.Fence, apitest.Object{"action": "retry"}).Problem(t, 404, "not_found")
	}
	if got := recordOf(t, admin.Inspect(t, held.ID, "")); got.State != "unknown" {
		t.Errorf("it is %s after nothing but refusals", got.State)
	}
}

// B117: somebody finds the stuck key of a customer and frees it, with a reason.
func TestAResolverFindsAStuckKeyAndFreesIt(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	resolver, c := w.Client(w.Tenant.Resolver), w.Client(w.Tenant.Service)
	key := newKey(t)
	held, untouched := unknownRecord(t, c, key), unknownRecord(t, c, newKey(t))
	found := search(t, resolver, apitest.Object{"key": key, "state": "unknown"})
	if len(found) != 1 || found[0].ID != held.ID || found[0].Fence != held.Lease.Fence {
		t.Fatalf("found %+v", found)
	}
	resolve(t, resolver, held.ID, held.Lease.Fence+1, apitest.Object{"action": "retry"}).Problem(t, 409, "record_changed")
	resolved := recordOf(t, resolve(t, resolver, held.ID, held.Lease.Fence, apitest.Object{"action": "retry"}))
	again := recordOf(t, resolve(t, resolver, held.ID, held.Lease.Fence, apitest.Object{"action": "retry"}))
	if resolved.State != "open" || again != resolved {
		t.Errorf("resolved into %+v, and again %+v", resolved, again)
	}
	resolve(t, resolver, held.ID, held.Lease.Fence, apitest.Object{"action": "complete", "response": apitest.Object{"status": 200}}).Problem(t, 409, "not_unknown")
	// Its fingerprint stays bound, and its holder is a former one.
	other := apitest.Charge(key).With(apitest.Object{"request": apitest.Object{"method": "POST", "path": "/v1/charges", "body": "other"}})
	c.Begin(t, other).Problem(t, 409, "fingerprint_mismatch")
	next := acquire(t, c, key)
	if next.Attempt != 2 {
		t.Errorf("attempt %d, want 2", next.Attempt)
	}
	c.Complete(t, held, apitest.Object{"status": 200}).Problem(t, 409, "lease_lost")
	resolve(t, resolver, held.ID, held.Lease.Fence, apitest.Object{"action": "retry"}).Problem(t, 409, "record_changed")
	if got := recordOf(t, resolver.Inspect(t, untouched.ID, "")); got.State != "unknown" {
		t.Errorf("another record became %s", got.State)
	}
	trail := auditOf(t, resolver, "&object="+held.ID+"&action=record.resolve")
	if len(trail) != 1 || *trail[0].Reason != "the provider says so" || trail[0].Actor["role"] != "resolver" {
		t.Errorf("the trail has %+v", trail)
	}
}

func TestAResolutionCompletesWithTheRulesOfACompletion(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	patchPolicy(t, admin, apitest.Object{"store_errors": "none", "strip_headers": []string{"x-trace"}})
	key := newKey(t)
	held := unknownRecord(t, c, key)
	response := apitest.Object{"status": 502, "headers": [][2]string{{"Set-Cookie", "a"}, {"X-Trace", "1"}, {"X-Kept", "2"}}, "body": "failed"}
	body := apitest.Object{"action": "complete", "response": response}
	if got := recordOf(t, resolve(t, admin, held.ID, held.Lease.Fence, body)); got.State != "completed" { // store_errors does not apply
		t.Fatalf("resolved into %+v", got)
	}
	resolve(t, admin, held.ID, held.Lease.Fence, body).Expect(t, 200)
	replay := c.Begin(t, apitest.Charge(key)).Replay(t)
	if replay.Response.Status != 502 || len(replay.Response.Headers) != 1 || replay.Response.Headers[0][0] != "X-Kept" || string(replay.Response.Bytes()) != "failed" {
		t.Errorf("replayed %+v", replay.Response)
	}
	if replay.ExpiresAt.Sub(replay.CompletedAt) != 24*time.Hour {
		t.Errorf("kept from %s to %s", replay.CompletedAt, replay.ExpiresAt)
	}
	// What its holder stores now comes late: it is kept for somebody to see.
	c.Complete(t, held, apitest.Object{"status": 200, "body": "paid"}).Problem(t, 409, "already_completed")
	if a := admin.Inspect(t, held.ID, "?include=late").Expect(t, 200); !strings.Contains(string(a.Body), `"body_head":"paid"`) || !strings.Contains(string(a.Body), `"how":"resolved_completed"`) {
		t.Errorf("the record does not show it: %s", a.Body)
	}
}

func TestAResolverDecidesInItsNamespacesOnly(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	narrow := w.Client(w.Issue(t, w.Tenant, auth.IssueParams{Name: "narrow", Role: auth.RoleResolver, Namespaces: []auth.NamespaceID{w.Tenant.Flat}}))
	live, flat := unknownRecord(t, w.Client(w.Tenant.Service), newKey(t)), unknownRecord(t, w.Client(w.Tenant.FlatService), newKey(t))
	resolve(t, narrow, live.ID, live.Lease.Fence, apitest.Object{"action": "retry"}).Problem(t, 403, "forbidden")
	resolve(t, narrow, flat.ID, flat.Lease.Fence, apitest.Object{"action": "retry"}).Expect(t, 200)
	batch := narrow.Do(t, http.MethodPost, "/v1/resolutions/batch", apitest.Object{"resolutions": []apitest.Object{
		{"id": live.ID, "fence": live.Lease.Fence, "reason": "because", "action": "retry"},
		{"id": flat.ID, "fence": flat.Lease.Fence, "reason": "because", "action": "retry"},
		{"fence": 1, "reason": "because", "action": "retry"},
		{"id": "x", "fence": 1, "reason": "because", "action": "retry"},
		{"id": flat.ID, "fence": 1, "reason": "no", "action": "retry"},
		{"id": flat.ID, "fence": 1, "reason": "because", "action": "complete", "response": apitest.Object{"status": 1}},
	}}).Results(t)
	var got []string
	for _, r := range batch {
		text := fmt.Sprint(r.Status)
		if r.Problem != nil && len(r.Problem.Errors) > 0 {
			text += " " + r.Problem.Errors[0].Pointer
		}
		got = append(got, text)
	}
	want := []string{"403", "200", "400 /resolutions/2/id", "404", "400 /resolutions/4/reason", "400 /resolutions/5/response/status"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	many := make([]apitest.Object, 201)
	narrow.Do(t, http.MethodPost, "/v1/resolutions/batch", apitest.Object{"resolutions": many}).Problem(t, 400, "invalid_request")
	narrow.Do(t, http.MethodPost, "/v1/resolutions/batch", apitest.Object{"resolutions": []int{}}).Problem(t, 400, "invalid_request")
}

type searchPage struct {
	Items      []shownRecord `json:"items"`
	NextCursor *string       `json:"next_cursor"`
	Lag        float64       `json:"lag_seconds"`
}

func searchOnce(t *testing.T, c *apitest.Client, body apitest.Object) (p searchPage) {
	t.Helper()
	if err := json.Unmarshal(c.Do(t, http.MethodPost, "/v1/keys/search", body).Expect(t, 200).Body, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// search waits until the search is not behind any more.
func search(t *testing.T, c *apitest.Client, body apitest.Object) []shownRecord {
	t.Helper()
	asked := time.Now()
	var all []shownRecord
	eventually(t, "search has caught up", func() bool {
		p := searchOnce(t, c, body)
		all = p.Items
		return p.Lag < time.Since(asked).Seconds()-0.2
	})
	return all
}

func TestSearchFindsByEveryFilterTheNewestFirst(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	ops, c, flat := w.Client(w.Tenant.Ops), w.Client(w.Tenant.Service), w.Client(w.Tenant.FlatService)
	made := make(map[string]string) // id to name
	begin := func(c *apitest.Client, name string, more apitest.Object) apitest.Acquired {
		t.Helper()
		a := c.Begin(t, apitest.Charge("the-key-of-"+name).With(more)).Acquired(t)
		made[a.ID] = name
		return a
	}
	completed := begin(c, "completed", apitest.Object{"caller": "cus_1", "metadata": apitest.Object{"order": "1", "eu": "yes"}})
	c.Complete(t, completed, apitest.Object{"status": 200}).Expect(t, 200)
	begin(c, "running", apitest.Object{"caller": "cus_2", "operation": "other", "metadata": apitest.Object{"order": "2"}})
	lapsed := begin(c, "lapsed", apitest.Object{"caller": "cus_1"})
	held := begin(c, "held", apitest.Object{"on_lease_expiry": "hold", "owner": anOwner})
	unknown := begin(c, "unknown", nil)
	c.DeclareUnknown(t, unknown).Expect(t, 204)
	open := begin(flat, "open", nil)
	flat.Release(t, open).Expect(t, 204)
	stranger := w.NewTenant(t)
	w.Client(stranger.Service).Begin(t, apitest.Charge("the-key-of-completed")).Acquired(t)
	search(t, ops, nil)
	exec(t, w, "update idempotency_keys set lease_expires_at = now() where id = any($1)", []uuid.UUID{rawID(t, lapsed.ID), rawID(t, held.ID)})
	exec(t, w, "update key_search set lease_expires_at = now() where id = any($1)", []uuid.UUID{rawID(t, lapsed.ID), rawID(t, held.ID)})

	middle := unknown.CreatedAt
	for name, tt := range map[string]struct {
		filter apitest.Object
		want   []string
	}{
		"all":         {nil, []string{"open", "unknown", "held", "lapsed", "running", "completed"}},
		"key":         {apitest.Object{"key": "the-key-of-running"}, []string{"running"}},
		"caller":      {apitest.Object{"caller": "cus_1"}, []string{"lapsed", "completed"}},
		"no caller":   {apitest.Object{"caller": ""}, []string{"open", "unknown", "held"}},
		"operation":   {apitest.Object{"operation": "other"}, []string{"running"}},
		"namespace":   {apitest.Object{"namespace": w.Tenant.Flat.String()}, []string{"open"}},
		"strange":     {apitest.Object{"namespace": stranger.Live.String()}, nil},
		"in_progress": {apitest.Object{"state": "in_progress"}, []string{"running"}},
		"lapsed":      {apitest.Object{"state": "lapsed"}, []string{"lapsed"}},
		"unknown":     {apitest.Object{"state": "unknown"}, []string{"unknown", "held"}},
		"open":        {apitest.Object{"state": "open"}, []string{"open"}},
		"completed":   {apitest.Object{"state": "completed"}, []string{"completed"}},
		"metadata":    {apitest.Object{"metadata": apitest.Object{"order": "1"}}, []string{"completed"}},
		"both pairs":  {apitest.Object{"metadata": apitest.Object{"order": "2", "eu": "yes"}}, nil},
		"no pair":     {apitest.Object{"metadata": apitest.Object{}, "limit": 1}, []string{"open"}},
		"since":       {apitest.Object{"since": middle}, []string{"open", "unknown"}},
		"until":       {apitest.Object{"until": middle}, []string{"held", "lapsed", "running", "completed"}},
		"together":    {apitest.Object{"caller": "cus_1", "until": middle, "state": "completed"}, []string{"completed"}},
	} {
		var got []string
		for _, r := range searchOnce(t, ops, tt.filter).Items {
			got = append(got, made[r.ID])
		}
		if diff := cmp.Diff(got, tt.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
	}
	for _, body := range []apitest.Object{
		{"state": "gone"},
		{"limit": 0},
		{"limit": 201},
		{"namespace": "live"},
		{"since": "today"},
		{"until": 1},
		{"cursor": "x"},
		{"metadata": apitest.Object{"a b": "c"}},
		{"key": "a\u0000b"},
		{"caller": "é"},
	} {
		ops.Do(t, http.MethodPost, "/v1/keys/search", body).Problem(t, 400, "invalid_request")
	}
}

func rawID(t *testing.T, id string) uuid.UUID {
	t.Helper()
	raw, ok := keys.ParseID(id)
	if !ok {
		t.Fatalf("%s is no id", id)
	}
	return uuid.UUID(raw)
}

func TestASearchGoesOnByItsCursorAndNoOtherDoes(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	ops, c := w.Client(w.Tenant.Ops), w.Client(w.Tenant.Service)
	var want []string
	for range 7 {
		want = append(want, acquire(t, c, newKey(t)).ID)
	}
	slices.Reverse(want)
	search(t, ops, nil)
	var got []string
	filter := apitest.Object{"operation": "POST /v1/charges", "limit": 3}
	first := searchOnce(t, ops, filter)
	for p := first; ; p = searchOnce(t, ops, filter.With(apitest.Object{"cursor": *p.NextCursor})) {
		for _, r := range p.Items {
			got = append(got, r.ID)
		}
		if p.NextCursor == nil {
			break
		}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	cursor := *first.NextCursor
	tampered := "A" + cursor[1:]
	if tampered == cursor {
		tampered = "B" + cursor[1:]
	}
	for name, tt := range map[string]struct {
		c    *apitest.Client
		body apitest.Object
	}{
		"another filter": {ops, apitest.Object{"cursor": cursor}},
		"another tenant": {w.Client(w.NewTenant(t).Ops), filter.With(apitest.Object{"cursor": cursor})},
		"tampered":       {ops, filter.With(apitest.Object{"cursor": tampered})},
		"cut off":        {ops, filter.With(apitest.Object{"cursor": cursor[:10]})},
	} {
		if p := tt.c.Do(t, http.MethodPost, "/v1/keys/search", tt.body).Problem(t, 400, "invalid_request"); p.Errors[0].Pointer != "/cursor" {
			t.Errorf("%s: %+v", name, p.Errors)
		}
	}
}

func TestWhatAKilledProcessDidNotCarryOverIsFoundByTheJob(t *testing.T) {
	t.Parallel()
	postgrestest.NeedsLevel(t, 41)
	w := apitest.New(t)
	ops, c := w.Client(w.Tenant.Ops), w.Client(w.Tenant.Service)
	kept, ended := acquire(t, c, newKey(t)), acquire(t, c, newKey(t))
	search(t, ops, nil)
	exec(t, w, "delete from key_search where id = $1", rawID(t, kept.ID))
	w.Advance(t, ended.ID, 48*time.Hour)
	if err := keys.NewSearchUpkeep(w.Pool).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := searchOnce(t, ops, nil).Items; len(got) != 1 || got[0].ID != kept.ID {
		t.Errorf("found %+v", got)
	}
	var rows int
	if err := w.Pool.QueryRow(t.Context(), "select count(*) from key_search").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// A crash of the server empties what search looks in. Until it is filled again
// search says that anything may be missing; the job then fills it, and does so
// once.
func TestSearchIsFilledAgainAfterACrash(t *testing.T) {
	t.Parallel()
	postgrestest.NeedsLevel(t, 41)
	w := apitest.New(t)
	ops, c := w.Client(w.Tenant.Ops), w.Client(w.Tenant.Service)
	upkeep := keys.NewSearchUpkeep(w.Pool)
	held := acquire(t, c, newKey(t))
	search(t, ops, nil)
	exec(t, w, "update tenants set created_at = now() - interval '30 days'")
	if lag := searchOnce(t, ops, nil).Lag; lag > 60 {
		t.Errorf("before the crash search is %v s behind", lag)
	}
	exec(t, w, "truncate key_search, key_search_feeds, key_search_whole")
	if found := searchOnce(t, ops, nil); len(found.Items) != 0 || found.Lag < 30*24*60*60 {
		t.Errorf("after the crash: %d found, %v s behind", len(found.Items), found.Lag)
	}
	if err := upkeep.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := searchOnce(t, ops, nil); len(found.Items) != 1 || found.Items[0].ID != held.ID || found.Lag > 60 {
		t.Errorf("filled again: %+v", found)
	}
	exec(t, w, "delete from key_search")
	if err := upkeep.RunDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := searchOnce(t, ops, nil); len(found.Items) != 0 {
		t.Errorf("it compared again within the hour: %+v", found)
	}
}

// What no role but service and admin may see is in no answer to the others.
func TestOpsIsNeverShownWhatIsStored(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := c.Begin(t, apitest.Charge(newKey(t)).With(apitest.Object{"owner": anOwner})).Acquired(t)
	c.SetRecoveryPoint(t, held, `{"name":"canary-point","data":1}`).Expect(t, 204)
	c.Complete(t, held, apitest.Object{"status": 200, "headers": [][2]string{{"X", "canary-header"}}, "body": "canary-body"}).Expect(t, 200)
	for _, key := range []string{w.Tenant.Ops, w.Tenant.Resolver} {
		role := w.Client(key)
		search(t, role, nil)
		role.Inspect(t, held.ID, "?include=response").Problem(t, 403, "forbidden")
		for _, a := range []*apitest.Answer{role.Inspect(t, held.ID, ""), role.Do(t, http.MethodPost, "/v1/keys/search", apitest.Object{})} {
			for _, secret := range []string{"canary", held.Lease.Token, anOwner, "fingerprint", "recovery_point"} {
				if strings.Contains(string(a.Body), secret) {
					t.Errorf("shown %s: %s", secret, a.Body)
				}
			}
		}
	}
}
