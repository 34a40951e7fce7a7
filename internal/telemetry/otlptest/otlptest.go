// Package otlptest is a collector for tests: it takes what is sent by OTLP over
// HTTP and keeps it as it came. It must not know who sends.
package otlptest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// The paths to which the signals are sent.
const (
	Traces  = "/v1/traces"
	Metrics = "/v1/metrics"
	Logs    = "/v1/logs"
)

// Receiver keeps what is sent to its URL. It is safe for use by many goroutines.
type Receiver struct {
	*httptest.Server

	mu       sync.Mutex
	received map[string][][]byte // by path; guarded by mu
}

// New starts a receiver, which ends with the test.
func New(tb testing.TB) *Receiver {
	tb.Helper()
	r := &Receiver{received: map[string][][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.received[req.URL.Path] = append(r.received[req.URL.Path], body)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	tb.Cleanup(r.Close)
	return r
}

// All is everything that came to the paths, as text.
func (r *Receiver) All(paths ...string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all strings.Builder
	for _, path := range paths {
		for _, body := range r.received[path] {
			all.Write(body)
		}
	}
	return all.String()
}

// Spans are those that came.
func (r *Receiver) Spans(tb testing.TB) (spans []*tracepb.Span) {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, body := range r.received[Traces] {
		var request collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			tb.Fatal(err)
		}
		for _, resource := range request.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				spans = append(spans, scope.GetSpans()...)
			}
		}
	}
	return spans
}
