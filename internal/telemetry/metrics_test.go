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
			m.Begin([16]byte{1}, o)
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
		m.Route(route).Observe(status, "", 20*time.Millisecond)
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

func TestConflictsAreCountedByTheirCodeAndNothingElseIs(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	r := m.Route("POST /v1/keys")
	r.Observe(409, "in_progress", 0)
	r.Observe(409, "in_progress", 0)
	r.Observe(409, "a-text-of-nobody's", 0)
	r.Observe(422, "fingerprint_mismatch", 0) // as a policy may say
	page := scrape(t, m)
	wantLines(t, page, `onceward_conflicts_total{code="in_progress"} 2`, `onceward_conflicts_total{code="fingerprint_mismatch"} 0`)
	if strings.Contains(page, "nobody's") {
		t.Error("a code that is none became a label")
	}
}

func TestBatchesQueuesAndTheCacheAreShown(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	b := m.Batches("begin", "read")
	b.Observe(1, 3, 2*time.Millisecond)
	m.WatchStore(10, func() StoreStats {
		return StoreStats{Queues: []QueueStats{{"begin", 4, 5}, {"read", 0, 0}}, CacheHits: 6, CacheMisses: 7}
	})
	count := m.StoreErrors("connection", "other")
	count("connection")
	count("of no list")
	wantLines(t, scrape(t, m),
		`onceward_batch_entries_count{kind="begin"} 0`,
		`onceward_batch_entries_bucket{kind="read",le="2"} 0`,
		`onceward_batch_entries_bucket{kind="read",le="4"} 1`,
		`onceward_batch_duration_seconds_bucket{kind="read",le="0.001"} 0`,
		`onceward_batch_duration_seconds_bucket{kind="read",le="0.0025"} 1`,
		`onceward_queue_length{kind="begin"} 4`,
		`onceward_queue_refused_total{kind="begin"} 5`,
		`onceward_queue_limit 10`,
		`onceward_replay_cache_hits_total 6`,
		`onceward_replay_cache_misses_total 7`,
		`onceward_store_errors_total{kind="connection"} 1`,
		`onceward_store_errors_total{kind="other"} 1`,
	)
	if problems, err := testutil.GatherAndLint(m.registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// What every request pays.
func TestCountingARequestAllocatesNothing(t *testing.T) { //nolint:paralleltest // AllocsPerRun counts those of all goroutines
	for _, tenants := range []bool{false, true} {
		m := NewMetrics()
		if tenants {
			m.AllowTenants()
		}
		r, b := m.Route("POST /v1/keys"), m.Batches("begin")
		r.Observe(201, "acquired", time.Millisecond)
		if n := testing.AllocsPerRun(100, func() {
			r.Observe(201, "acquired", time.Millisecond)
			b.Observe(0, 3, time.Millisecond)
			m.Begin([16]byte{1}, BeginReplay)
			m.TenantConflict([16]byte{1}, "in_progress")
			m.ReplayAge(time.Second)
		}); n != 0 {
			t.Errorf("%v allocations; tenants are counted: %t", n, tenants)
		}
	}
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
	m.Route("GET /healthz").Observe(200, "", 0)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
