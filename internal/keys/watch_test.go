package keys

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// A batch links to every traced request that it carries, stands below the first
// of them, and has no span where none is traced.
func TestABatchsSpanLinksToTheRequestsThatItCarries(t *testing.T) { //nolint:paralleltest // AllocsPerRun
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	b := &batcher[ref, int]{watch: watch{kind: BatchReads, tracer: tracer}}
	tasks := tasksOf[ref, int](t.Context(), ref{}, ref{}, ref{})

	if _, span := b.span(tasks); span != nil {
		t.Error("a batch of untraced requests has a span")
	}
	var want []trace.SpanID
	for _, i := range []int{1, 2} {
		ctx, request := tracer.Start(t.Context(), "request")
		tasks[i].ctx = ctx
		want = append(want, request.SpanContext().SpanID())
	}
	_, span := b.span(tasks)
	endSpan(span, nil)
	ended := recorder.Ended()
	if len(ended) != 1 || ended[0].Name() != "batch read" || ended[0].Parent().SpanID() != want[0] {
		t.Fatalf("%d spans ended: %v", len(ended), ended)
	}
	var got []trace.SpanID
	for _, link := range ended[0].Links() {
		got = append(got, link.SpanContext.SpanID())
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("links (-got +want):\n%s", diff)
	}
	if n := testing.AllocsPerRun(10, func() { (&batcher[ref, int]{}).span(nil) }); n > 1 { // the batcher itself
		t.Errorf("%v allocations without a tracer", n)
	}
}
