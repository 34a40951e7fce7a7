package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/exaring/otelpgx"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope names this service as the maker of its spans and log records.
const scope = "github.com/onceward/onceward"

// Targets are where traces, metrics and logs go by OTLP over HTTP; empty: nowhere.
type Targets struct {
	TracesURL, MetricsURL, LogsURL string
}

// Exporter sends what a process tells by OTLP. A nil *Exporter sends nothing,
// and everything that it makes is nil, which costs nothing.
type Exporter struct {
	traces *sdktrace.TracerProvider // nil: no traces
	logs   *sdklog.LoggerProvider   // nil: no logs
	ends   []func(context.Context) error
}

// Export begins to send, what /metrics shows included: service is the name of
// the process, and logger is told what could not be sent. It returns nil where
// there are no targets. Nothing waits for the collector: what does not go out
// in time is dropped.
func (p *process) Export(ctx context.Context, targets Targets, service string, logger *slog.Logger) (*Exporter, error) {
	if targets == (Targets{}) {
		return nil, nil //nolint:nilnil // sending nothing is a setting
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logger.Warn("telemetry could not be sent", slog.Any("error", err))
	}))
	// What the environment says (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES) wins.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(),
		resource.WithAttributes(attribute.String("service.name", service)), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return nil, fmt.Errorf("describe the process to OpenTelemetry: %w", err)
	}
	e := &Exporter{}
	if targets.TracesURL != "" {
		exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(targets.TracesURL))
		if err != nil {
			return nil, fmt.Errorf("set up the export of traces: %w", err)
		}
		e.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(wordless{exporter}))
		e.ends = append(e.ends, e.traces.Shutdown)
	}
	if targets.MetricsURL != "" {
		exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(targets.MetricsURL))
		if err != nil {
			return nil, fmt.Errorf("set up the export of metrics: %w", err)
		}
		reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(p.registry))))
		e.ends = append(e.ends, sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(reader)).Shutdown)
	}
	if targets.LogsURL != "" {
		exporter, err := otlploghttp.New(ctx, otlploghttp.WithEndpointURL(targets.LogsURL))
		if err != nil {
			return nil, fmt.Errorf("set up the export of logs: %w", err)
		}
		e.logs = sdklog.NewLoggerProvider(sdklog.WithResource(about), sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)))
		e.ends = append(e.ends, e.logs.Shutdown)
	}
	return e, nil
}

// Shutdown sends what is left, until ctx ends.
func (e *Exporter) Shutdown(ctx context.Context) error {
	if e == nil {
		return nil
	}
	var errs []error
	for _, end := range e.ends {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}

// Tracer makes the spans of this service; nil where no traces are sent.
func (e *Exporter) Tracer() trace.Tracer {
	if e == nil || e.traces == nil {
		return nil
	}
	return e.traces.Tracer(scope)
}

// Provider is for libraries that trace; nil where no traces are sent.
func (e *Exporter) Provider() trace.TracerProvider {
	if e == nil || e.traces == nil {
		return nil
	}
	return e.traces
}

// Statements makes the spans of SQL statements, named by their first word. They
// have the statement's text, which is ours, and never its values. Nil where no
// traces are sent.
func (e *Exporter) Statements() *otelpgx.Tracer {
	if e == nil || e.traces == nil {
		return nil
	}
	return otelpgx.NewTracer(
		otelpgx.WithTracerProvider(e.traces),
		otelpgx.WithDisableConnectionDetailsInAttributes(),
		otelpgx.WithDisableAcquireTracer())
}

// Logger is logger that also sends its records, from the same level upwards;
// logger itself where no logs are sent.
func (e *Exporter) Logger(logger *slog.Logger) *slog.Logger {
	if e == nil || e.logs == nil {
		return logger
	}
	return slog.New(both{logger.Handler(), otelslog.NewHandler(scope, otelslog.WithLoggerProvider(e.logs))})
}

// both writes a record twice, where the first one wants it.
type both struct{ first, second slog.Handler }

// Enabled implements slog.Handler.
func (b both) Enabled(ctx context.Context, level slog.Level) bool { return b.first.Enabled(ctx, level) }

// Handle implements slog.Handler.
func (b both) Handle(ctx context.Context, record slog.Record) error {
	return errors.Join(b.first.Handle(ctx, record), b.second.Handle(ctx, record.Clone()))
}

// WithAttrs implements slog.Handler.
func (b both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{b.first.WithAttrs(attrs), b.second.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (b both) WithGroup(name string) slog.Handler {
	return both{b.first.WithGroup(name), b.second.WithGroup(name)}
}

// wordless keeps the text of errors out of spans, whoever made them: a message
// of PostgreSQL may quote a value. Types and SQLSTATEs stay.
type wordless struct{ sdktrace.SpanExporter }

// ExportSpans implements sdktrace.SpanExporter.
func (w wordless) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	without := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		without[i] = wordlessSpan{span}
	}
	return w.SpanExporter.ExportSpans(ctx, without)
}

type wordlessSpan struct{ sdktrace.ReadOnlySpan }

// Status has no description.
func (s wordlessSpan) Status() sdktrace.Status {
	return sdktrace.Status{Code: s.ReadOnlySpan.Status().Code}
}

// Events have no messages and stacks.
func (s wordlessSpan) Events() []sdktrace.Event {
	events := s.ReadOnlySpan.Events()
	without := make([]sdktrace.Event, len(events))
	for i, event := range events {
		without[i] = event
		without[i].Attributes = nil
		for _, a := range event.Attributes {
			if a.Key == "exception.type" {
				without[i].Attributes = append(without[i].Attributes, a)
			}
		}
	}
	return without
}
