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
	// 500,000. The figures in docs/decisions/pruning.md are of 2,000,000.
	envBenchRows = "ONCEWARD_BENCH_PRUNE_ROWS"

	benchCallers = 64
	benchSpan    = 1500 * time.Millisecond
	benchRounds  = 7
)

func benchRows(b *testing.B) int {
	b.Helper()
	text := os.Getenv(envBenchRows)
	if text == "" {
		return 500_000
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
// pruning and beside a paced one, in turns, so that what else disturbs the
// machine disturbs both. The ratio is the median of those of the rounds.
func BenchmarkBeginsBesidePruning(b *testing.B) {
	rows := benchRows(b)
	for b.Loop() {
		h, large, small := benchSetup(b)
		fill(b, h.pool, large, rows, 2*time.Hour, 0)
		analyze(b, h)
		var ratios, without, beside, p99Without, p99Beside []float64
		var pruned int64
		var took time.Duration
		for range benchRounds {
			rate, p99 := h.beginsPerSecond(b, small)
			without, p99Without = append(without, rate), append(p99Without, p99.Seconds()*1000)

			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan Report)
			go func() {
				report, _ := New(Config{Pool: h.pool}).Run(ctx, Request{Delay: HourlyDelay})
				ended <- report
			}()
			rate, p99 = h.beginsPerSecond(b, small)
			stop()
			report := <-ended
			if report.Done {
				b.Fatalf("nothing was left to prune after %d records: raise %s", pruned+report.Pruned, envBenchRows)
			}
			beside, p99Beside = append(beside, rate), append(p99Beside, p99.Seconds()*1000)
			ratios = append(ratios, rate/without[len(without)-1])
			pruned, took = pruned+report.Pruned, took+report.Took
		}
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(median(beside), "begins/s")
		b.ReportMetric(median(p99Without), "p99-ms-without")
		b.ReportMetric(median(p99Beside), "p99-ms-beside")
		b.ReportMetric(float64(pruned)/took.Seconds(), "pruned/s")
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
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
