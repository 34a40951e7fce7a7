package api_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
)

// Everything that a request carries is in it somewhere here, and none of it is
// in the log but ids.
func TestTheLogHasOneEventPerRequestAndNoSecret(t *testing.T) {
	t.Parallel()
	book := newLogbook()
	w := apitest.New(t, apitest.Logger(slog.New(book)))
	c := w.Client(w.Tenant.Service)
	key := "canary-key-" + newKey(t)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	begin := apitest.Charge(key).With(apitest.Object{"caller": "canary-caller", "owner": "canary-owner-0123456789", "metadata": apitest.Object{"canary": "canary-value"}})
	held := c.Begin(t, begin, "traceparent: 00-"+trace+"-00f067aa0ba902b7-01").Acquired(t)
	c.Begin(t, begin.With(apitest.Object{"owner": nil})).Problem(t, 409, "in_progress")
	c.Complete(t, held, apitest.Object{"status": 201, "headers": [][2]string{{"X-Canary", "canary-header"}}, "body": "canary-body"}).Expect(t, 200)
	c.Begin(t, begin).Replay(t)
	c.Renew(t, held, nil).Problem(t, 409, "already_completed")
	c.Inspect(t, held.ID, "?canary=canary-query").Problem(t, 400, "invalid_request")
	w.Client("canary-credential").Begin(t, begin).Problem(t, 401, "unauthenticated")
	c.Do(t, http.MethodGet, "/v1/canary-path?canary-query", nil).Problem(t, 404, "not_found")
	c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{begin, begin}}).Results(t)
	c.Do(t, "CANARY", "/v1/keys", nil).Problem(t, 405, "method_not_allowed")

	type event struct {
		Level, Route, Outcome, Role, Tenant, Credential, TraceID string
		Status                                                   int
	}
	id := w.Tenant.Service[4:20]
	tenant := w.Tenant.ID.String()
	want := []event{
		{"INFO", "POST /v1/keys", "acquired", "service", tenant, id, trace, 201},
		{"INFO", "POST /v1/keys", "in_progress", "service", tenant, id, "", 409},
		{"INFO", "PUT /v1/keys/{id}/response", "completed", "service", tenant, id, "", 200},
		{"INFO", "POST /v1/keys", "replay", "service", tenant, id, "", 200},
		{"INFO", "PATCH /v1/keys/{id}/lease", "already_completed", "service", tenant, id, "", 409},
		{"INFO", "GET /v1/keys/{id}", "invalid_request", "service", tenant, id, "", 400},
		{"INFO", "POST /v1/keys", "unauthenticated", "", "", "", "", 401},
		{"INFO", "unmatched", "not_found", "", "", "", "", 404},
		{"INFO", "POST /v1/keys/batch", "batch", "service", tenant, id, "", 200},
		{"INFO", "unmatched", "method_not_allowed", "", "", "", "", 405},
	}
	eventually(t, "every request is logged", func() bool { return strings.Count(book.all(), `"msg":"request"`) == len(want) })
	var got []event
	ids := map[string]bool{}
	for line := range strings.Lines(book.all()) {
		var e struct {
			Level      string   `json:"level"`
			Msg        string   `json:"msg"`
			Route      string   `json:"route"`
			Outcome    string   `json:"outcome"`
			Role       string   `json:"role"`
			Tenant     string   `json:"tenant"`
			Credential string   `json:"credential"`
			TraceID    string   `json:"trace_id"`
			RequestID  string   `json:"request_id"`
			Status     int      `json:"status"`
			Latency    float64  `json:"latency"`
			Operation  string   `json:"operation"`
			ReplayAge  *float64 `json:"replay_age"`
			Database   float64  `json:"database_time"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Msg != "request" {
			continue
		}
		if replayed := e.Outcome == "replay"; replayed != (e.ReplayAge != nil) || (e.Operation != "") != (e.Route == "POST /v1/keys" && e.Role != "") {
			t.Errorf("event %s: an operation belongs to a begin, a replay age to a replay", line)
		}
		if (e.Outcome == "acquired" || e.Outcome == "completed" || e.Outcome == "in_progress") && (e.Database <= 0 || e.Database > e.Latency) {
			t.Errorf("event %s has no database time within its latency", line)
		}
		if e.Latency <= 0 || e.RequestID == "" || ids[e.RequestID] {
			t.Errorf("event %s has no latency or no id of its own", line)
		}
		ids[e.RequestID] = true
		got = append(got, event{e.Level, e.Route, e.Outcome, e.Role, e.Tenant, e.Credential, e.TraceID, e.Status})
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("events (-got +want):\n%s", diff)
	}
	all := strings.ToLower(book.all())
	for _, secret := range []string{"canary", strings.ToLower(held.Lease.Token), strings.ToLower(held.ID), strings.ToLower(w.Tenant.Service), "127.0.0.1:"} {
		if strings.Contains(all, secret) {
			t.Errorf("the log has %q: %s", secret, book.all())
		}
	}
}

func TestARequestIDIsNeverTheCallers(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	first := c.Do(t, http.MethodGet, "/v1/contract", nil, "Request-Id: mine", "X-Request-Id: mine").Header.Get("Request-Id")
	second := c.Do(t, http.MethodGet, "/v1/contract", nil).Header.Get("Request-Id")
	if first == "" || first == "mine" || first == second {
		t.Errorf("request ids %q and %q, want two of the service's own", first, second)
	}
}
