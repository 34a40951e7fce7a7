package analytics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/problem"
)

// Case: a database, a server and sessions in Europe/Amsterdam, and events on
// both sides of both changes of its clock.
func TestBucketsAreHoursOfUTCWhereverTheDatabaseIs(t *testing.T) {
	t.Parallel()
	config := postgrestest.New(t).Config()
	config.ConnConfig.RuntimeParams["timezone"] = "Europe/Amsterdam"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	h := setupOn(t, pool)
	if got := h.number("select extract(timezone from '2026-07-01 12:00+00'::timestamptz)::bigint"); got != 7200 {
		t.Fatalf("the sessions are %d s east of UTC, want two hours", got)
	}
	c := newClient()
	for _, day := range []string{"2026-10-25", "2026-03-29"} {
		midnight, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		for hour := range 24 {
			for range hour + 1 {
				h.recorder.noteAt(midnight.Add(time.Duration(hour)*time.Hour+30*time.Minute), c.event(Replay))
			}
		}
		h.flush()
		for _, rolled := range []bool{false, true} {
			if rolled {
				h.rollUp()
			}
			answer := h.outcomes(c, Query{From: midnight, To: midnight.Add(24 * time.Hour)})
			h.same(day+": hours of the day", len(answer.Steps), 24)
			for hour, step := range answer.Steps {
				h.same(day+": label", step.At, midnight.Add(time.Duration(hour)*time.Hour))
				h.same(day+": replays", step.Of(Replay), int64(hour+1))
			}
			whole := h.outcomes(c, Query{From: midnight, To: midnight.Add(24 * time.Hour), Step: StepDay})
			h.same(day+": days", len(whole.Steps), 1)
			h.same(day+": replays of the day", whole.Total.Of(Replay), int64(300))
		}
	}
}

// Case: events are kept by the day. What happened on both sides of a midnight,
// in flushes of which each is sent twice, is in its own day, and there once.
func TestFlushesOverMidnightCountOnceInTheirDays(t *testing.T) {
	t.Parallel()
	const rounds = 30
	h := setup(t)
	w, cuttable := newWire(t, h.pool)
	h.recorder = New(Config{Pool: cuttable})
	c := newClient()
	midnight := floor(h.now, day).Add(day)
	for _, at := range []time.Time{midnight.Add(-day), midnight} {
		if _, err := h.aggregator.store.makeDay(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	for range rounds {
		e := c.event(Replay)
		h.recorder.noteAt(midnight.Add(-100*time.Millisecond), e)
		h.recorder.noteAt(midnight.Add(100*time.Millisecond), e)
		w.eaten = make(chan struct{})
		w.eatOne.Store(true)
		if err := h.recorder.Flush(t.Context()); err == nil {
			t.Fatal("the flush succeeded, although its answer was lost")
		}
		<-w.eaten
		h.flush()
		h.rollUp()
	}
	hours := map[time.Time]int64{}
	for _, step := range h.outcomes(c, Query{From: midnight.Add(-time.Hour), To: midnight.Add(time.Hour)}).Steps {
		hours[step.At] = step.Of(Replay)
	}
	h.same("replays by hour", hours, map[time.Time]int64{midnight.Add(-time.Hour): rounds, midnight: rounds})
	for _, at := range []time.Time{midnight.Add(-day), midnight} {
		h.same("events of the day", h.number("select count(distinct key) from "+partitionName(at)), int64(rounds))
	}
	h.same("events", h.number("select count(*) from analytics_events"), int64(2*rounds))
}

// A range that begins and ends within hours is put together from minutes and
// hours, and counts every minute of it once.
func TestARangeIsExactToTheMinute(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	start := floor(h.now.Add(-5*time.Hour), time.Hour)
	for minute := range 4 * 60 {
		h.recorder.noteAt(start.Add(time.Duration(minute)*time.Minute), c.event(Replay))
	}
	h.flush()
	for _, when := range []string{"flushed", "rolled up"} {
		for _, r := range [][2]int{{0, 240}, {0, 60}, {10, 50}, {10, 60}, {50, 70}, {59, 61}, {10, 230}, {60, 180}, {60, 190}, {119, 121}} {
			q := Query{From: start.Add(time.Duration(r[0]) * time.Minute), To: start.Add(time.Duration(r[1]) * time.Minute)}
			ages, err := h.service.ReplayAges(t.Context(), c.asks(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got := ages.Ages.Count(); got != int64(r[1]-r[0]) {
				t.Errorf("%s: minutes %d to %d have %d replays", when, r[0], r[1], got)
			}
		}
		h.rollUp()
	}
}

// What is over its time goes, and the hours keep what the minutes had.
func TestSpentMinutesGoAndNoCountShrinks(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	ages := map[time.Duration]bool{ // of the figure: whether the minutes still have it afterwards
		401 * day: false, 399 * day: false, 9 * day: false, 7 * day: true, time.Hour: true,
	}
	for age := range ages {
		h.recorder.noteAt(h.now.Add(-age), c.event(Replay))
	}
	h.flush()
	h.rollUp()
	year := Query{From: h.now.Add(-HoursKept + time.Hour), Step: StepDay}
	before := h.outcomes(c, year).Total.Begins()
	for range 2 {
		if _, err := h.aggregator.Housekeep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	h.same("begins of a year", h.outcomes(c, year).Total.Begins(), before)
	h.same("begins of a year", before, int64(4))
	h.same("minutes", h.number("select count(*) from analytics_minutes"), int64(2))
	h.exec("update analytics_hours set hour = hour - interval '300 days'")
	if _, err := h.aggregator.Housekeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.same("hours", h.number("select count(*) from analytics_hours"), int64(3))
}

// What is not rolled up is never dropped, however old it is.
func TestALateFlushIsCountedThoughItsMinuteIsSpent(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	h.recorder.noteAt(h.now.Add(-30*day), c.event(Replay))
	h.flush()
	if _, err := h.aggregator.Housekeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.rollUp()
	if _, err := h.aggregator.Housekeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.same("begins", h.outcomes(c, Query{From: h.now.Add(-31 * day)}).Total.Begins(), int64(1))
}

func TestRangesHaveLimitsThatAreSaid(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	for name, tt := range map[string]struct {
		q         Query
		parameter string
	}{
		"backwards":         {Query{From: h.now, To: h.now.Add(-time.Hour)}, "from"},
		"nothing":           {Query{From: h.now, To: h.now}, "from"},
		"before the oldest": {Query{From: h.now.Add(-401 * day), Step: StepDay}, "from"},
		"too many hours":    {Query{From: h.now.Add(-70 * day)}, "step"},
		"too many minutes":  {Query{From: h.now.Add(-26 * time.Hour), Step: StepMinute}, "step"},
		"minutes long gone": {Query{From: h.now.Add(-8 * day), To: h.now.Add(-8*day + time.Hour), Step: StepMinute}, "step"},
		"no step":           {Query{Step: "fortnight"}, "step"},
	} {
		_, err := h.service.Outcomes(t.Context(), c.asks(), tt.q)
		var p *problem.Error
		if !errors.As(err, &p) || p.Kind != problem.InvalidRequest || p.Fields[0].Parameter != tt.parameter {
			t.Errorf("%s: %v, want a fault of %s", name, err, tt.parameter)
		}
	}
	if _, err := h.service.Callers(t.Context(), c.asks(), Query{Limit: maxGroups + 1}); !errors.Is(err, problem.InvalidRequest) {
		t.Errorf("a limit of %d: %v", maxGroups+1, err)
	}
	answer := h.outcomes(c, Query{From: h.now.Add(-90 * time.Minute)})
	if answer.From != floor(h.now.Add(-90*time.Minute), time.Hour) || answer.To.Before(h.now) || answer.To.Sub(h.now) > time.Hour {
		t.Errorf("the range is said to be %v to %v", answer.From, answer.To)
	}
}

func TestDaysOfEventsAreMadeAheadAndDroppedWhenTheyAreOver(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	h.recorder.noteAt(h.now, c.event(Replay)) // before there is any day
	h.recorder.noteAt(h.now.Add(-9*day), c.event(Replay))
	h.flush()
	h.same("in the default partition", h.number("select count(*) from analytics_events_default"), int64(2))
	report, err := h.aggregator.Housekeep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.same("days made", report.DaysMade, daysAhead+boolToInt(h.now.Truncate(day) != h.now))
	h.same("in the default partition", h.number("select count(*) from analytics_events_default"), int64(0))
	events, err := h.service.Events(t.Context(), c.asks(), EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	h.same("events", len(events.Items), 1)

	for _, age := range []time.Duration{10 * day, 9 * day, 7 * day} {
		if _, err := h.aggregator.store.makeDay(t.Context(), floor(h.now.Add(-age), day)); err != nil {
			t.Fatal(err)
		}
	}
	if report, err = h.aggregator.Housekeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.same("days made the second time", report.DaysMade, 0)
	h.same("days dropped", report.DaysDropped, 2)
	days, err := h.aggregator.store.days(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range days {
		if h.now.Sub(at.Add(day)) > EventsKept {
			t.Errorf("%v is still there", at)
		}
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Flushes go on while days are made and dropped.
func TestTwoWorkersThatKeepHouseAtOnceDoNoHarm(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := NewAggregator(h.pool).Housekeep(t.Context())
			errs <- err
		}()
	}
	for range 20 {
		h.recorder.Note(c.event(Replay))
		h.flush()
	}
	if err := errors.Join(<-errs, <-errs); err != nil && !strings.Contains(err.Error(), "lock timeout") {
		t.Fatal(err)
	}
	h.same("events", h.number("select count(*) from analytics_events"), int64(20))
}
