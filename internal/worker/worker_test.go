package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertest"
	"github.com/riverqueue/river/rivertype"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/pruning"
	"github.com/onceward/onceward/internal/telemetry"
)

// later is a clock that is ahead of the real one.
type later struct{ ahead time.Duration }

// Now implements rivertype.TimeGenerator.
func (l later) Now() time.Time { return time.Now().Add(l.ahead) }

// NowOrNil implements rivertype.TimeGenerator.
func (l later) NowOrNil() *time.Time { now := l.Now(); return &now }

// Case: a worker that is restarted every twenty minutes for five hours. The
// hourly job runs in every hour, and once in each.
func TestAnHourlyJobSurvivesRestartsThatAreMoreFrequent(t *testing.T) {
	t.Parallel()
	const restarts = 15
	h := setup(t)
	for n := range restarts {
		c := h.config()
		clock := later{time.Duration(n) * 20 * time.Minute}
		c.timeFunc = clock
		began := clock.Now()
		r := h.start(c)
		// The first jobs of a leader are inserted together.
		h.until("select exists (select from river.river_job where kind = 'roll_up' and scheduled_at >= $1)", began.Add(-time.Second))
		h.until("select not exists (select from river.river_job where kind = 'prune' and state <> 'completed')")
		r.end()
	}
	h.same("hours with more or less than one job", h.number(`
select count(*) from (
    select date_trunc('hour', scheduled_at, 'UTC') from river.river_job where kind = 'prune' group by 1 having count(*) <> 1) twice`), int64(0))
	// Five hours touch five or six slots; no slot between the first and the last is empty.
	h.same("slots without a job", h.number(`
select extract(epoch from max(date_trunc('hour', scheduled_at, 'UTC')) - min(date_trunc('hour', scheduled_at, 'UTC')))::bigint / 3600 + 1 - count(*)
from river.river_job where kind = 'prune'`), int64(0))
	if n := h.number("select count(*) from river.river_job where kind = 'prune'"); n < 5 {
		t.Errorf("%d runs in five hours", n)
	}
}

func TestSchedulesAreByUTCAndOncePerSlot(t *testing.T) {
	t.Parallel()
	amsterdam, err := time.LoadLocation("Europe/Amsterdam")
	if err != nil {
		t.Fatal(err)
	}
	// The night in which Amsterdam repeats an hour, and the one in which it skips one.
	for _, day := range []string{"2026-10-25", "2026-03-29"} {
		at, err := time.ParseInLocation(time.DateOnly, day, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range schedules() {
			perSlot := map[int64]int{}
			end := at.Add(24 * time.Hour)
			for next := mustParse(s.at).Next(at.Add(-time.Nanosecond).In(amsterdam)); next.Before(end); next = mustParse(s.at).Next(next) {
				perSlot[next.Unix()/int64(s.slot.Seconds())]++
			}
			if len(perSlot) != int(24*time.Hour/s.slot) {
				t.Errorf("%s has jobs in %d slots of %v on %s", s.args.Kind(), len(perSlot), s.slot, day)
			}
			for slot, n := range perSlot {
				if n != 1 {
					t.Errorf("%s has %d jobs in slot %d of %s", s.args.Kind(), n, slot, day)
				}
			}
		}
	}
}

// Two workers elect one leader, which alone schedules; when it leaves, the other
// goes on at once.
func TestSeveralWorkersElectOneLeaderAndGoOnWithoutIt(t *testing.T) {
	t.Parallel()
	h := setup(t)
	workers := map[string]*running{}
	for range 2 {
		w, err := New(h.config())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(background(t))
		r := &running{t: t, stop: stop, ended: make(chan error, 1)}
		go func() { r.ended <- w.Run(ctx) }()
		t.Cleanup(r.end)
		workers[w.client.ID()] = r
	}
	leaderNow := func() string {
		h.until("select count(*) = 1 from river.river_leader where expires_at > now()")
		var id string
		if err := h.pool.QueryRow(t.Context(), "select leader_id from river.river_leader").Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	first := leaderNow()
	h.until("select count(*) = $1 from (select distinct kind from river.river_job where state = 'completed') done", len(schedules()))
	workers[first].end()
	h.until("select exists (select from river.river_leader where leader_id <> $1)", first)
	seen := h.number("select max(id) from river.river_job")
	h.until("select exists (select from river.river_job where id > $1 and kind = 'roll_up' and state = 'completed')", seen)
	for _, scheduled := range schedules() {
		h.same("slots with more than one job of "+scheduled.args.Kind(), h.number(`
select count(*) from (
    select from river.river_job where kind = $1
    group by floor(extract(epoch from scheduled_at) / $2) having count(*) > 1) twice`, scheduled.args.Kind(), scheduled.slot.Seconds()), int64(0))
	}
}

// A worker that starts does everything that is due.
func TestAWorkerPrunesRollsUpAndKeepsHouse(t *testing.T) {
	t.Parallel()
	h := setup(t)
	tenant := h.newTenant()
	h.fill(tenant, 50, 2*time.Hour)
	h.fill(tenant, 5, 30*time.Minute) // not an hour yet
	live := h.newTenant()
	h.fill(live, 7, -time.Hour)
	recorder := analytics.New(analytics.Config{Pool: h.pool})
	recorder.Note(analytics.Event{Outcome: analytics.Replay, Tenant: tenant, Operation: "POST /v1/charges", Key: "a key of ours", Status: 201, Age: time.Second})
	if err := recorder.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.exec("truncate key_search_whole") // as a crash of the server does
	c := h.config()
	r := h.start(c)
	h.until("select count(*) = $1 from job_runs where last_succeeded_at is not null", len(schedules()))
	h.until("select count(*) = 0 from analytics_counts")
	r.end()
	h.same("records", h.number("select count(*) from idempotency_keys where tenant_id = $1", tenant), int64(5))
	// The rows of fill were made by no process: nobody counted them, nobody carried them over.
	h.same("records that count", h.number("select live_records from tenant_usage where tenant_id = $1", live), int64(7))
	h.same("records that search finds", h.number("select count(*) from key_search where tenant_id = $1", live), int64(7))
	h.same("minutes and hours", h.number("select (select sum(n) from analytics_minutes) + (select sum(n) from analytics_hours)"), int64(2))
	h.same("days of events", h.number("select count(*) from pg_inherits where inhparent = 'analytics_events'::regclass") > 3, true)

	w := &Worker{runs: &store{pool: h.pool}, metrics: c.Metrics, nowFunc: time.Now}
	jobs, err := w.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if j.LastSucceeded.IsZero() || j.Age <= 0 || j.Age > patience || j.Failures != 0 || j.Runs < 1 {
			t.Errorf("%+v", j)
		}
	}
	page := httptest.NewRecorder()
	c.Metrics.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{
		`onceward_job_runs_total{kind="prune",result="done"} 1`, "onceward_pruned_records_total 50", "onceward_expired_records_left 0",
		"onceward_analytics_rolled_up_rows_total 1", `onceward_job_last_success_age_seconds{kind="housekeep"}`,
	} {
		if !strings.Contains(page.Body.String(), line) {
			t.Errorf("/metrics has no %s", line)
		}
	}
}

// A job that fails is noted and retried; nothing is lost by it.
func TestAJobThatFailsIsNotedAndTriedAgain(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.exec("alter table analytics_counts rename to hidden")
	h.start(h.config())
	h.until("select coalesce(bool_or(failures > 0 and last_succeeded_at is null), false) from job_runs where kind = 'roll_up'")
	h.exec("alter table hidden rename to analytics_counts")
	h.until("select coalesce(last_succeeded_at > last_error_at, false) from job_runs where kind = 'roll_up'")
}

// A job that is running when the worker is told to end is finished.
func TestARunningJobIsFinishedAtTheEnd(t *testing.T) {
	t.Parallel()
	h := setup(t)
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "lock table analytics_counts"); err != nil {
		t.Fatal(err)
	}
	r := h.start(h.config())
	h.until("select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%analytics_counts%')")
	r.stop()
	if err := tx.Rollback(background(t)); err != nil {
		t.Fatal(err)
	}
	r.end()
	h.same("jobs that are not finished", h.number("select count(*) from river.river_job where state not in ('completed', 'available')"), int64(0))
	h.same("roll-ups that are", h.number("select count(*) from river.river_job where kind = 'roll_up' and state = 'completed'") > 0, true)
}

// The job of a worker that was killed is found by another when its time is up,
// and run again. Here the kill is what it leaves: a row that says running.
func TestAJobThatAKilledWorkerLeftIsRunAgain(t *testing.T) {
	t.Parallel()
	h := setup(t)
	tenant := h.newTenant()
	h.fill(tenant, 20, 2*time.Hour)
	desk, err := NewDesk(h.pool, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := desk.ContinuePruning(t.Context(), &tenant); err != nil {
		t.Fatal(err)
	}
	h.exec("update river.river_job set state = 'running', attempt = 1, attempted_at = now() - $1::interval, attempted_by = '{the dead}'", rescueAfter+time.Second)
	h.start(h.config())
	h.until("select state = 'completed' and attempt = 2 from river.river_job where kind = 'prune_on_demand'")
}

// No live job is ever given to another worker: each ends, by its own hand or by
// its time-out, before it would count as lost.
func TestAJobEndsBeforeItCountsAsLost(t *testing.T) {
	t.Parallel()
	const lastBatch = 35 * time.Second // a look, a deletion and their report
	if pruneWithin+lastBatch > jobTimeout || jobTimeout+softStop+hardStop >= rescueAfter {
		t.Errorf("a prune goes on for %v, a job is ended after %v and counts as lost after %v", pruneWithin, jobTimeout, rescueAfter)
	}
}

// A prune whose time is up says how much is left, and goes on.
func TestAPruneThatIsOutOfTimeShowsItsBacklogAndGoesOn(t *testing.T) {
	t.Parallel()
	h := setup(t)
	tenant := h.newTenant()
	h.fill(tenant, 40, 2*time.Hour)
	c := h.config()
	shown := func() string {
		page := httptest.NewRecorder()
		c.Metrics.Handler(slog.New(slog.DiscardHandler)).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		return page.Body.String()
	}
	err := prune(t.Context(), c.Pruner, c.Metrics, pruning.Request{Delay: pruning.HourlyDelay, Within: time.Nanosecond})
	var snooze *river.JobSnoozeError
	if !errors.As(err, &snooze) {
		t.Errorf("err = %v, want one that lets the job go on", err)
	}
	if !strings.Contains(shown(), "onceward_expired_records_left 40") {
		t.Error("/metrics does not have the backlog of 40")
	}
}

// What is finished is shown for two days, which is above the longest slot.
func TestFinishedJobsGoAndThoseOfTheLastSlotsStay(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, age := range []time.Duration{finishedKept + time.Hour, finishedKept - time.Hour} {
		h.exec(`
insert into river.river_job (kind, args, state, queue, max_attempts, attempt, finalized_at, created_at, scheduled_at)
values ('prune', '{}', 'completed', 'maintenance', 8, 1, now() - $1::interval, now() - $1::interval, now() - $1::interval)`, age)
	}
	h.start(h.config())
	h.until("select count(*) = 1 from river.river_job where kind = 'prune' and finalized_at < now() - interval '1 day'")
	h.same("of two days", h.number("select count(*) from river.river_job where finalized_at < now() - $1::interval", finishedKept), int64(0))
	for _, s := range schedules() {
		if s.slot >= finishedKept {
			t.Errorf("%s: a slot of %v could be run twice", s.args.Kind(), s.slot)
		}
	}
}

func TestAPruneOnDemandWaitsOnceForEachTenant(t *testing.T) {
	t.Parallel()
	h := setup(t)
	tenant, other := h.newTenant(), h.newTenant()
	desk, err := NewDesk(h.pool, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []*auth.TenantID{&tenant, &tenant, &other, nil, nil} {
		if err := desk.ContinuePruning(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	const waiting = "select count(*) from river.river_job where kind = 'prune_on_demand' and state = 'available'"
	h.same("waiting", h.number(waiting), int64(3))
	h.exec("update river.river_job set state = 'completed', finalized_at = now()")
	if err := desk.ContinuePruning(t.Context(), &tenant); err != nil {
		t.Fatal(err)
	}
	h.same("waiting after the first is done", h.number(waiting), int64(1))
}

func TestAPruneOnDemandTakesItsTenantWithoutDelay(t *testing.T) {
	t.Parallel()
	h := setup(t)
	tenant, other := h.newTenant(), h.newTenant()
	h.fill(tenant, 30, time.Second)
	h.fill(other, 30, time.Second)
	c := h.config()
	work := func(args pruneTenantArgs) (*rivertest.WorkResult, error) {
		tx, err := h.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(background(t)) }()
		job := &pruneTenantJob{pruner: c.Pruner, metrics: c.Metrics}
		return rivertest.NewWorker(t, riverpgxv5.New(nil), &river.Config{Schema: postgres.RiverSchema}, job).Work(t.Context(), t, tx, args, nil)
	}
	result, err := work(pruneTenantArgs{Tenant: tenant.String()})
	if err != nil || result.EventKind != river.EventKindJobCompleted {
		t.Fatalf("%+v, %v", result, err)
	}
	h.same("records", []int64{h.number("select count(*) from idempotency_keys where tenant_id = $1", tenant), h.number("select count(*) from idempotency_keys where tenant_id = $1", other)}, []int64{0, 30})
	result, err = work(pruneTenantArgs{Tenant: "nonsense"})
	if err != nil || result.EventKind != river.EventKindJobCancelled {
		t.Errorf("a job for a tenant that cannot be read: %+v, %v", result, err)
	}
	if result, err = work(pruneTenantArgs{}); err != nil || result.EventKind != river.EventKindJobCompleted {
		t.Fatalf("%+v, %v", result, err)
	}
	h.same("records of all", h.number("select count(*) from idempotency_keys"), int64(0))
}

// Behind a pooler in transaction mode there is no LISTEN.
func TestAWorkerCanPollInsteadOfListening(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := h.config()
	c.PollOnly = true
	h.start(c)
	h.until("select count(*) = $1 from job_runs where last_succeeded_at is not null", len(schedules()))
	h.same("listeners", h.number("select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'"), int64(0))
}

func TestRiversUIIsServedBelowItsPrefix(t *testing.T) {
	t.Parallel()
	h := setup(t)
	desk, err := NewDesk(h.pool, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ui, err := desk.UI(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(ui)
	defer server.Close()
	for path, want := range map[string]string{
		UIPrefix + "/":           "<html",
		UIPrefix + "/api/queues": "[",
		UIPrefix + "/api/states": "available",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d, %v: %.200s", path, answer.StatusCode, err, body)
		}
	}
}

// A panic in a job is logged with its kind and ends nothing but the job.
func TestAPanicIsLogged(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	handler := errorHandler{slog.New(slog.NewTextHandler(&logged, nil))}
	if result := handler.HandlePanic(t.Context(), &rivertype.JobRow{Kind: "prune", ID: 7}, "boom", "at line 1"); result != nil {
		t.Errorf("the job is not tried again: %+v", result)
	}
	if handler.HandleError(t.Context(), &rivertype.JobRow{Kind: "roll_up"}, fmt.Errorf("no room")) != nil {
		t.Error("the job is not tried again")
	}
	for _, want := range []string{"panic=boom", "kind=prune", "kind=roll_up", "no room"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("no %s in %s", want, logged.String())
		}
	}
}

// What a job left unfinished goes on: it is not counted as done.
func TestAnUnfinishedPruneGoesOn(t *testing.T) {
	t.Parallel()
	h := setup(t)
	metrics := telemetry.NewWorkerMetrics()
	w := &Worker{runs: &store{pool: h.pool}, metrics: metrics, logger: slog.New(slog.DiscardHandler), nowFunc: time.Now}
	a := &accountant{worker: w}
	var calls atomic.Int64
	run := func(result error) error {
		return a.Work(t.Context(), &rivertype.JobRow{Kind: "prune"}, func(context.Context) error { calls.Add(1); return result })
	}
	if err := run(river.JobSnooze(goesOnAfter)); err == nil {
		t.Error("the job is done")
	}
	h.same("successes", h.number("select count(*) from job_runs where last_succeeded_at is not null"), int64(0))
	h.same("failures", h.number("select failures from job_runs"), int64(0))
	if err := run(nil); err != nil {
		t.Error(err)
	}
	h.same("successes", h.number("select count(*) from job_runs where last_succeeded_at is not null"), int64(1))
	h.same("calls", calls.Load(), int64(2))
}
