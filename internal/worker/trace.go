package worker

import (
	"github.com/riverqueue/river/rivertype"
	"github.com/riverqueue/rivercontrib/otelriver"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
)

// traced makes a span of each job that is enqueued or worked, named by its kind.
// A job carries the trace context of whoever enqueued it (W3C traceparent, in
// its metadata), and its span links back there. nil traces nothing.
func traced(tracing trace.TracerProvider) []rivertype.Plugin {
	if tracing == nil {
		return nil
	}
	return []rivertype.Plugin{otelriver.NewMiddleware(&otelriver.MiddlewareConfig{
		EnableTracePropagation:      true,
		EnableWorkSpanJobKindSuffix: true,
		TracerProvider:              tracing,
		MeterProvider:               noop.NewMeterProvider(), // /metrics has the figures of jobs
	})}
}
