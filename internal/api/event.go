package api

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/problem"
)

// end is deferred around every request: it turns a panic into a 500 and writes
// the one event of the request. The event has the route's template and never
// the path, the query, a key, a token or a body.
func (x *exchange) end() {
	panicked := recover()
	abort := false
	switch panicked {
	case nil:
	case http.ErrAbortHandler:
		abort = true
		if x.outcome == "" {
			x.outcome = "aborted"
		}
	default:
		err := problem.Internal(fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()))
		if abort = x.status != 0; abort { // too late for another answer: cut it off, so that nobody takes it for whole
			x.failure, x.outcome = err, string(err.Kind)
		} else {
			x.fail(err)
		}
	}
	latency := x.api.nowFunc().Sub(x.started)
	x.count(latency)
	x.log(latency)
	x.endSpan()
	if abort {
		panic(http.ErrAbortHandler)
	}
}

// count adds the request to the figures of its route.
func (x *exchange) count(latency time.Duration) {
	figures := x.api.unmatched
	if x.route != nil {
		figures = x.route.figures
	}
	if figures != nil {
		figures.Observe(x.status, x.outcome, latency)
	}
	if x.status == http.StatusConflict && x.api.requests != nil {
		x.api.requests.TenantConflict(x.caller.Tenant, x.outcome)
	}
}

func (x *exchange) log(latency time.Duration) {
	level := slog.LevelInfo
	switch {
	case x.failure != nil:
		level = slog.LevelError
	case x.route != nil && x.route.page != nil:
		level = slog.LevelDebug // probes and scrapes come by the clock
	}
	ctx, handler := x.request.Context(), x.api.logger.Handler()
	if !handler.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 14)
	attrs = append(attrs,
		slog.String("request_id", x.requestID),
		slog.String("route", x.routeName()),
		slog.Int("status", x.status),
		slog.Duration("latency", latency),
	)
	if x.outcome != "" {
		attrs = append(attrs, slog.String("outcome", x.outcome))
	}
	if x.operation != nil {
		attrs = append(attrs, slog.String("operation", shortened(*x.operation)))
	}
	if x.outcome == "replay" {
		attrs = append(attrs, slog.Duration("replay_age", x.replayAge))
	}
	if spent := x.databaseNanos.Load(); spent > 0 {
		attrs = append(attrs, slog.Duration("database_time", time.Duration(spent)))
	}
	if x.caller.Credential != "" {
		attrs = append(attrs,
			slog.String("tenant", x.caller.Tenant.String()),
			slog.String("credential", string(x.caller.Credential)),
			slog.String("role", string(x.caller.Role)),
		)
	}
	if x.caller.TraceID != "" && x.span == nil { // else the logger knows it
		attrs = append(attrs, slog.String("trace_id", x.caller.TraceID))
	}
	if x.failure != nil {
		attrs = append(attrs, slog.String("error", x.failure.Error()))
	}
	line := slog.NewRecord(x.started.Add(latency), level, "request", 0) // a Logger would look up who calls it
	line.AddAttrs(attrs...)
	_ = handler.Handle(ctx, line) // a log that cannot be written is nobody's failure
}

// routeName is the template that matched, such as PUT /v1/keys/{id}/response.
func (x *exchange) routeName() string {
	if x.route == nil {
		return unmatched
	}
	return x.route.name
}

// unmatched stands in figures, spans and the log for every address that is not there.
const unmatched = "unmatched"

// traceID is the trace id of a W3C traceparent (Trace Context, section 3.2),
// or empty where none was sent or it is not valid.
func traceID(h http.Header) string {
	values := h["Traceparent"]
	if len(values) != 1 {
		return ""
	}
	version, rest, _ := strings.Cut(values[0], "-")
	id, rest, _ := strings.Cut(rest, "-")
	parent, rest, _ := strings.Cut(rest, "-")
	flags, more, hasMore := strings.Cut(rest, "-")
	switch {
	case !lowerHex(version, 2) || version == "ff":
	case !lowerHex(id, 32) || strings.Trim(id, "0") == "":
	case !lowerHex(parent, 16) || strings.Trim(parent, "0") == "":
	case !lowerHex(flags, 2):
	case version == "00" && (hasMore || more != ""): // only a later version may say more
	default:
		return id
	}
	return ""
}

func lowerHex(s string, digits int) bool {
	if len(s) != digits || strings.ToLower(s) != s {
		return false
	}
	_, err := hex.DecodeString(s)
	return err == nil
}
