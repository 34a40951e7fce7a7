package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/telemetry"
)

func TestEveryAnswerOfKeysIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		observe func(o observer)
		want    []string // the counters that stand at 1; all others of ours at 0
	}{
		"acquired":                        {answered(keys.Acquired{Attempt: 1}), []string{`onceward_begins_total{outcome="acquired"}`}},
		"taken over":                      {answered(keys.Acquired{Attempt: 2, TakenOver: true}), []string{`onceward_begins_total{outcome="acquired"}`, "onceward_takeovers_total"}},
		"resumed":                         {answered(keys.Acquired{Resumed: true}), []string{`onceward_begins_total{outcome="resumed"}`}},
		"resumed, which took over before": {answered(keys.Acquired{Resumed: true, TakenOver: true}), []string{`onceward_begins_total{outcome="resumed"}`}},
		"replay":                          {answered(keys.Replay{Age: 3 * time.Second}), []string{`onceward_begins_total{outcome="replay"}`, "onceward_replay_age_seconds_count"}},
		"in progress":                     {answered(keys.InProgress{}), []string{`onceward_begins_total{outcome="in_progress"}`}},
		"mismatch":                        {answered(keys.Mismatch{}), []string{`onceward_begins_total{outcome="mismatch"}`}},
		"unknown":                         {answered(keys.Unknown{}), []string{`onceward_begins_total{outcome="unknown"}`}},
		"late completion":                 {func(o observer) { o.ObserveLateCompletion(auth.Caller{}, keys.LateObservation{}) }, []string{"onceward_late_completions_total"}},
		"corrupt":                         {func(o observer) { o.ObserveCorrupt(auth.Caller{}, keys.ID{}) }, []string{"onceward_corrupt_records_total"}},
	} {
		logger := slog.New(slog.DiscardHandler)
		metrics := telemetry.NewMetrics()
		tt.observe(observer{metrics: metrics, logger: logger})
		answer := httptest.NewRecorder()
		metrics.Handler(logger).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(answer.Body.String()) {
			counter, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if !strings.HasPrefix(counter, "onceward_") || strings.Contains(counter, "_bucket{") || strings.HasSuffix(counter, "_sum") {
				continue
			}
			want := "0"
			for _, w := range tt.want {
				if counter == w {
					want = "1"
				}
			}
			if value != want && !strings.Contains(line, "route=") {
				t.Errorf("%s: %s is %s, want %s", name, counter, value, want)
			}
		}
	}
}

func answered(outcome keys.Outcome) func(o observer) {
	return func(o observer) {
		o.ObserveBegin(auth.Caller{}, keys.BeginObservation{Operation: "op", Caller: "cus_1", Key: "a-secret-key", Outcome: outcome})
	}
}

func TestAnAlarmNamesTheRecordAndNeverItsKey(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	o := observer{metrics: telemetry.NewMetrics(), logger: telemetry.NewLogger(&logged, slog.LevelInfo)}
	id := keys.ID{1, 2, 3}
	o.ObserveCorrupt(auth.Caller{}, id)
	if !strings.Contains(logged.String(), `"level":"ERROR"`) || !strings.Contains(logged.String(), id.String()) {
		t.Errorf("logged %s", logged.String())
	}
	logged.Reset()
	if answered(keys.Mismatch{})(o); logged.Len() != 0 {
		t.Errorf("an ordinary answer is logged: %s", logged.String())
	}
}

// Who collects the metrics learns of a tenant only where the operator allows it.
func TestATenantIsInTheMetricsOnlyWhereItIsAllowed(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewURL(t)
	c := newClient(t, databaseURL)
	for _, allowed := range []bool{false, true} {
		i := startHere(t, databaseURL, fmt.Sprintf("ONCEWARD_METRICS_TENANTS=%t", allowed))
		body := strings.Replace(begin, "0123456789", fmt.Sprintf("%010d", time.Now().UnixNano()), 1)
		for _, want := range []int{http.StatusCreated, http.StatusConflict} {
			if got := call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), body); got.status != want {
				t.Fatalf("begin: %d %s, want %d", got.status, got.body, want)
			}
		}
		metrics := call(t, http.MethodGet, i.OpsURL+"/metrics", "", "").body
		if got := strings.Contains(metrics, c.tenant.String()); got != allowed {
			t.Errorf("allowed %t, and the tenant is there: %t", allowed, got)
		}
		for _, line := range []string{
			fmt.Sprintf(`onceward_tenant_begins_total{outcome="acquired",tenant="%s"} 1`, c.tenant), fmt.Sprintf(`onceward_tenant_begins_total{outcome="in_progress",tenant="%s"} 1`, c.tenant),
			fmt.Sprintf(`onceward_tenant_conflicts_total{code="in_progress",tenant="%s"} 1`, c.tenant), `onceward_tenant_begins_total{outcome="acquired",tenant="other"} 0`,
		} {
			if got := strings.Contains(metrics, "\n"+line+"\n"); got != allowed {
				t.Errorf("allowed %t, and %s is there: %t", allowed, line, got)
			}
		}
		i.stop()
		if err := i.wait(t); err != nil {
			t.Error(err)
		}
	}
}
