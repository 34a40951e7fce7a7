package analytics

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// wantTally compares every view of the client with the independent count.
func (h *house) wantTally(c client, want *tally, when string) {
	h.t.Helper()
	hours := Query{From: h.now.Add(-49 * time.Hour), To: h.now.Add(2 * time.Hour)}
	answer := h.outcomes(c, hours)
	byHour := map[int64][outcomes]int64{}
	for _, step := range answer.Steps {
		if step.counts != ([outcomes]int64{}) {
			byHour[step.At.Unix()] = step.counts
		}
	}
	h.same(when+": outcomes by hour", byHour, want.byHour)
	h.same(when+": outcomes in total", answer.Total.counts, want.total)

	minutes := hours
	minutes.Step, minutes.From, minutes.To = StepMinute, h.now.Add(-20*time.Hour), h.now.Add(time.Hour)
	if got, most := h.outcomes(c, minutes).Total.Begins(), answer.Total.Begins(); got > most {
		h.t.Errorf("%s: %d begins by the minute in a part of what has %d", when, got, most)
	}

	for by, wantBy := range map[groupBy]map[string][outcomes]int64{byOperation: want.byOperation, byCaller: want.byCaller} {
		groups := h.groups(c, by, hours)
		got := map[string][outcomes]int64{}
		ages := int64(0)
		for _, g := range groups.Items {
			got[g.Name] = g.counts
			ages += g.Ages.Count()
			if g.Ages.Count() != g.Of(Replay) {
				h.t.Errorf("%s: %s %q has %d ages of %d replays", when, by, g.Name, g.Ages.Count(), g.Of(Replay))
			}
		}
		h.same(fmt.Sprintf("%s: by %s", when, by), got, wantBy)
		h.same(fmt.Sprintf("%s: total by %s", when, by), groups.Total.counts, want.total)
		h.same(fmt.Sprintf("%s: ages by %s", when, by), ages, int64(len(want.ages)))
	}

	replays, err := h.service.ReplayAges(h.t.Context(), c.asks(), hours)
	if err != nil {
		h.t.Fatal(err)
	}
	h.same(when+": age histogram", replays.Ages.Histogram(), histogramOf(want.ages))
}

func (h *house) same(what string, got, want any) {
	h.t.Helper()
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(Figures{})); diff != "" {
		h.t.Errorf("%s (-got +want):\n%s", what, diff)
	}
}

// histogramOf is written from the contract's words alone.
func histogramOf(ages []time.Duration) (buckets [Buckets]int64) {
	seconds := []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400}
	for _, age := range ages {
		i := 0
		for i < len(seconds) && age.Seconds() > seconds[i] {
			i++
		}
		buckets[i]++
	}
	return buckets
}

// Two processes note a few thousand outcomes of two tenants, in minutes of
// yesterday and today and not in their order, while two workers roll up and
// are broken off at random moments.
func TestEveryViewEqualsAnIndependentCount(t *testing.T) {
	t.Parallel()
	const perProcess = 2_000
	h := setup(t)
	clients := []client{newClient(), newClient()}
	processes := []*Recorder{h.recorder, New(Config{Pool: h.pool})}
	tallies := make([][]*tally, len(processes))

	ctx, stop := context.WithCancel(t.Context())
	var noting, rolling sync.WaitGroup
	for p, recorder := range processes {
		tallies[p] = []*tally{newTally(), newTally()}
		noting.Go(func() {
			r := rand.New(rand.NewPCG(uint64(p), 7))
			for n := range perProcess {
				i := r.IntN(len(clients))
				e := clients[i].randomEvent(r)
				at := h.now.Add(-time.Duration(r.Int64N(int64(48 * time.Hour))))
				recorder.noteAt(at, e)
				tallies[p][i].count(at, e)
				if n%97 == 0 {
					if err := recorder.Flush(t.Context()); err != nil {
						t.Errorf("flush: %v", err)
					}
				}
			}
		})
	}
	for worker := range 2 {
		rolling.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 11))
			for ctx.Err() == nil {
				within, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(20_000))*time.Microsecond)
				aggregator := &Aggregator{store: h.service.store, batch: 1 + r.IntN(200)}
				_, _ = aggregator.RollUp(within) // broken off as a rule
				cancel()
			}
		})
	}
	noting.Wait()
	for _, recorder := range processes {
		if err := recorder.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []*tally{merge(tallies[0][0], tallies[1][0]), merge(tallies[0][1], tallies[1][1])}
	h.wantTally(clients[0], want[0], "while it is rolled up")
	stop()
	rolling.Wait()
	for run := range 3 {
		h.rollUp()
		for i, c := range clients {
			h.wantTally(c, want[i], fmt.Sprintf("tenant %d after run %d", i, run))
		}
	}
	h.same("rows that are not rolled up", h.number("select count(*) from analytics_counts"), int64(0))
	h.same("single events", h.number("select count(*) from analytics_events"), want[0].singleEvents+want[1].singleEvents)
	if _, err := h.aggregator.Housekeep(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wantTally(clients[0], want[0], "after the housekeeping")
}

func merge(a, b *tally) *tally {
	m := newTally()
	for _, t := range []*tally{a, b} {
		for o, n := range t.total {
			m.total[o] += n
		}
		mergeInto(m.byHour, t.byHour)
		mergeInto(m.byOperation, t.byOperation)
		mergeInto(m.byCaller, t.byCaller)
		m.ages = append(m.ages, t.ages...)
		m.singleEvents += t.singleEvents
	}
	return m
}

func mergeInto[K comparable](into, from map[K][outcomes]int64) {
	for key, counts := range from {
		sum := into[key]
		for o, n := range counts {
			sum[o] += n
		}
		into[key] = sum
	}
}

// A roll-up's session is ended by the server at random moments, which is what
// a kill of the worker looks like from there.
func TestARollUpWhoseSessionIsKilledLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	want := newTally()
	r := rand.New(rand.NewPCG(3, 3))
	for range 20 {
		for range 100 {
			e, at := c.randomEvent(r), h.now.Add(-time.Duration(r.Int64N(int64(2*time.Hour))))
			h.recorder.noteAt(at, e)
			want.count(at, e)
		}
		h.flush()
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			_, _ = h.pool.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like '%with moved as%' and pid <> pg_backend_pid()")
		}()
		_, _ = (&Aggregator{store: h.service.store, batch: 50}).RollUp(t.Context())
		<-killed
		h.pool.Reset() // a connection may have been killed while it was idle
		h.same("begins", h.outcomes(c, Query{}).Total.Begins(), Figures{want.total}.Begins())
	}
	h.rollUp()
	h.wantTally(c, want, "in the end")
}

func TestAFigureIsShownBeforeItIsRolledUpAndAfter(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	h.recorder.Note(c.event(Replay))
	h.same("before the flush", h.outcomes(c, Query{}).Total.Begins(), int64(0))
	h.flush()
	for _, when := range []string{"flushed", "rolled up", "rolled up twice"} {
		for _, step := range []Step{StepMinute, StepHour, StepDay} {
			h.same(when+" by the "+string(step), h.outcomes(c, Query{Step: step}).Total.Of(Replay), int64(1))
		}
		h.rollUp()
	}
}

func TestRatesFollowTheContract(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	for o, n := range map[Outcome]int{Acquired: 4, Resumed: 1, Replay: 2, InProgress: 1, Mismatch: 1, Unknown: 1, Release: 3, LateCompletion: 2, Resolution: 1} {
		for range n {
			h.recorder.Note(c.event(o))
		}
	}
	takeover := c.event(Acquired)
	takeover.TakenOver = true
	h.recorder.Note(takeover)
	h.flush()
	total := h.outcomes(c, Query{}).Total
	h.same("begins", total.Begins(), int64(11))
	h.same("takeovers", total.Of(Takeover), int64(1))
	rate, ok := total.ConflictRate()
	if !ok || rate != 3.0/11 {
		t.Errorf("rate %v, %v, want 3/11", rate, ok)
	}
	if _, ok := (Figures{}).ConflictRate(); ok {
		t.Error("nothing has a rate")
	}
}

func TestAFilterNarrowsEveryViewDown(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, elsewhere := newClient(), newClient()
	elsewhere.tenant = c.tenant
	for _, e := range []Event{c.event(Replay), elsewhere.event(Replay)} {
		h.recorder.Note(e)
		e.Operation = "PUT /v1/orders"
		h.recorder.Note(e)
		e.Caller = ""
		h.recorder.Note(e)
	}
	h.flush()
	empty := ""
	for name, tt := range map[string]struct {
		q    Query
		want int64
	}{
		"nothing":          {Query{}, 6},
		"a namespace":      {Query{Namespace: c.namespace}, 3},
		"an operation":     {Query{Operation: "PUT /v1/orders"}, 4},
		"the empty caller": {Query{Caller: &empty}, 2},
		"all of them":      {Query{Namespace: c.namespace, Operation: "PUT /v1/orders", Caller: &empty}, 1},
		"nobody":           {Query{Operation: "DELETE /v1/orders"}, 0},
	} {
		h.same(name+": outcomes", h.outcomes(c, tt.q).Total.Of(Replay), tt.want)
		ages, err := h.service.ReplayAges(t.Context(), c.asks(), tt.q)
		if err != nil {
			t.Fatal(err)
		}
		h.same(name+": ages", ages.Ages.Count(), tt.want)
		for _, by := range []groupBy{byOperation, byCaller} {
			groups := h.groups(c, by, tt.q)
			h.same(name+": by "+string(by), groups.Total.Of(Replay), tt.want)
			h.same(name+": ages by "+string(by), groups.Total.Ages.Count(), tt.want)
		}
	}
}

func TestTheWorstComesFirstAndTheRestAddsUp(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	note := func(operation string, o Outcome, n int) {
		for range n {
			e := c.event(o)
			e.Operation = operation
			h.recorder.Note(e)
		}
	}
	note("calm", Acquired, 50)
	note("retried", Replay, 9)
	note("worst", Mismatch, 4)
	note("bad", InProgress, 3)
	h.flush()
	groups := h.groups(c, byOperation, Query{Limit: 2})
	var names []string
	for _, g := range groups.Items {
		names = append(names, g.Name)
	}
	h.same("order", names, []string{"worst", "bad"})
	h.same("other", []int64{groups.Other.Begins(), groups.Other.Ages.Count()}, []int64{59, 9})
	h.same("total", groups.Total.Begins(), int64(66))
}

// Case: figures of one tenant never reach another, however they are asked at
// the same instant.
func TestTwoTenantsThatAskAtOnceSeeTheirOwnFigures(t *testing.T) {
	t.Parallel()
	const rounds = 500
	h := setup(t)
	totals := map[client]int64{newClient(): 3, newClient(): 8}
	for c, n := range totals {
		for range n {
			h.recorder.Note(c.event(Replay))
		}
	}
	h.flush()
	var asking sync.WaitGroup
	for _, c := range slices.Collect(maps.Keys(totals)) {
		asking.Go(func() {
			for range rounds {
				answer, err := h.service.Outcomes(t.Context(), c.asks(), Query{})
				groups, err2 := h.service.Operations(t.Context(), c.asks(), Query{})
				events, err3 := h.service.Events(t.Context(), c.asks(), EventQuery{})
				if err != nil || err2 != nil || err3 != nil {
					t.Error(err, err2, err3)
					return
				}
				if got := [3]int64{answer.Total.Begins(), groups.Total.Begins(), int64(len(events.Items))}; got != [3]int64{totals[c], totals[c], totals[c]} {
					t.Errorf("a tenant with %d replays sees %v", totals[c], got)
				}
			}
		})
	}
	asking.Wait()
}
