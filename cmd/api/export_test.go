package main

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/telemetry/otlptest"
)

// One begin under a traceparent: the request's span stands below the caller's,
// the batch's below the request's with a link to it, the statement's below the
// batch's; metrics and logs go too, all of it before the process has ended, and
// nothing that a caller sent is in any of it but the operation in the log.
func TestTracesMetricsAndLogsGoOutByOTLPWithTheirParentsAndNoSecret(t *testing.T) {
	t.Parallel()
	sink := otlptest.New(t)
	databaseURL := postgrestest.NewURL(t)
	c := newClient(t, databaseURL)
	i := startHere(t, databaseURL, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL)

	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	held := call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), begin, "Traceparent", "00-"+trace+"-"+parent+"-01")
	if held.status != http.StatusCreated {
		t.Fatalf("begin: %d %s", held.status, held.body)
	}
	call(t, http.MethodGet, i.URL+"/v1/keys/canary-path?canary-query", c.key.Reveal(), "")
	i.stop()
	if err := i.wait(t); err != nil {
		t.Fatal(err)
	}

	byName := map[string]*tracepb.Span{}
	for _, s := range sink.Spans(t) {
		if hex.EncodeToString(s.GetTraceId()) == trace {
			byName[s.GetName()] = s
		}
	}
	request, batch := byName["POST /v1/keys"], byName["batch begin"]
	if request == nil || batch == nil {
		t.Fatalf("spans %v: want the request's and the batch's", byName)
	}
	if got := hex.EncodeToString(request.GetParentSpanId()); got != parent || request.GetKind() != tracepb.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's parent is %s and its kind %s, want the caller's span and a server", got, request.GetKind())
	}
	if string(batch.GetParentSpanId()) != string(request.GetSpanId()) || len(batch.GetLinks()) != 1 || string(batch.GetLinks()[0].GetSpanId()) != string(request.GetSpanId()) {
		t.Errorf("the batch %v does not belong to the request %v", batch, request)
	}
	below := 0
	for _, s := range sink.Spans(t) {
		if string(s.GetParentSpanId()) == string(batch.GetSpanId()) {
			below++
		}
	}
	if below == 0 {
		t.Error("no statement has a span below the batch's")
	}
	if !strings.Contains(i.log.String(), `"trace_id":"`+trace+`","span_id":"`+hex.EncodeToString(request.GetSpanId())+`"`) {
		t.Error("the event of the request has not its trace and span")
	}
	for _, want := range []struct{ path, text string }{
		{otlptest.Traces, "GET /v1/keys/{id}"},
		{otlptest.Traces, "onceward-api"},
		{otlptest.Traces, c.tenant.String()},
		{otlptest.Metrics, "onceward_begins_total"},
		{otlptest.Metrics, "onceward_batch_entries"},
		{otlptest.Logs, "listening"},
		{otlptest.Logs, string(request.GetSpanId())},
	} {
		if !strings.Contains(sink.All(want.path), want.text) {
			t.Errorf("%s did not get %q", want.path, want.text)
		}
	}
	everything := sink.All(otlptest.Traces, otlptest.Metrics, otlptest.Logs) + i.log.String()
	for what, secret := range map[string]string{
		"API key": c.key.Reveal()[21:], "idempotency key": "0123456789abcdef", "lease token": fmt.Sprint(member(t, held.body, "lease", "token")),
		"body": "4711-canary", "path": "canary-path", "query": "canary-query",
	} {
		if strings.Contains(everything, secret) {
			t.Errorf("the %s went out", what)
		}
	}
	for _, id := range []string{c.tenant.String(), string(c.credential.ID)} {
		if strings.Contains(sink.All(otlptest.Metrics), id) {
			t.Errorf("%s is in a metric", id)
		}
	}
}

// A collector that is not there is in nobody's way.
func TestWithoutItsCollectorTheAPIAnswersAndEnds(t *testing.T) {
	t.Parallel()
	sink := otlptest.New(t)
	sink.Close()
	databaseURL := postgrestest.NewURL(t)
	c := newClient(t, databaseURL)
	i := startHere(t, databaseURL, "OTEL_EXPORTER_OTLP_ENDPOINT="+sink.URL)
	if got := call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), begin); got.status != http.StatusCreated {
		t.Errorf("begin: %d %s", got.status, got.body)
	}
	i.stop()
	if err := i.wait(t); err != nil {
		t.Error(err)
	}
}
