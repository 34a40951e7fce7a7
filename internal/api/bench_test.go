package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
)

// settled answers every begin with one outcome: what is left is the HTTP edge.
type settled struct {
	Keys
	outcome keys.Outcome
}

func (s settled) Begin(context.Context, auth.Caller, keys.BeginRequest) (keys.Outcome, error) {
	return s.outcome, nil
}

func BenchmarkBegin(b *testing.B) {
	now := time.Now()
	outcomes := map[string]keys.Outcome{
		"acquired": keys.Acquired{Attempt: 1, CreatedAt: now, ExpiresAt: now, Lease: keys.Lease{Token: "AAZhbaA6LwBkq9ZJ3mVxT0uC1fYpW8sE", Fence: 1795971562123456, ExpiresAt: now, OnLeaseExpiry: "takeover"}},
		"replay": keys.Replay{Attempt: 1, CreatedAt: now, CompletedAt: now, ExpiresAt: now, Age: 3214 * time.Millisecond, Response: keys.Response{
			Status: 201, Headers: []keys.Header{{Name: "Content-Type", Value: "application/json"}}, Body: []byte(strings.Repeat(`{"charge":"ch_1"}`, 12)),
		}},
		"in_progress": keys.InProgress{Attempt: 1, LeaseExpiresAt: now, RetryAfter: time.Second},
	}
	for name, outcome := range outcomes {
		b.Run(name, func(b *testing.B) {
			a, err := New(Config{Auth: anybody{}, Tenants: anybody{}, Keys: settled{outcome: outcome}})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkBegins(b, a.Public())
		})
	}
}

func benchmarkBegins(b *testing.B, handler http.Handler) {
	b.Helper()
	const body = `{"key":"8b3f4c19-1e6e-4c2c-9c1b-4a5c9c9b3f1e","operation":"POST /v1/charges","caller":"cus_123","request":{"method":"POST","path":"/v1/charges","query":"","content_type":"application/json","body":"{\"amount\":4999}"},"owner":"0d9f4c1e8a7b4d0c9e55aa01","lease_seconds":60,"retention_seconds":86400}`
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/v1/keys", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer token")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusBadRequest {
			b.Fatal(w.Body)
		}
	}
}

// What a span costs a whole request at the HTTP edge: none is made, one is made
// and not sampled, one is made and handed to an exporter that keeps nothing.
func BenchmarkBeginTraced(b *testing.B) {
	provider := func(sampler sdktrace.Sampler) trace.Tracer {
		return sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(tracetest.NewNoopExporter())).Tracer("bench")
	}
	for _, c := range []struct {
		name   string
		tracer trace.Tracer
	}{{"off", nil}, {"unsampled", provider(sdktrace.NeverSample())}, {"sampled", provider(sdktrace.AlwaysSample())}} {
		b.Run(c.name, func(b *testing.B) {
			a, err := New(Config{Auth: anybody{}, Tenants: anybody{}, Keys: settled{outcome: keys.InProgress{Attempt: 1, RetryAfter: time.Second}}, Tracer: c.tracer})
			if err != nil {
				b.Fatal(err)
			}
			benchmarkBegins(b, a.Public())
		})
	}
}

// What the request path does for spans where none are sent, alone.
func BenchmarkNoSpan(b *testing.B) {
	x := &exchange{api: &API{}, request: httptest.NewRequest(http.MethodPost, "/v1/keys", nil)}
	b.ReportAllocs()
	for b.Loop() {
		x.startSpan("POST /v1/keys")
		x.endSpan()
	}
}
