package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2" //nolint:depguard // jitter: the looks of several processes do not march in step
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxClockStep is how far the database's clock may differ from what this
	// process's monotonic one says of the time between two looks at it, beside
	// what two clocks that are kept drift apart: a thousandth.
	maxClockStep  = 5 * time.Second
	driftFraction = 1000
	// clockAgreement is how long both must go together after a step before the
	// database's clock is believed again.
	clockAgreement = time.Minute

	clockInterval = 500 * time.Millisecond
	clockTimeout  = 5 * time.Second
)

// ErrClockStepped says that the database's clock jumped: what looks expired or
// lapsed may not be.
var ErrClockStepped = errors.New("the clock of the database has jumped; nothing begins and nothing is pruned until it has gone steadily for a minute: check the server's time")

// Clock is the database's clock as a process sees it: steady, or doubtful for
// a minute after a jump of more than five seconds, in either direction. It is
// told by looks, and measures what passes between two of them by the monotonic
// clock of this process. A failover to a server with another time is a jump
// too, and so is a process that was stopped together with its machine. What
// was wrong before the first look is not noticed.
//
// The zero value is ready, and safe for use by many goroutines.
type Clock struct {
	// doubts is whether doubtful may lie ahead: all that a call asks on its
	// path.
	doubts atomic.Bool
	steps  atomic.Int64

	mu       sync.Mutex
	seen     time.Time // of the database; zero: never
	sent     time.Time // of this process, before and after seen was read
	received time.Time
	doubtful time.Time // of this process: nothing is believed until then
}

// Look compares what the database's clock says has passed since the last look
// with what this process measured; now was read by the database between sent
// and received. ErrClockStepped: the clock jumped, or has lately.
func (c *Clock) Look(now, sent, received time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := now.Sub(c.seen)
	least, most := sent.Sub(c.received), received.Sub(c.sent)
	allowed := maxClockStep + most/driftFraction
	first := c.seen.IsZero()
	c.seen, c.sent, c.received = now, sent, received
	step := passed - most
	if step < 0 {
		step = min(passed-least, 0)
	}
	switch {
	case !first && step.Abs() > allowed:
		c.doubtful = received.Add(clockAgreement)
		c.doubts.Store(true)
		c.steps.Add(1)
		return fmt.Errorf("%w (by %s)", ErrClockStepped, step)
	case received.Before(c.doubtful):
		return ErrClockStepped
	}
	c.doubts.Store(false)
	return nil
}

// Doubt is ErrClockStepped while the clock is not believed.
func (c *Clock) Doubt() error {
	if c.doubts.Load() {
		return ErrClockStepped
	}
	return nil
}

// Trust is the operator's word that the clock is right as it is.
func (c *Clock) Trust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubtful = time.Time{}
	c.doubts.Store(false)
}

// Steps is how often the clock has jumped.
func (c *Clock) Steps() int64 { return c.steps.Load() }

// Watch looks at the clock twice a second until ctx ends, and says in the log
// when it jumps and when it is believed again. nowFunc is this process's clock.
// A database that cannot be reached tells nothing: the next look that succeeds
// compares with the last one that did.
func (c *Clock) Watch(ctx context.Context, pool *pgxpool.Pool, nowFunc func() time.Time, logger *slog.Logger) {
	for ctx.Err() == nil {
		steps, doubted := c.Steps(), c.Doubt() != nil
		err := c.lookAt(ctx, pool, nowFunc)
		switch {
		case c.Steps() > steps:
			logger.Error("the database's clock jumped: begins are refused and nothing is pruned until it has gone steadily for a minute, or the operator says that it is right", slog.Any("error", err))
		case doubted && err == nil:
			logger.Warn("the database's clock has gone steadily for a minute: begins are answered again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(clockInterval + rand.N(clockInterval/10)): //nolint:gosec // spreads load
		}
	}
}

func (c *Clock) lookAt(ctx context.Context, pool *pgxpool.Pool, nowFunc func() time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	sent := nowFunc()
	var now time.Time
	// Unqualified on purpose: a test gives the server a clock of its own.
	if err := pool.QueryRow(ctx, "select clock_timestamp()").Scan(&now); err != nil {
		return err
	}
	return c.Look(now, sent, nowFunc())
}
