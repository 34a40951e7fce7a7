package client

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
)

const scopeName = "github.com/onceward/onceward/client"

// telemetry is the client's spans and counters. Their labels are verbs and
// codes: never a key, a caller, an id or a text of an error.
type telemetry struct {
	tracer trace.Tracer

	calls       metric.Int64Counter // by call and code ("ok" for a success)
	retries     metric.Int64Counter // by call
	replays     metric.Int64Counter
	conflicts   metric.Int64Counter // by code
	unprotected metric.Int64Counter // requests that ran without protection
	undelivered metric.Int64Counter // by call: answered before the record knew
	leasesLost  metric.Int64Counter
	breaks      metric.Int64Counter // the circuit breaker opened
}

func newTelemetry(tracers trace.TracerProvider, meters metric.MeterProvider) (*telemetry, error) {
	if tracers == nil {
		tracers = tracenoop.NewTracerProvider()
	}
	if meters == nil {
		meters = metricnoop.NewMeterProvider()
	}
	t := &telemetry{tracer: tracers.Tracer(scopeName)}
	meter := meters.Meter(scopeName)
	for _, counter := range []struct {
		into              *metric.Int64Counter
		name, description string
	}{
		{&t.calls, "onceward.client.calls", "Calls of the service, by call and how they ended."},
		{&t.retries, "onceward.client.retries", "Tries of a call after its first."},
		{&t.replays, "onceward.client.replays", "Operations that were answered with the response of an earlier attempt."},
		{&t.conflicts, "onceward.client.conflicts", "Operations that were refused: in progress, mismatch, outcome unknown."},
		{&t.unprotected, "onceward.client.unprotected", "Requests that ran without protection since the service was out of reach."},
		{&t.undelivered, "onceward.client.undelivered", "Operations that were answered before their record knew how they ended."},
		{&t.leasesLost, "onceward.client.leases_lost", "Leases that were lost while the operation ran."},
		{&t.breaks, "onceward.client.breaker_opened", "How often the circuit breaker opened."},
	} {
		var err error
		if *counter.into, err = meter.Int64Counter(counter.name, metric.WithDescription(counter.description)); err != nil {
			return nil, err
		}
	}
	return t, nil
}

func callAttr(call string) attribute.KeyValue { return attribute.String("call", call) }

func codeAttr(err error) attribute.KeyValue {
	code := "ok"
	if err != nil {
		if code = string(CodeOf(err)); code == "" {
			code = "canceled" // by the caller's own context
		}
	}
	return attribute.String("code", code)
}

// start begins the span of one call.
func (t *telemetry) start(ctx context.Context, call string) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, "onceward "+call, trace.WithSpanKind(trace.SpanKindClient)) //nolint:spancheck // finish ends it
}

// finish ends the span of one call and counts it.
func (t *telemetry) finish(ctx context.Context, span trace.Span, call string, tries, status int, err error) {
	code := codeAttr(err)
	span.SetAttributes(code, attribute.Int("tries", tries))
	if status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if err != nil {
		span.SetStatus(codes.Error, code.Value.AsString())
	}
	span.End()
	t.calls.Add(ctx, 1, metric.WithAttributes(callAttr(call), code))
	if tries > 1 {
		t.retries.Add(ctx, int64(tries-1), metric.WithAttributes(callAttr(call)))
	}
}

// propagate writes the context of the span in ctx as W3C Trace Context,
// section 3.2: one line that needs no package of its own.
func propagate(ctx context.Context, h http.Header) {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return
	}
	h.Set("Traceparent", "00-"+span.TraceID().String()+"-"+span.SpanID().String()+"-"+span.TraceFlags().String())
	if state := span.TraceState().String(); state != "" {
		h.Set("Tracestate", state)
	}
}
