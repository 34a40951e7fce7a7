package telemetry

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// NewLogger writes JSON lines to w from level upwards: times in UTC, durations
// as seconds. A line logged with a context that carries a span also has its
// trace_id and span_id. Where w is Lines, a line at the level warn or above is
// sent at once, with all before it.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	lines, _ := w.(*Lines)
	return slog.New(traced{lines: lines, Handler: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: inOurUnits})})
}

func inOurUnits(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case slog.KindDuration:
		a.Value = slog.Float64Value(float64(a.Value.Duration()) / float64(time.Second))
	default: // as it is
	}
	return a
}

// traced adds the ids of the context's span to a record.
type traced struct {
	slog.Handler
	lines *Lines // nil: each line is sent as it comes
}

// Handle writes one record.
func (h traced) Handle(ctx context.Context, record slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		record = record.Clone()
		record.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	err := h.Handler.Handle(ctx, record)
	if h.lines != nil && record.Level >= slog.LevelWarn {
		err = errors.Join(err, h.lines.Flush())
	}
	return err
}

// WithAttrs keeps what it makes traced.
func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traced{h.Handler.WithAttrs(attrs), h.lines}
}

// WithGroup keeps what it makes traced.
func (h traced) WithGroup(name string) slog.Handler {
	return traced{h.Handler.WithGroup(name), h.lines}
}
