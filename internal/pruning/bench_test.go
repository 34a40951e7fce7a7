package pruning

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/tenants"
)

const (
	// envBenchRows is how many expired records the benchmarks prune; unset is
	// 200,000. The figures in docs/operations are of 2,000,000.
	envBenchRows = "ONCEWARD_BENCH_PRUNE_ROWS"

	benchCallers = 64
	benchSpan    = 5 * time.Second
)

func benchRows(b *testing.B) int {
	b.Helper()
	text := os.Getenv(envBenchRows)
	if text == "" {
		return 200_000
	}
	rows, err := strconv.Atoi(text)
	if err != nil {
		b.Fatalf("%s: %v", envBenchRows, err)
	}
	return rows
}

func benchSetup(b *testing.B) (h *house, large, small auth.Caller) {
	b.Helper()
	pool := postgrestest.New(b)
	tenantService, err := tenants.New(pool)
	if err != nil {
		b.Fatal(err)
	}
	h = &house{pool: pool, tenants: tenantService, keys: keys.New(keys.Config{Pool: pool, Tenants: tenantService})}
	callers := make([]auth.Caller, 2)
	for i := range callers {
		tenant, err := tenantService.Create(b.Context(), tenants.CreateParams{Name: fmt.Sprint("bench ", i)})
		if err != nil {
			b.Fatal(err)
		}
		namespace, err := tenantService.CreateNamespace(b.Context(), tenant.ID, tenants.NamespaceParams{Name: "live"})
		if err != nil {
			b.Fatal(err)
		}
		callers[i] = auth.Caller{Tenant: tenant.ID, Namespace: namespace.ID, Credential: "abcdefghijklmnop", Role: auth.RoleService}
	}
	return h, callers[0], callers[1]
}

func analyze(b *testing.B, h *house) {
	b.Helper()
	if _, err := h.pool.Exec(b.Context(), "vacuum analyze idempotency_keys"); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPruneIdle is how fast expired records go where nothing else runs
// and the pruner does not pause: many of one tenant and ten of another.
func BenchmarkPruneIdle(b *testing.B) {
	rows := benchRows(b)
	for b.Loop() {
		b.StopTimer()
		h, large, small := benchSetup(b)
		fill(b, h.pool, large, rows, 2*time.Hour, 0)
		fill(b, h.pool, small, 10, 2*time.Hour, 0)
		analyze(b, h)
		b.StartTimer()
		report, err := New(Config{Pool: h.pool, Pause: -1}).Run(b.Context(), Request{Delay: HourlyDelay})
		if err != nil || !report.Done || report.Pruned != int64(rows+10) {
			b.Fatalf("%+v, %v", report, err)
		}
		b.ReportMetric(float64(rows)/report.Took.Seconds(), "rows/s")
	}
}

// BenchmarkBeginsBesidePruning compares begins of the small tenant without
// pruning, beside a paced one, and without again; the ratio is to the mean of
// the two.
func BenchmarkBeginsBesidePruning(b *testing.B) {
	rows := benchRows(b)
	for b.Loop() {
		h, large, small := benchSetup(b)
		fill(b, h.pool, large, rows, 2*time.Hour, 0)
		analyze(b, h)
		before, p99Before := h.beginsPerSecond(b, small)

		ctx, stop := context.WithCancel(b.Context())
		pruned := make(chan Report)
		go func() {
			report, _ := New(Config{Pool: h.pool}).Run(ctx, Request{Delay: HourlyDelay})
			pruned <- report
		}()
		beside, p99Beside := h.beginsPerSecond(b, small)
		stop()
		report := <-pruned
		after, _ := h.beginsPerSecond(b, small)

		b.ReportMetric(beside/((before+after)/2), "ratio")
		b.ReportMetric(beside, "begins/s")
		b.ReportMetric(p99Before.Seconds()*1000, "p99-ms-without")
		b.ReportMetric(p99Beside.Seconds()*1000, "p99-ms-beside")
		b.ReportMetric(float64(report.Pruned)/report.Took.Seconds(), "pruned/s")
	}
}

func (h *house) beginsPerSecond(b *testing.B, caller auth.Caller) (rate float64, p99 time.Duration) {
	b.Helper()
	latencies := make([][]time.Duration, benchCallers)
	var failed atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range benchCallers {
		all.Go(func() {
			for n := 0; time.Since(began) < benchSpan; n++ {
				at := time.Now()
				if _, err := h.keys.Begin(b.Context(), caller, charge(fmt.Sprintf("key %d of %d at %d", n, i, began.UnixNano()))); err != nil {
					failed.Add(1)
				}
				latencies[i] = append(latencies[i], time.Since(at))
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if failed.Load() > 0 {
		b.Fatalf("%d begins failed", failed.Load())
	}
	list := slices.Concat(latencies...)
	slices.Sort(list)
	return float64(len(list)) / took.Seconds(), list[len(list)*99/100]
}
