package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
)

func TestARecordIsShownWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	begin := apitest.Charge(key).With(apitest.Object{"caller": "cus_1", "owner": anOwner, "metadata": apitest.Object{"order": "42", "a.b": "\"\u00e9"}})
	held := c.Begin(t, begin, "traceparent: 00-"+trace+"-00f067aa0ba902b7-01").Acquired(t)
	c.SetRecoveryPoint(t, held, `{"name":"half","data":{"b" : 1,"a":2}}`).Expect(t, 204)
	c.Complete(t, held, apitest.Object{"status": 201, "headers": [][2]string{{"A", "b"}}, "body": "hello"}).Expect(t, 200)

	a := c.Inspect(t, held.ID, "")
	checkCommonHeaders(t, a)
	var got map[string]any
	a.Decode(t, &got)
	for _, name := range []string{"created_at", "completed_at", "expires_at"} {
		checkTimes(t, a.Body, name)
		delete(got, name)
	}
	attempt := got["history"].([]any)[0].(map[string]any)
	delete(attempt, "begun_at")
	delete(attempt, "ended_at")
	want := map[string]any{
		"id": held.ID, "namespace": w.Tenant.Live.String(), "caller": "cus_1", "operation": "POST /v1/charges", "key": key,
		"state": "completed", "attempt": 1.0, "fence": float64(held.Lease.Fence), "lease_expires_at": nil, "on_lease_expiry": "takeover",
		"recovery_point": map[string]any{"name": "half", "data": map[string]any{"b": 1.0, "a": 2.0}},
		"metadata":       map[string]any{"order": "42", "a.b": "\"\u00e9"},
		"status":         201.0, "body_bytes": 5.0,
		"history": []any{map[string]any{"attempt": 1.0, "how": "completed", "credential": w.Tenant.Service[4:20], "trace_id": trace}},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("record (-got +want):\n%s", diff)
	}
	for _, secret := range []string{held.Lease.Token, anOwner, "hello", "fingerprint"} {
		if strings.Contains(string(a.Body), secret) {
			t.Errorf("the record shows %s", secret)
		}
	}
	if !strings.Contains(string(a.Body), `{"b" : 1,"a":2}`) {
		t.Errorf("the recovery data is not as it was sent: %s", a.Body)
	}
}

func TestWhatARoleMaySeeOfARecord(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	held := acquire(t, c, newKey(t))
	c.SetRecoveryPoint(t, held, apitest.Object{"name": "half", "data": "canary-data"}).Expect(t, 204)
	c.Complete(t, held, apitest.Object{"status": 201, "body": "canary-body"}).Expect(t, 200)
	tokens := map[string]string{"service": w.Tenant.Service, "ops": w.Tenant.Ops, "resolver": w.Tenant.Resolver, "admin": w.Tenant.Admin}
	tests := map[string]map[string]int{
		"":                         {"service": 200, "ops": 200, "resolver": 200, "admin": 200},
		"?include=response":        {"service": 200, "ops": 403, "resolver": 403, "admin": 200},
		"?include=late":            {"service": 403, "ops": 403, "resolver": 403, "admin": 200},
		"?include=response,late":   {"service": 403, "ops": 403, "resolver": 403, "admin": 200},
		"?include=late%2Cresponse": {"service": 403, "ops": 403, "resolver": 403, "admin": 200},
		// The role comes before the values.
		"?include=nosuch":               {"service": 400, "ops": 400, "resolver": 400, "admin": 400},
		"?include=":                     {"service": 400, "ops": 400, "resolver": 400, "admin": 400},
		"?include=response,":            {"service": 400, "ops": 403, "resolver": 403, "admin": 400},
		"?include=nosuch,late":          {"service": 403, "ops": 403, "resolver": 403, "admin": 400},
		"?include=late&nosuch=1":        {"service": 403, "ops": 403, "resolver": 403, "admin": 400},
		"?include=late&include=late":    {"service": 403, "ops": 403, "resolver": 403, "admin": 400},
		"?include=Response":             {"service": 400, "ops": 400, "resolver": 400, "admin": 400},
		"?Include=response":             {"service": 400, "ops": 400, "resolver": 400, "admin": 400},
		"?include=response&include=bad": {"service": 400, "ops": 403, "resolver": 403, "admin": 400},
	}
	for query, roles := range tests {
		for role, status := range roles {
			t.Run(query+" as "+role, func(t *testing.T) {
				t.Parallel()
				a := w.Client(tokens[role]).Inspect(t, held.ID, query).Expect(t, status)
				body := string(a.Body)
				mayRecover := role == "service" || role == "admin"
				if status == 200 && strings.Contains(body, "recovery_point") != mayRecover {
					t.Errorf("recovery_point shown: %t, want %t", !mayRecover, mayRecover)
				}
				if got, want := strings.Contains(body, "canary-body"), status == 200 && strings.Contains(query, "response"); got != want {
					t.Errorf("response shown: %t, want %t: %s", got, want, body)
				}
				if status == 403 && !strings.Contains(body, "role "+role) {
					t.Errorf("%s does not name the role held", body)
				}
			})
		}
	}
}

func TestTheStatesOfARecordAreShown(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	state := func(t *testing.T, id string) map[string]any {
		t.Helper()
		var record map[string]any
		c.Inspect(t, id, "?include=response").Expect(t, 200).Decode(t, &record)
		return record
	}
	held := acquire(t, c, newKey(t))
	got := state(t, held.ID)
	if got["state"] != "in_progress" || got["status"] != nil || got["completed_at"] != nil || got["response"] != nil || got["lease_expires_at"] == nil {
		t.Errorf("in progress: %v", got)
	}
	w.Advance(t, held.ID, pastLease)
	if got := state(t, held.ID); got["state"] != "lapsed" {
		t.Errorf("lapsed: %v", got)
	}
	c.DeclareUnknown(t, held).Expect(t, 204)
	if got := state(t, held.ID); got["state"] != "unknown" || got["expires_at"] != nil {
		t.Errorf("unknown: %v", got)
	}
	c.Release(t, held).Expect(t, 204)
	if got := state(t, held.ID); got["state"] != "open" {
		t.Errorf("open: %v", got)
	}
	again := acquire(t, c, newKey(t))
	c.Complete(t, again, apitest.Object{"status": 200, "body_base64": "/w=="}).Expect(t, 200)
	got = state(t, again.ID)
	response := got["response"].(map[string]any)
	if got["state"] != "completed" || response["body_base64"] != "/w==" {
		t.Errorf("completed: %v", got)
	}
	w.Advance(t, again.ID, 25*time.Hour)
	c.Inspect(t, again.ID, "").Problem(t, 404, "not_found")
}

func TestALateCompletionIsShownToAdmin(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	first := acquire(t, c, key)
	w.Advance(t, first.ID, pastLease)
	acquire(t, c, key)
	c.Complete(t, first, apitest.Object{"status": 201, "headers": [][2]string{{"A", "b"}}, "body": "late"}).Problem(t, 409, "lease_lost")
	c.Complete(t, first, apitest.Object{"status": 201, "body_base64": "/w=="}).Problem(t, 409, "lease_lost")
	var record struct {
		Late []map[string]any `json:"late"`
	}
	var all map[string]any
	a := w.Client(w.Tenant.Admin).Inspect(t, first.ID, "?include=late").Expect(t, 200)
	a.Decode(t, &all)
	if list, _ := all["late"].([]any); len(list) == 2 {
		for _, item := range list {
			record.Late = append(record.Late, item.(map[string]any))
		}
	} else {
		t.Fatalf("late is %v, want two completions", all["late"])
	}
	for i := range record.Late {
		delete(record.Late[i], "at")
	}
	shared := func(extra map[string]any) map[string]any {
		m := map[string]any{"fence": float64(first.Lease.Fence), "status": 201.0, "credential": w.Tenant.Service[4:20], "trace_id": nil}
		for k, v := range extra {
			m[k] = v
		}
		return m
	}
	want := []map[string]any{
		shared(map[string]any{"header_names": []any{"A"}, "body_bytes": 4.0, "body_head": "late"}),
		shared(map[string]any{"header_names": []any{}, "body_bytes": 1.0, "body_head_base64": "/w=="}),
	}
	want[0]["body_sha256"], want[1]["body_sha256"] = sha256Hex("late"), sha256Hex("\xff")
	if diff := cmp.Diff(record.Late, want); diff != "" {
		t.Errorf("late completions (-got +want):\n%s", diff)
	}
}

// B003: a stranger sees nothing of a record, whoever asks.
func TestNoRoleOfAnotherTenantSeesARecord(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	held := acquire(t, w.Client(w.Tenant.Service), newKey(t))
	stranger := w.NewTenant(t)
	for _, token := range []string{stranger.Service, stranger.FlatService, stranger.Ops, stranger.Resolver, stranger.Admin} {
		w.Client(token).Do(t, http.MethodGet, "/v1/keys/"+held.ID, nil).Problem(t, 404, "not_found")
	}
	w.Client(w.Tenant.FlatService).Inspect(t, held.ID, "").Problem(t, 404, "not_found")
	for _, token := range []string{w.Tenant.Ops, w.Tenant.Resolver, w.Tenant.Admin} {
		w.Client(token).Inspect(t, held.ID, "").Expect(t, 200)
	}
}
