package pruning

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxClockStep is how far the database's clock may differ from what this
	// process's monotonic one says of the time between two looks at it, beside
	// what two clocks that are kept drift apart: a thousandth.
	maxClockStep  = 5 * time.Second
	driftFraction = 1000
	// agreement is how long both must go together after a step before anything
	// is pruned again.
	agreement = time.Minute
)

// ErrClockStepped ends a run: the database's clock jumped, so what looks
// expired may not be.
var ErrClockStepped = errors.New("the clock of the database has jumped; nothing is pruned until it has gone steadily for a minute: check the server's time, the next run goes on")

// clock is the database's clock as a Pruner last saw it. It outlives the runs:
// what happens between two of them is noticed by the second.
type clock struct {
	mu       sync.Mutex
	seen     time.Time // of the database; zero: never
	seenOur  time.Time // of this process, at the same moment
	doubtful time.Time // of this process: nothing is pruned until then
}

// look compares what the database's clock says has passed since the last look
// with what this process measured.
func (c *clock) look(now, our time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := our.Sub(c.seenOur)
	step := now.Sub(c.seen) - passed
	first := c.seen.IsZero()
	c.seen, c.seenOur = now, our
	switch {
	case !first && step.Abs() > maxClockStep+passed/driftFraction:
		c.doubtful = our.Add(agreement)
		return fmt.Errorf("%w (by %s)", ErrClockStepped, step)
	case our.Before(c.doubtful):
		return ErrClockStepped
	}
	return nil
}
