package client_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// counters is a MeterProvider that adds up, by name and labels.
type counters struct {
	metricnoop.MeterProvider

	mu   sync.Mutex // guards sums
	sums map[string]int64
}

func (c *counters) Meter(string, ...metric.MeterOption) metric.Meter { return &meter{counters: c} }

type meter struct {
	metricnoop.Meter

	counters *counters
}

func (m *meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return &counter{counters: m.counters, name: name}, nil
}

type counter struct {
	metricnoop.Int64Counter

	counters *counters
	name     string
}

func (c *counter) Add(_ context.Context, n int64, options ...metric.AddOption) {
	attributes := metric.NewAddConfig(options).Attributes()
	labels := attributes.Encoded(attribute.DefaultEncoder())
	c.counters.mu.Lock()
	defer c.counters.mu.Unlock()
	c.counters.sums[strings.TrimPrefix(c.name, "onceward.client.")+"{"+labels+"}"] += n
}

// spans is a TracerProvider whose spans are all of one trace.
type spans struct {
	tracenoop.TracerProvider

	mu    sync.Mutex // guards names
	names []string
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return &tracer{spans: s} }

type tracer struct {
	tracenoop.Tracer

	spans *spans
}

var traceOfTheTest = trace.TraceID{0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36} //nolint:gochecknoglobals // a constant

func (t *tracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	t.spans.mu.Lock()
	defer t.spans.mu.Unlock()
	t.spans.names = append(t.spans.names, name)
	ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceOfTheTest, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	}))
	return ctx, trace.SpanFromContext(ctx)
}

func TestWhatHappensIsCountedAndTraced(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network, counted, traced := newWire(t), &counters{sums: make(map[string]int64)}, &spans{}
	c := newClient(t, w, over(network), func(c *client.Config) {
		c.MeterProvider, c.TracerProvider = counted, traced
	})
	lost := false
	network.cut(func(*http.Request) fault {
		if !lost {
			lost = true
			return answerLost
		}
		return passes
	})
	op := charge(newKey())
	result, err := c.Do(t.Context(), op, (&charging{}).do)
	if err != nil {
		t.Fatal(err)
	}
	replayOf(t, c, op)
	op.Request = &client.Request{Body: []byte("other")}
	_, err = c.Begin(t.Context(), op)
	wantCode(t, err, client.ErrMismatch)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := c.Begin(gone, charge(newKey())); err == nil {
		t.Error("a call whose context has ended succeeded")
	}
	record, err := newClient(t, w, withKey(w.Tenant.Admin)).Inspect(t.Context(), result.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(record.History) != 1 || record.History[0].TraceID != traceOfTheTest.String() {
		t.Errorf("the service knows the trace as %+v, want %s", record.History, traceOfTheTest)
	}

	down := true
	network.cut(func(*http.Request) fault {
		if down {
			return neverComes
		}
		return passes
	})
	failing := newClient(t, w, over(network), func(c *client.Config) { c.MeterProvider, c.RetryFor = counted, -1 })
	e := protect(t, failing, client.Middleware{Default: client.Route{AllowUnprotected: true}}, &charges{})
	for range 7 { // the breaker opens at the fifth
		e.charge(t, newKey())
	}

	want := map[string]int64{
		"calls{call=begin,code=ok}":                   2,
		"calls{call=begin,code=fingerprint_mismatch}": 1,
		"calls{call=begin,code=canceled}":             1,
		"calls{call=begin,code=unreachable}":          7,
		"calls{call=complete,code=ok}":                1,
		"retries{call=begin}":                         1,
		"replays{}":                                   1,
		"conflicts{code=fingerprint_mismatch}":        1,
		"unprotected{}":                               7,
		"breaker_opened{}":                            1,
	}
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if diff := cmp.Diff(want, counted.sums); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	traced.mu.Lock()
	defer traced.mu.Unlock()
	if !slices.Contains(traced.names, "onceward begin") || !slices.Contains(traced.names, "onceward complete") {
		t.Errorf("spans %v", traced.names)
	}
}

func TestWhatIsUndeliveredAndWhatIsLostIsCounted(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network, clock, counted := newWire(t), newManualClock(), &counters{sums: make(map[string]int64)}
	c := newClient(t, w, over(network), onClock(clock), func(c *client.Config) { c.MeterProvider = counted })
	sum := func(name string) int64 {
		counted.mu.Lock()
		defer counted.mu.Unlock()
		return counted.sums[name]
	}
	network.cut(func(r *http.Request) fault {
		if r.Method == http.MethodPut {
			return neverComes
		}
		return passes
	})
	ended := make(chan error, 1)
	go func() {
		_, err := c.Do(t.Context(), charge(newKey()), (&charging{}).do)
		ended <- err
	}()
	eventually(t, "it is counted as undelivered", func() bool {
		clock.advance(time.Second)
		return sum("undelivered{call=complete}") == 1
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
	network.heal()
	eventually(t, "it is stored", func() bool {
		clock.advance(time.Second)
		return sum("calls{call=complete,code=ok}") == 1
	})

	op := charge(newKey())
	op.Lease = time.Minute
	_, err := c.Do(t.Context(), op, func(ctx context.Context, lease *client.Lease) (client.Response, error) {
		w.Advance(t, string(lease.ID), time.Minute)
		acquire(t, newClient(t, w), op)
		clock.waitForTimer(t, 20*time.Second)
		clock.advance(20 * time.Second)
		<-ctx.Done()
		return client.Response{}, context.Cause(ctx)
	})
	wantCode(t, err, client.ErrLeaseLost)
	if n := sum("leases_lost{}"); n != 1 {
		t.Errorf("%d leases are counted as lost, want 1", n)
	}
}
