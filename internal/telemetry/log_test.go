package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"
)

// lastLine is what was logged last, less its time.
func lastLine(t *testing.T, logged *bytes.Buffer) map[string]any {
	t.Helper()
	lines := bytes.Split(bytes.TrimSpace(logged.Bytes()), []byte("\n"))
	var line map[string]any
	if err := json.Unmarshal(lines[len(lines)-1], &line); err != nil {
		t.Fatalf("%s: %v", lines[len(lines)-1], err)
	}
	delete(line, "time")
	return line
}

func spanContext(t *testing.T) context.Context {
	t.Helper()
	traceID, err := trace.TraceIDFromHex("4bf92f3577b34da6a3ce929d0e0e4736")
	if err != nil {
		t.Fatal(err)
	}
	spanID, err := trace.SpanIDFromHex("00f067aa0ba902b7")
	if err != nil {
		t.Fatal(err)
	}
	return trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID}))
}

func TestALineHasTheTraceOfItsContextAndNoneWhereThereIsNone(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	logger := NewLogger(&logged, slog.LevelInfo)
	ctx := spanContext(t)
	const traceID, spanID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

	logger.InfoContext(ctx, "plain", "n", 1)
	if diff := cmp.Diff(lastLine(t, &logged), map[string]any{"level": "INFO", "msg": "plain", "n": 1.0, "trace_id": traceID, "span_id": spanID}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	logger.With("part", "keys").InfoContext(ctx, "with attributes")
	if diff := cmp.Diff(lastLine(t, &logged), map[string]any{"level": "INFO", "msg": "with attributes", "part": "keys", "trace_id": traceID, "span_id": spanID}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	logger.InfoContext(t.Context(), "no span")
	if diff := cmp.Diff(lastLine(t, &logged), map[string]any{"level": "INFO", "msg": "no span"}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestTimesAreUTCAndDurationsAreSeconds(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("east", 2*3600))
	NewLogger(&logged, slog.LevelInfo).LogAttrs(t.Context(), slog.LevelInfo, "m",
		slog.Time("at", at), slog.Duration("took", 1500*time.Millisecond),
		slog.Group("in", slog.Duration("took", time.Microsecond)))
	want := map[string]any{
		"level": "INFO", "msg": "m", "at": "2026-07-01T10:00:00Z", "took": 1.5, "in": map[string]any{"took": 0.000001},
	}
	if diff := cmp.Diff(lastLine(t, &logged), want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestWhatIsBelowTheLevelIsNotWritten(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	logger := NewLogger(&logged, slog.LevelWarn)
	if logger.Info("quiet"); logged.Len() != 0 {
		t.Errorf("written: %s", logged.String())
	}
	if logger.Warn("loud"); lastLine(t, &logged)["msg"] != "loud" {
		t.Errorf("written: %s", logged.String())
	}
}
