package worker

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/internal/telemetry/otlptest"
)

// A job that a request enqueues carries its trace context, in the form of W3C,
// to whatever process works it: the span of the enqueueing stands below the
// request's, that of the work is a trace of its own, since it may come hours
// later, and links back to it. Both leave by OTLP.
func TestASpanOfAJobLinksBackToWhoeverEnqueuedIt(t *testing.T) {
	t.Parallel()
	h := setup(t)
	sink := otlptest.New(t)
	logger := slog.New(slog.DiscardHandler)
	targets := telemetry.Targets{TracesURL: sink.URL + otlptest.Traces}
	enqueuer, err := telemetry.NewMetrics().Export(t.Context(), targets, "onceward-api", logger)
	if err != nil {
		t.Fatal(err)
	}
	desk, err := NewDesk(h.pool, enqueuer.Provider(), logger)
	if err != nil {
		t.Fatal(err)
	}
	ctx, request := enqueuer.Tracer().Start(t.Context(), "POST /v1/prune")
	tenant := h.newTenant()
	if err := desk.ContinuePruning(ctx, &tenant); err != nil {
		t.Fatal(err)
	}
	request.End()
	var carried string
	if err := h.pool.QueryRow(t.Context(), "select metadata::text from river.river_job where kind = 'prune_on_demand'").Scan(&carried); err != nil {
		t.Fatal(err)
	}

	c := h.config()
	worked, err := c.Metrics.Export(t.Context(), targets, "onceward-worker", logger)
	if err != nil {
		t.Fatal(err)
	}
	c.Tracing = worked.Provider()
	r := h.start(c)
	h.until("select state = 'completed' from river.river_job where kind = 'prune_on_demand'")
	r.end()
	for _, e := range []*telemetry.Exporter{enqueuer, worked} {
		if err := e.Shutdown(background(t)); err != nil {
			t.Fatal(err)
		}
	}

	byName := map[string]*tracepb.Span{}
	for _, s := range sink.Spans(t) {
		byName[s.GetName()] = s
	}
	asked, enqueued, work := byName["POST /v1/prune"], byName["river.insert_many"], byName["river.work/prune_on_demand"]
	if asked == nil || enqueued == nil || work == nil {
		t.Fatalf("spans %v, and the job carries %s", byName, carried)
	}
	h.same("parent of the enqueueing", enqueued.GetParentSpanId(), asked.GetSpanId())
	h.same("trace of the enqueueing", enqueued.GetTraceId(), asked.GetTraceId())
	if cmp.Equal(work.GetTraceId(), asked.GetTraceId()) || len(work.GetParentSpanId()) > 0 {
		t.Error("the work is part of the request's trace, which has long ended")
	}
	if len(work.GetLinks()) != 1 {
		t.Fatalf("%d links, and the job carries %s", len(work.GetLinks()), carried)
	}
	h.same("trace of the link", work.GetLinks()[0].GetTraceId(), asked.GetTraceId())
	h.same("span of the link", work.GetLinks()[0].GetSpanId(), enqueued.GetSpanId())
	for _, kind := range []string{"prune", "roll_up"} { // which nobody's request enqueued
		if s := byName["river.work/"+kind]; s != nil && len(s.GetParentSpanId()) > 0 {
			t.Errorf("the scheduled job %s stands below another span", kind)
		}
	}
}
