package analytics

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// scope is a query by the clock of the database: which rows of which table
// make up its answer.
type scope struct {
	Range
	asked  Query
	tenant auth.TenantID
	now    time.Time
	step   time.Duration

	hours     Range    // from analytics_hours
	minutes   [2]Range // from analytics_minutes: before the first and after the last whole hour
	notRolled Range    // from analytics_counts
}

// scope fills in what the query left open.
func (s *Service) scope(ctx context.Context, caller auth.Caller, q Query) (*scope, error) {
	now, err := s.store.now(ctx)
	if err != nil {
		return nil, translate(err)
	}
	c := &scope{asked: q, Range: Range{q.From.UTC(), q.To.UTC()}, tenant: caller.Tenant, now: now.UTC()}
	if q.To.IsZero() {
		c.To = c.now
		if !q.From.IsZero() && c.From.After(c.To) {
			c.To = c.From
		}
	}
	if q.From.IsZero() {
		c.From = c.To.Add(-defaultSpan)
	}
	switch oldest := c.now.Add(-HoursKept); {
	case !c.From.Before(c.To):
		return nil, problem.Invalid(problem.Field{Parameter: "from", Reason: "must be before to"})
	case c.From.Before(oldest):
		return nil, problem.Invalid(problem.Field{Parameter: "from", Reason: fmt.Sprintf("figures are kept for %d days", int(HoursKept/day))})
	}
	return c, nil
}

// alignTo widens the range to whole steps and takes them from the coarsest
// table that has them.
func (c *scope) alignTo(step Step) error {
	c.step = step.Length()
	if c.step == 0 {
		return problem.Invalid(problem.Field{Parameter: "step", Reason: "must be minute, hour or day"})
	}
	c.From, c.To = floor(c.From, c.step), ceil(c.To, c.step)
	if n := c.To.Sub(c.From) / c.step; n > maxSteps {
		return problem.Invalid(problem.Field{Parameter: "step", Reason: fmt.Sprintf("the range has %d of these steps; ask for at most %d, or for a longer step", n, maxSteps)})
	}
	if step != StepMinute {
		c.hours = c.Range
	} else {
		if c.From.Before(c.minutesSince()) {
			return problem.Invalid(problem.Field{Parameter: "step", Reason: fmt.Sprintf("minutes are kept for %d days; ask for hours", int(MinutesKept/day))})
		}
		c.minutes[0] = c.Range
	}
	c.notRolled = c.Range
	return nil
}

// alignToWhatIsKept takes whole hours from the hours and the rest at both ends
// from the minutes, where there are still any.
func (c *scope) alignToWhatIsKept() {
	since := c.minutesSince()
	if c.From.Before(since) {
		c.From = floor(c.From, time.Hour)
	}
	if floor(c.To, time.Hour).Before(since) {
		c.To = ceil(c.To, time.Hour)
	}
	c.From, c.To = floor(c.From, time.Minute), ceil(c.To, time.Minute)
	c.notRolled = c.Range
	first, last := ceil(c.From, time.Hour), floor(c.To, time.Hour)
	if last.Before(first) { // within one hour
		c.minutes[0] = c.Range
		return
	}
	c.minutes[0], c.hours, c.minutes[1] = Range{c.From, first}, Range{first, last}, Range{last, c.To}
}

func (c *scope) minutesSince() time.Time { return floor(c.now.Add(-MinutesKept), time.Minute) }

// floor and ceil are by UTC: time.Truncate counts from the year 1, which is a
// whole number of days away.
func floor(t time.Time, step time.Duration) time.Time { return t.UTC().Truncate(step) }

func ceil(t time.Time, step time.Duration) time.Time {
	if down := floor(t, step); down.Before(t) {
		return down.Add(step)
	}
	return t.UTC()
}
