package api

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// startSpan begins the span of the request, below the caller's where a
// traceparent came (W3C Trace Context). It is named by the route, and nothing
// of the path, the query, a header or the body becomes part of it.
func (x *exchange) startSpan(name string) {
	if x.api.tracer == nil {
		return
	}
	ctx := propagation.TraceContext{}.Extract(x.request.Context(), propagation.HeaderCarrier(x.request.Header))
	ctx, x.span = x.api.tracer.Start(ctx, name, //nolint:spancheck // endSpan ends it
		trace.WithTimestamp(x.started),
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(
			attribute.String("http.request.method", knownMethod(x.request.Method)),
			attribute.String("http.route", x.pattern()),
		))
	x.request = x.request.WithContext(ctx)
}

// endSpan says how the request was answered. One that met no route gets its span
// here, so that what is counted and what is traced are the same requests.
func (x *exchange) endSpan() {
	if x.span == nil {
		if x.route != nil || x.api.tracer == nil {
			return
		}
		x.startSpan(unmatched)
	}
	defer x.span.End()
	if !x.span.IsRecording() {
		return
	}
	attributes := append(make([]attribute.KeyValue, 0, 8),
		attribute.Int("http.response.status_code", x.status),
		attribute.String("onceward.request_id", x.requestID))
	if x.outcome != "" {
		attributes = append(attributes, attribute.String("onceward.outcome", x.outcome))
	}
	if x.caller.Credential != "" {
		attributes = append(attributes,
			attribute.String("onceward.tenant", x.caller.Tenant.String()),
			attribute.String("onceward.credential", string(x.caller.Credential)))
	}
	if x.outcome == "replay" {
		attributes = append(attributes, attribute.Float64("onceward.replay_age_seconds", x.replayAge.Seconds()))
	}
	if x.status >= http.StatusInternalServerError || x.status == 0 {
		x.span.SetStatus(codes.Error, "") // the log has the cause
		attributes = append(attributes, attribute.String("error.type", x.outcome))
	}
	x.span.SetAttributes(attributes...)
}

func (x *exchange) pattern() string {
	if x.route == nil {
		return ""
	}
	return x.route.pattern
}

// knownMethod keeps what callers make up out of spans (semantic conventions for
// HTTP spans: _OTHER).
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "_OTHER"
	}
}

// traceID is the trace that a record leads back to: the caller's, else ours if
// it is kept.
func (x *exchange) traceID() string {
	if sent := traceID(x.request.Header); sent != "" || x.span == nil || !x.span.SpanContext().IsSampled() {
		return sent
	}
	return x.span.SpanContext().TraceID().String()
}
