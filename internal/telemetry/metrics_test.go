package telemetry

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

func wantLines(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+page, "\n"+line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
}

func TestEveryOutcomeIsShownFromTheStart(t *testing.T) {
	t.Parallel()
	wantLines(t, scrape(t, NewMetrics()),
		`onceward_begins_total{outcome="acquired"} 0`,
		`onceward_begins_total{outcome="resumed"} 0`,
		`onceward_begins_total{outcome="replay"} 0`,
		`onceward_begins_total{outcome="in_progress"} 0`,
		`onceward_begins_total{outcome="mismatch"} 0`,
		`onceward_begins_total{outcome="unknown"} 0`,
		`onceward_takeovers_total 0`,
		`onceward_late_completions_total 0`,
		`onceward_corrupt_records_total 0`,
		`onceward_replay_age_seconds_count 0`,
	)
}

func TestEachFigureCountsItsOwn(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	for o := range beginOutcomes {
		for range o + 1 {
			m.Begin(o)
		}
	}
	m.Takeover()
	m.LateCompletion()
	m.LateCompletion()
	m.CorruptRecord()
	wantLines(t, scrape(t, m),
		`onceward_begins_total{outcome="acquired"} 1`,
		`onceward_begins_total{outcome="resumed"} 2`,
		`onceward_begins_total{outcome="replay"} 3`,
		`onceward_begins_total{outcome="in_progress"} 4`,
		`onceward_begins_total{outcome="mismatch"} 5`,
		`onceward_begins_total{outcome="unknown"} 6`,
		`onceward_takeovers_total 1`,
		`onceward_late_completions_total 2`,
		`onceward_corrupt_records_total 1`,
	)
}

// The bounds are the contract's (section 6), and a bound belongs to its bucket.
func TestReplayAgesHaveTheContractsBounds(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	for _, age := range []time.Duration{0, 100 * time.Millisecond, 101 * time.Millisecond, 24 * time.Hour, 24*time.Hour + 1} {
		m.ReplayAge(age)
	}
	wantLines(t, scrape(t, m),
		`onceward_replay_age_seconds_bucket{le="0.1"} 2`,
		`onceward_replay_age_seconds_bucket{le="0.5"} 3`,
		`onceward_replay_age_seconds_bucket{le="1"} 3`,
		`onceward_replay_age_seconds_bucket{le="2"} 3`,
		`onceward_replay_age_seconds_bucket{le="5"} 3`,
		`onceward_replay_age_seconds_bucket{le="10"} 3`,
		`onceward_replay_age_seconds_bucket{le="30"} 3`,
		`onceward_replay_age_seconds_bucket{le="60"} 3`,
		`onceward_replay_age_seconds_bucket{le="300"} 3`,
		`onceward_replay_age_seconds_bucket{le="1800"} 3`,
		`onceward_replay_age_seconds_bucket{le="3600"} 3`,
		`onceward_replay_age_seconds_bucket{le="21600"} 3`,
		`onceward_replay_age_seconds_bucket{le="86400"} 4`,
		`onceward_replay_age_seconds_bucket{le="+Inf"} 5`,
	)
}

func TestRequestsAreCountedByRouteAndClass(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	const route = "PUT /v1/keys/{id}/response"
	for _, status := range []int{200, 204, 404, 409, 503, 0, 999} {
		m.ObserveRequest(route, status, 20*time.Millisecond)
	}
	wantLines(t, scrape(t, m),
		`onceward_http_requests_total{class="2xx",route="PUT /v1/keys/{id}/response"} 2`,
		`onceward_http_requests_total{class="4xx",route="PUT /v1/keys/{id}/response"} 2`,
		`onceward_http_requests_total{class="5xx",route="PUT /v1/keys/{id}/response"} 1`,
		`onceward_http_requests_total{class="none",route="PUT /v1/keys/{id}/response"} 2`,
		`onceward_http_request_duration_seconds_bucket{route="PUT /v1/keys/{id}/response",le="0.01"} 0`,
		`onceward_http_request_duration_seconds_bucket{route="PUT /v1/keys/{id}/response",le="0.025"} 7`,
	)
}

func TestTheRuntimeIsShownToo(t *testing.T) {
	t.Parallel()
	page := scrape(t, NewMetrics())
	for _, name := range []string{"go_goroutines", "process_open_fds", "go_build_info"} {
		if !strings.Contains(page, "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
}

func TestNamesAndHelpsKeepPrometheussRules(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.ObserveRequest("GET /healthz", 200, 0)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
