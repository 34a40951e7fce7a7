//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Config says what to send, where, and for how long.
type Config struct {
	// Addrs are IPv4 host:port of the servers; connections go to them in turn.
	Addrs []string
	// Scripts are one per connection.
	Scripts []Script
	// Warmup is load before Measure begins; what it finds is not measured.
	Warmup, Measure time.Duration
	// Rate makes an open loop: that many requests a second over all
	// connections, whether answers come or not. Latency counts from the moment
	// at which a request was due, so a server that stalls is charged for those
	// that could not even be sent. Zero makes a closed loop: each connection
	// sends its next request once it has its answer.
	Rate float64
	// Edge is called when measuring begins and when it ends; nil: nobody is.
	Edge    func()
	NowFunc func() time.Time
}

// Result is what was measured between the two edges.
type Result struct {
	Requests   int64
	Operations int64
	Took       time.Duration
	// Latency, by Done.Kind, in microseconds.
	Latency [Kinds]*hdrhistogram.Histogram
}

// NewHistogram holds latencies of 1 µs to 60 s to three digits.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60_000_000, 3) }

// drainTimeout is for answers that are still missing when the time is up.
const drainTimeout = 15 * time.Second

var errDrain = errors.New("answers were still missing 15 s after the last request")

// Run sends until the time is up, or every script has ended, and waits for the
// answers to all that it sent: nothing is left in flight. Any answer that a
// script refuses, and any connection that breaks, is an error.
func Run(ctx context.Context, c Config) (Result, error) {
	l, err := newLoop(c)
	if err != nil {
		return Result{}, err
	}
	defer l.close()
	started := c.NowFunc()
	l.started = started
	measured, ends := started.Add(c.Warmup), started.Add(c.Warmup+c.Measure)
	if err := l.turn(ctx, measured); err != nil {
		return Result{}, fmt.Errorf("warm up: %w", err)
	}
	edge := func() {
		if c.Edge != nil {
			c.Edge()
		}
	}
	edge()
	l.measuring = true
	began := c.NowFunc()
	err = l.turn(ctx, ends)
	l.result.Took = c.NowFunc().Sub(began)
	l.measuring = false
	edge()
	if err != nil {
		return Result{}, err
	}
	return l.result, l.drain(ctx)
}

// drain waits for what is in flight.
func (l *loop) drain(ctx context.Context) error {
	l.stopped = true
	if err := l.turn(ctx, l.config.NowFunc().Add(drainTimeout)); err != nil {
		return fmt.Errorf("wait for the last answers: %w", err)
	}
	if l.inFlight > 0 {
		return errDrain
	}
	return nil
}
