package analytics

import (
	"sync/atomic"
	"time"
)

// clock is the database's clock, carried on by this process's monotonic one
// from the last time that it was read: what is counted belongs to the minute
// of the database, whatever the clock of the machine says.
type clock struct {
	nowFunc func() time.Time
	last    atomic.Pointer[reading]
}

// reading is one look at both clocks.
type reading struct {
	local    time.Time
	database time.Time
}

func (c *clock) now() time.Time {
	local := c.nowFunc()
	r := c.last.Load()
	if r == nil {
		return local // before the first flush, or its database was away
	}
	return r.database.Add(local.Sub(r.local))
}

// set notes what the database's clock said at some moment between asked and
// now; it is taken for the middle.
func (c *clock) set(database, asked time.Time) {
	answered := c.nowFunc()
	c.last.Store(&reading{local: asked.Add(answered.Sub(asked) / 2), database: database})
}
