//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/telemetry/otlptest"
)

// The worker's own program under the standard variables: spans of jobs with the
// statements below them, the figures of /metrics and the log go out, what was
// left to send by the time the process ends, and nothing of a record.
func TestTheWorkersTracesMetricsAndLogsGoOutByOTLP(t *testing.T) {
	t.Parallel()
	sink := otlptest.New(t)
	databaseURL := postgrestest.NewURL(t)
	pool := open(t, databaseURL)
	fill(t, pool, newTenant(t, pool), 1)
	exec1(t, pool, "update idempotency_keys set key = 'canary-key', caller = 'canary-caller', operation = 'canary-operation', body = 'canary-body'")
	p := start(t, databaseURL, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL, "OTEL_RESOURCE_ATTRIBUTES=deployment.environment=here")
	p.untilWorked()
	p.stop()
	if n := number(t, pool, "select count(*) from idempotency_keys"); n != 0 {
		t.Errorf("%d records are not pruned", n)
	}

	jobs := map[string]*tracepb.Span{}
	for _, s := range sink.Spans(t) {
		if kind, ok := strings.CutPrefix(s.GetName(), "river.work/"); ok {
			jobs[kind] = s
		}
	}
	rollUp := jobs["roll_up"]
	if rollUp == nil {
		t.Fatalf("jobs with spans: %v", jobs)
	}
	below := 0
	for _, s := range sink.Spans(t) {
		if cmp.Equal(s.GetTraceId(), rollUp.GetTraceId()) && cmp.Equal(s.GetParentSpanId(), rollUp.GetSpanId()) {
			below++
		}
	}
	if below == 0 {
		t.Error("no statement has a span below its job's")
	}
	for _, want := range []struct{ path, text string }{
		{otlptest.Traces, "onceward-worker"},
		{otlptest.Traces, "deployment.environment"},
		{otlptest.Metrics, "onceward_job_runs_total"},
		{otlptest.Metrics, "onceward_pruned_records_total"},
		{otlptest.Logs, "listening"},
	} {
		if !strings.Contains(sink.All(want.path), want.text) {
			t.Errorf("%s did not get %q", want.path, want.text)
		}
	}
	if everything := sink.All(otlptest.Traces, otlptest.Metrics, otlptest.Logs) + p.log.String(); strings.Contains(everything, "canary") {
		t.Error("something of a record went out")
	}
}
