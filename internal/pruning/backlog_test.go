package pruning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
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
	turn := &turn{batch: r.batch, most: r.batch}
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

// A batch that the server takes too long over is ended by it within a second,
// and those after it are smaller, until they pass; then they stay so.
func TestBatchesThatTimeOutAreFollowedBySmallerOnesThatPass(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.fill(caller, 400, 2*time.Hour)
	h.pruner.batch = 400
	h.exec(`
create function slow_where_many() returns trigger language plpgsql as $$
begin
    if current_setting('statement_timeout')::interval > '1 s' or current_setting('synchronous_commit') <> 'off' then
        raise 'a batch may hold its rows for longer than a second';
    end if;
    if (select count(*) from gone) > 150 then
        perform pg_sleep(60);
    end if;
    return null;
end $$`)
	h.exec("create trigger slow after delete on idempotency_keys referencing old table as gone for each statement execute function slow_where_many()")
	var rests int
	h.pruner.restFor = func(context.Context, time.Duration) error { rests++; return nil }
	report := h.run(Request{})
	h.same("pruned, left, done", []any{report.Pruned, report.Left, report.Done}, []any{int64(400), int64(0), true})
	h.same("batches: of 400 and 200 in vain, four of 100, and the look at the end", rests <= 9 && rests >= 6, true)
	if report.LongestHeld < time.Second {
		t.Errorf("the longest batch is said to have taken %v, and one was ended after a second", report.LongestHeld)
	}
}

// Case: three hourly runs over a backlog that none of them can finish, while
// keys are begun and completed and more records expire. The small tenant's are
// gone after the first, the large one's are fewer after each, and how many are
// left is said.
func TestABacklogShrinksWithEveryHourlyRunUnderLiveLoad(t *testing.T) {
	t.Parallel()
	const backlog, perHour, batch, batchesPerRun = 6_000, 500, 100, 15
	h := setup(t)
	large, small := h.newTenant(), h.newTenant()
	h.fill(large, backlog, 2*time.Hour)
	h.fill(small, 10, 2*time.Hour)

	ctx, stop := context.WithCancel(t.Context())
	var calling sync.WaitGroup
	var live atomic.Int64
	for i := range 4 {
		calling.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				h.complete(large, h.begin(large, charge(fmt.Sprintf("live key %d of %d", n, i))))
				live.Add(1)
			}
		})
	}
	defer func() { stop(); calling.Wait() }()

	h.pruner.batch = batch
	began := time.Now()
	var passed atomic.Int64
	h.pruner.nowFunc = func() time.Time { return began.Add(time.Duration(passed.Load())) }
	h.pruner.restFor = func(context.Context, time.Duration) error { passed.Add(int64(time.Millisecond)); return nil }
	left := int64(backlog)
	for hour := range 3 {
		report := h.run(Request{Delay: HourlyDelay, Within: batchesPerRun * time.Millisecond})
		h.same(fmt.Sprintf("hour %d: done", hour), report.Done, false)
		h.same(fmt.Sprintf("hour %d: of the small tenant", hour), h.records(small), int64(0))
		expired := h.number("select count(*) from idempotency_keys where tenant_id = $1 and expires_at <= now() - interval '1 hour'", large.Tenant)
		h.same(fmt.Sprintf("hour %d: what is said to be left", hour), report.Left, expired)
		if report.Left >= left {
			t.Errorf("hour %d: %d records are left of %d", hour, report.Left, left)
		}
		left = report.Left
		h.fill(large, perHour, 2*time.Hour)
	}
	h.pruner.nowFunc = time.Now
	report := New(Config{Pool: h.pool, Pause: -1})
	if last, err := report.Run(t.Context(), Request{Delay: HourlyDelay}); err != nil || !last.Done {
		t.Errorf("a run that has the time: %+v, %v", last, err)
	}
	stop()
	calling.Wait()
	h.same("records that were made meanwhile", h.records(large), live.Load())
	if live.Load() == 0 {
		t.Error("nothing was begun meanwhile")
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
	if _, err := h.pruner.Run(t.Context(), Request{}); !errors.Is(err, postgres.ErrClockStepped) {
		t.Errorf("err = %v, want %v", err, postgres.ErrClockStepped)
	}
	h.same("records", h.records(caller), int64(200))
}

// A step between two runs is noticed by the second; after it nothing is pruned
// until the clock is believed again.
func TestAJumpOfTheClockBetweenTwoRunsStopsPruning(t *testing.T) {
	t.Parallel()
	h := setup(t)
	caller := h.newTenant()
	h.fill(caller, 5, 2*time.Hour)
	h.run(Request{})
	h.fill(caller, 300, 2*time.Hour)
	ahead := -time.Hour // of this process: the database's clock has jumped the other way
	h.pruner.nowFunc = func() time.Time { return time.Now().Add(ahead) }
	for range 2 {
		if _, err := h.pruner.Run(t.Context(), Request{}); !errors.Is(err, postgres.ErrClockStepped) {
			t.Errorf("err = %v, want %v", err, postgres.ErrClockStepped)
		}
	}
	h.same("records", h.records(caller), int64(300))
	h.pruner.clock.Trust()
	h.same("pruned after it", h.run(Request{}).Pruned, int64(300))
}

// A batch that takes long, as on a busy machine, is followed by a rest of five
// times as long.
func TestTheRestIsInProportionToTheTimeTheBatchTook(t *testing.T) {
	t.Parallel()
	r := &run{Pruner: New(Config{})}
	for _, tt := range []struct {
		gone  int
		took  time.Duration
		about time.Duration
	}{
		{5_000, 10 * time.Millisecond, 100 * time.Millisecond},
		{2_500, time.Millisecond, 50 * time.Millisecond},
		{5_000, 60 * time.Millisecond, 300 * time.Millisecond},
		{0, 2 * time.Second, 10 * time.Second},
	} {
		if got := r.restAfter(tt.gone, tt.took); got < tt.about*8/10 || got > tt.about*12/10 {
			t.Errorf("%d records in %v are followed by %v, want about %v", tt.gone, tt.took, got, tt.about)
		}
	}
	r = &run{Pruner: New(Config{Pause: -1})}
	if got := r.restAfter(5_000, time.Second); got != 0 {
		t.Errorf("without a pause: %v", got)
	}
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
// What a begin costs does not grow either: it is counted in pages, since its
// time would be that of the machine.
func TestTheTableStopsGrowing(t *testing.T) {
	t.Parallel()
	const hours, perHour, kept, bodyBytes = 48, 300, 4, 2048
	h := setup(t)
	caller := h.newTenant()
	// The snapshot of an analyze that comes by itself would keep an hour's dead
	// rows from the vacuum of that hour.
	h.exec("alter table idempotency_keys set (autovacuum_enabled = off)")
	sizes, pages := make([]int64, hours), make([]int64, hours)
	for hour := range hours {
		fill(t, h.pool, caller, perHour, -time.Duration(hour+kept)*time.Hour, bodyBytes)
		h.exec("update idempotency_keys set completed_at = now() where expires_at > now() + make_interval(hours => $1) - interval '1 minute'", hour+kept)
		h.run(Request{Delay: -time.Duration(hour) * time.Hour})
		h.exec("vacuum idempotency_keys")
		pages[hour] = h.pagesOfBegins(caller)
		sizes[hour] = h.number("select pg_total_relation_size('idempotency_keys')")
	}
	live := h.number("select sum(octet_length(body) + 500)::bigint from idempotency_keys")
	h.same("records", h.records(caller), int64(perHour*kept))
	first, last := slices.Max(sizes[:hours/2]), slices.Max(sizes[hours/2:])
	// A page on which anything is left takes no new record, so the place of an
	// hour may come back an hour later.
	if last > first+first/kept {
		t.Errorf("the relation grew from %d to %d bytes on the second day", first, last)
	}
	t.Logf("the relation had up to %d bytes on the first day, %d on the second, for %d bytes of live records", first, last, live)
	if float64(last) > 2.5*float64(live) {
		t.Errorf("the relation had up to %d bytes for %d bytes of live records", last, live)
	}
	steady := pages[kept : kept+5]
	if first, last := slices.Max(steady), pages[hours-1]; last > first*120/100 {
		t.Errorf("a hundred begins touch %d pages in the last hour, and up to %d in the first", last, first)
	}
}

// pagesOfBegins is how many pages a hundred new records touch, in the table and
// its indexes. They are taken back.
func (h *house) pagesOfBegins(caller auth.Caller) int64 {
	h.t.Helper()
	tx, err := h.pool.Begin(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(background(h.t)) }()
	var text []byte
	err = tx.QueryRow(h.t.Context(), "explain (analyze, buffers, timing off, format json) "+sqlFill+" on conflict do nothing",
		caller.Tenant, caller.Namespace, 100, -time.Hour, 0).Scan(&text)
	if err != nil {
		h.t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int64 `json:"Shared Hit Blocks"`  //nolint:tagliatelle // as PostgreSQL names them
			Read int64 `json:"Shared Read Blocks"` //nolint:tagliatelle // as above
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 || plans[0].Plan.Hit == 0 {
		h.t.Fatalf("read the plan: %v: %s", err, text)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}
