package telemetry

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestAWorkerShowsItsJobsAndTheAgeOfTheirLastSuccess(t *testing.T) {
	t.Parallel()
	m := NewWorkerMetrics()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	m.nowFunc = func() time.Time { return at.Add(90 * time.Second) }
	m.Job("prune", JobDone, 2*time.Second)
	m.Job("prune", JobFailed, 2*time.Second)
	m.JobLastSuccess("prune", at)
	m.Pruned(7, 3)
	m.RolledUp(5, 2)
	answer := httptest.NewRecorder()
	m.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	wantLines(t, answer.Body.String(),
		`onceward_job_runs_total{kind="prune",result="done"} 1`,
		`onceward_job_runs_total{kind="prune",result="failed"} 1`,
		`onceward_job_duration_seconds_count{kind="prune"} 2`,
		`onceward_job_last_success_timestamp_seconds{kind="prune"} 1.7959536e+09`,
		`onceward_job_last_success_age_seconds{kind="prune"} 90`,
		`onceward_pruned_records_total 7`,
		`onceward_expired_records_left 3`,
		`onceward_analytics_rolled_up_rows_total 5`,
		`onceward_analytics_pending_rows 2`,
	)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestTheCaptureOfAnalyticsIsShown(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.WatchCapture(func() CaptureStats { return CaptureStats{1, 2, 3, 4, 5} })
	wantLines(t, scrape(t, m),
		`onceward_analytics_flushes_total 1`,
		`onceward_analytics_flush_failures_total 2`,
		`onceward_analytics_events_dropped_total 3`,
		`onceward_analytics_folded_total 4`,
		`onceward_analytics_lost_total 5`,
	)
}
