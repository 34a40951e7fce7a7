package pruning

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/auth"
)

// Case: a tenant with many expired records and one with ten. The ten are gone
// after the first round, and the many after the run, however many they are.
func TestNoTenantStarvesAnother(t *testing.T) {
	t.Parallel()
	h := setup(t)
	large, small := h.newTenant(), h.newTenant()
	h.fill(large, 4_000, 2*time.Hour)
	h.fill(small, 10, 2*time.Hour)
	h.pruner.batch = 100
	batches := 0
	h.pruner.restFor = func(context.Context, time.Duration) error {
		if batches++; batches == 4 { // each has had two turns
			h.same("of the small tenant", h.records(small), int64(0))
			if got := h.records(large); got < 3_000 {
				t.Errorf("the large tenant has had more than its turns: %d records left", got)
			}
		}
		return nil
	}
	report := h.run(Request{Delay: HourlyDelay})
	h.same("pruned", report.Pruned, int64(4_010))
	h.same("done", []any{report.Done, report.Left}, []any{true, int64(0)})
	h.same("records", h.records(large)+h.records(small), int64(0))
}

// A run whose time is up says what is left; the next goes on from there.
func TestARunThatIsOutOfTimeSaysWhatIsLeftAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.fill(caller, 500, 2*time.Hour)
	h.pruner.batch = 100
	began := time.Now()
	var passed atomic.Int64
	h.pruner.nowFunc = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	h.pruner.restFor = func(context.Context, time.Duration) error { passed.Add(int64(time.Second)); return nil }
	report := h.run(Request{Delay: HourlyDelay, Within: 3 * time.Second})
	h.same("pruned, left, done", []any{report.Pruned, report.Left, report.Done}, []any{int64(300), int64(200), false})
	report = h.run(Request{Delay: HourlyDelay, Within: time.Hour})
	h.same("pruned, left, done", []any{report.Pruned, report.Left, report.Done}, []any{int64(200), int64(0), true})
}

// A run that is broken off anywhere leaves nothing behind that the next does
// not take, and the reports add up.
func TestARunThatIsBrokenOffIsRunAgain(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.fill(caller, 2_000, 2*time.Hour)
	h.pruner.batch = 50
	var pruned int64
	for n := 1; ; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*3*time.Millisecond)
		report, err := h.pruner.Run(ctx, Request{})
		cancel()
		if pruned += report.Pruned; err == nil {
			break
		}
	}
	h.same("records", h.records(caller), int64(0))
	if pruned > 2_000 {
		t.Errorf("the reports have %d records of 2,000", pruned)
	}
}

func TestTwoRunsAtOnceShareTheWork(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.fill(caller, 5_000, 2*time.Hour)
	var pruned atomic.Int64
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			report, err := New(Config{Pool: h.pool, Batch: 200, Pause: -1}).Run(t.Context(), Request{})
			if err != nil {
				t.Error(err)
			}
			pruned.Add(report.Pruned)
		})
	}
	running.Wait()
	h.same("pruned by all", pruned.Load(), int64(5_000))
	h.same("records", h.records(caller), int64(0))
}

// A retention that is shortened makes records expire below the mark to which
// earlier runs have come.
func TestWhatExpiresBelowTheWatermarkIsFound(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.fill(caller, 100, 2*time.Hour)
	h.run(Request{})
	h.same("watermarks", h.number("select count(*) from pruning_progress where watermark > now() - interval '3 hours'"), int64(1))
	h.fill(caller, 7, 48*time.Hour)
	h.fill(caller, 3, time.Hour)
	h.same("pruned", h.run(Request{}).Pruned, int64(10))
}

// A record that somebody holds locked makes batches smaller, then ends the
// tenant's turn; the others go on, and the next run takes the rest.
func TestALockedRecordEndsOnlyItsTenantsTurn(t *testing.T) {
	t.Parallel()
	h := setup(t)
	stuck, free := h.newTenant(), h.newTenant()
	h.fill(stuck, 600, 2*time.Hour)
	h.fill(free, 600, 2*time.Hour)
	h.pruner.batch = 400
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), "select from idempotency_keys where tenant_id = $1 order by expires_at limit 1 for update", stuck.Tenant)
	if err != nil {
		t.Fatal(err)
	}
	report, err := h.pruner.Run(t.Context(), Request{})
	if err == nil || !strings.Contains(err.Error(), stuck.Tenant.String()) || strings.Contains(err.Error(), free.Tenant.String()) {
		t.Errorf("err = %v, want one that names the tenant that was stuck", err)
	}
	h.same("done", report.Done, false)
	h.same("records", []int64{h.records(stuck), h.records(free)}, []int64{600, 0})
	h.same("left", report.Left, int64(600))
	if err := tx.Rollback(background(t)); err != nil {
		t.Fatal(err)
	}
	h.same("pruned by the next run", h.run(Request{}).Pruned, int64(600))
}

// adapt is how a batch follows the time for which its rows are locked.
func TestBatchesShrinkWhereTheyHoldLocksForLongAndGrowBack(t *testing.T) {
	t.Parallel()
	r := &run{Pruner: New(Config{})}
	turn := &turn{batch: r.batch}
	for _, step := range []struct {
		held time.Duration
		want int
	}{
		{10 * time.Millisecond, 5_000},
		{51 * time.Millisecond, 2_500},
		{time.Second, 1_250},
		{40 * time.Millisecond, 1_250},
		{10 * time.Millisecond, 2_500},
		{10 * time.Millisecond, 5_000},
	} {
		if r.adapt(turn, step.held); turn.batch != step.want {
			t.Errorf("after %v: %d records, want %d", step.held, turn.batch, step.want)
		}
	}
	for range 20 {
		r.adapt(turn, time.Second)
	}
	if turn.batch != smallestBatch {
		t.Errorf("in the end: %d records, want %d", turn.batch, smallestBatch)
	}
}

// Between two batches the database's clock and this process's disagree by an
// hour: nothing more is deleted.
func TestAJumpOfTheClockEndsTheRun(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.fill(caller, 300, 2*time.Hour)
	h.pruner.batch = 100
	var jumped atomic.Int64
	h.pruner.nowFunc = func() time.Time { return time.Now().Add(-time.Duration(jumped.Load())) }
	h.pruner.restFor = func(context.Context, time.Duration) error { jumped.Store(int64(time.Hour)); return nil }
	if _, err := h.pruner.Run(t.Context(), Request{}); !errors.Is(err, ErrClockStepped) {
		t.Errorf("err = %v, want %v", err, ErrClockStepped)
	}
	h.same("records", h.records(caller), int64(200))
}

func TestTheRestIsInProportionToTheBatch(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.fill(caller, 150, 2*time.Hour)
	var rests []time.Duration
	h.pruner.batch, h.pruner.pause = 100, time.Second
	h.pruner.restFor = func(_ context.Context, d time.Duration) error { rests = append(rests, d); return nil }
	h.run(Request{})
	for i, share := range []float64{1, 0.5} {
		least, most := time.Duration(0.8*share*float64(time.Second)), time.Duration(1.2*share*float64(time.Second))
		if i >= len(rests) || rests[i] < least || rests[i] > most {
			t.Fatalf("rests %v: the one at %d is not within %v and %v", rests, i, least, most)
		}
	}
}

func TestNothingToPruneIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.newTenant()
	report := h.run(Request{Delay: HourlyDelay})
	h.same("report", []any{report.Pruned, report.Left, len(report.Tenants), report.Done}, []any{int64(0), int64(0), 0, true})
	stranger := auth.TenantID{1}
	h.same("a tenant that is not there", h.run(Request{Tenant: &stranger}).Done, true)
}

// Case: the same load hour after hour for two days, with bodies of 2 KB, pruned
// and vacuumed as they go: the relation stops growing. The hours are made by
// pruning ahead of the clock, so that nothing is rewritten but by completing.
func TestTheTableStopsGrowing(t *testing.T) {
	t.Parallel()
	const hours, perHour, kept, bodyBytes = 48, 300, 4, 2048
	h := setup(t)
	caller := h.newTenant()
	sizes := make([]int64, hours)
	for hour := range hours {
		fill(t, h.pool, caller, perHour, -time.Duration(hour+kept)*time.Hour, bodyBytes)
		h.exec("update idempotency_keys set completed_at = now() where expires_at > now() + make_interval(hours => $1) - interval '1 minute'", hour+kept)
		h.run(Request{Delay: -time.Duration(hour) * time.Hour})
		h.exec("vacuum idempotency_keys")
		sizes[hour] = h.number("select pg_total_relation_size('idempotency_keys')")
	}
	live := h.number("select sum(octet_length(body) + 500)::bigint from idempotency_keys")
	h.same("records", h.records(caller), int64(perHour*kept))
	first, last := slices.Max(sizes[:hours/2]), slices.Max(sizes[hours/2:])
	if last > first*105/100 {
		t.Errorf("the relation grew from %d to %d bytes on the second day", first, last)
	}
	if float64(last) > 2.5*float64(live) {
		t.Errorf("the relation had up to %d bytes for %d bytes of live records", last, live)
	}
}
