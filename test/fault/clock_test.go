//go:build unix

package fault_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// B097: three processes, one with a clock that is five minutes ahead and one
// five minutes behind. A lease that is renewed is taken over by nobody, one
// that has lapsed by anybody, and every time that is told is the database's,
// whoever tells it.
func TestAWrongClockOfAProcessDecidesNothing(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	start := processtest.Skewed(t)
	const skew = 5 * time.Minute
	processes := map[string]*processtest.API{"right": w.API(t), "ahead": start(w, skew), "behind": start(w, -skew)}
	all := map[string]*apitest.Client{}
	for clock, p := range processes {
		all[clock] = p.Client(w.Tenant.Service)
	}
	checkClockIsWrong(t, processes["ahead"], skew)
	checkClockIsWrong(t, processes["behind"], -skew)

	for holder, c := range all {
		key := processtest.NewKey()
		before := databaseNow(t, w)
		held := c.Begin(t, apitest.Charge(key).With(apitest.Object{"lease_seconds": 30, "retention_seconds": 3600})).Acquired(t)
		isAbout(t, holder+": created_at", held.CreatedAt, before, databaseNow(t, w))
		isAbout(t, holder+": the lease", held.Lease.ExpiresAt.Add(-30*time.Second), before, databaseNow(t, w))
		isAbout(t, holder+": expires_at", (*held.ExpiresAt).Add(-3630*time.Second), before, databaseNow(t, w))
		isAbout(t, holder+": the fence", time.UnixMicro(held.Lease.Fence), before, databaseNow(t, w))
		// Heartbeats hold it, whoever sends them and whoever begins meanwhile.
		for renewer, c := range all {
			w.Advance(t, held.ID, 29*time.Second)
			before := databaseNow(t, w)
			renewed := c.Renew(t, held, apitest.Object{"lease_seconds": 30}).Lease(t)
			isAbout(t, holder+", renewed by "+renewer, renewed.ExpiresAt.Add(-30*time.Second), before, databaseNow(t, w))
			for beginner, c := range all {
				a := c.Begin(t, apitest.Charge(key))
				p := a.Problem(t, http.StatusConflict, "in_progress")
				if !p.LeaseExpiresAt.Equal(renewed.ExpiresAt) || p.RetryAfter < 1 || p.RetryAfter > 30 {
					t.Errorf("%s tells of a lease until %s and of %d s, want %s and at most 30", beginner, p.LeaseExpiresAt, p.RetryAfter, renewed.ExpiresAt)
				}
			}
		}
		// Without them it is free for each in turn.
		for taker, c := range all {
			w.Advance(t, held.ID, 31*time.Second)
			second := c.Begin(t, apitest.Charge(key).With(apitest.Object{"lease_seconds": 30, "retention_seconds": 3600})).Acquired(t)
			if !second.TakenOver || second.Lease.Fence <= held.Lease.Fence {
				t.Errorf("%s got %+v, want a takeover with a fence above %d", taker, second, held.Lease.Fence)
			}
			held = second
		}
		c.Complete(t, held, processtest.Done("done")).Completion(t)
		// The retention ends for all at the same instant. What has passed of it
		// is less than skew away from it, on both sides.
		w.Advance(t, held.ID, time.Hour-skew/2)
		for clock, c := range all {
			if age := c.Begin(t, apitest.Charge(key)).Replay(t).AgeSeconds; age < (time.Hour-skew/2).Seconds() || age > (time.Hour+skew/2).Seconds() {
				t.Errorf("%s says that the replay is %f s old", clock, age)
			}
		}
		w.Advance(t, held.ID, skew/2+31*time.Second)
		for _, c := range all {
			c.Inspect(t, held.ID, "").Problem(t, http.StatusNotFound, "not_found")
		}
		if fresh := c.Begin(t, apitest.Charge(key)).Acquired(t); fresh.Attempt != 1 {
			t.Errorf("after its retention: %+v, want attempt 1", fresh)
		}
	}
}

// checkClockIsWrong makes sure that the clock by which the packages of a
// process go is ahead by so much, and that they still measure durations right.
func checkClockIsWrong(t *testing.T, p *processtest.API, ahead time.Duration) {
	t.Helper()
	wrong := map[string]bool{}
	for line := range strings.Lines(p.Log.String()) {
		var clock struct {
			Msg, Of, Monotonic string
			Now                time.Time
		}
		if err := json.Unmarshal([]byte(line), &clock); err != nil || clock.Msg != "clock" {
			continue
		}
		const tolerance = time.Minute // since the process was started
		if off := time.Until(clock.Now) - ahead; off.Abs() > tolerance {
			t.Errorf("the clock of %s is off by %s, want %s", clock.Of, off+ahead, ahead)
		}
		if between, err := time.ParseDuration(clock.Monotonic); err != nil || between.Abs() > tolerance {
			t.Errorf("%s measures %s between two looks at its clock, %v", clock.Of, between, err)
		}
		wrong[clock.Of] = true
	}
	for _, of := range []string{"keys", "auth", "tenants", "freshcache", "api"} {
		if !wrong[of] {
			t.Errorf("the clock of %s is right", of)
		}
	}
}

// databaseNow is the database's clock.
func databaseNow(t *testing.T, w *processtest.World) (now time.Time) {
	t.Helper()
	if err := w.Pool.QueryRow(t.Context(), `select clock_timestamp()`).Scan(&now); err != nil {
		t.Fatal(err)
	}
	return now
}

// isAbout fails the test for a time that was not between two.
func isAbout(t *testing.T, what string, got, after, before time.Time) {
	t.Helper()
	if got.Before(after) || got.After(before) {
		t.Errorf("%s is %s, want between %s and %s by the database's clock", what, got, after, before)
	}
}
