package client

import (
	"sync"
	"time"
)

// breaker refuses calls to a service that has stopped answering, so that its
// callers hear so at once and it is not met by all of them when it comes back.
// After a pause it lets one call through; how that one ends decides.
type breaker struct {
	clock     Clock
	threshold int // negative: never opens
	pause     time.Duration

	mu       sync.Mutex // guards what follows
	failures int        // in a row
	openedAt time.Time  // zero: closed
	probing  bool       // one call is on its way to look
}

// health is what a try says of the service.
type health int

const (
	healthy health = iota
	failing
	undecided // the caller gave up before it was known
)

func newBreaker(clock Clock, threshold int, pause time.Duration) *breaker {
	return &breaker{clock: clock, threshold: threshold, pause: pause}
}

// allow says whether a try may be made; if so, report must follow. Else it is
// how long until it is worth asking again.
func (b *breaker) allow() (ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.openedAt.IsZero() {
		return true, 0
	}
	left := b.pause - b.clock.Now().Sub(b.openedAt)
	if left > 0 || b.probing {
		return false, max(left, b.pause/4)
	}
	b.probing = true
	return true, 0
}

// report tells how a try that was allowed ended, and whether it opened the
// breaker.
func (b *breaker) report(h health) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	return b.take(h)
}

// note is report for a try that did not ask: what a lease holder has to say is
// said whether or not the breaker is open.
func (b *breaker) note(h health) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(h)
}

// take counts a try. Holds b.mu.
func (b *breaker) take(h health) (opened bool) {
	switch h {
	case healthy:
		b.failures, b.openedAt = 0, time.Time{}
	case failing:
		b.failures++
		if b.threshold > 0 && b.failures >= b.threshold {
			opened = b.openedAt.IsZero()
			b.openedAt = b.clock.Now()
		}
	case undecided:
	}
	return opened
}
