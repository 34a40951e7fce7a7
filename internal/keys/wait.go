package keys

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/onceward/onceward/internal/auth"
)

// The limits of Prefer: wait (wire contract, section 3).
const (
	MaxWait             = 30 * time.Second
	MaxWaitersPerTenant = 1000
	MaxWaitersPerRecord = 50
)

// waits parks begins that wait for a record to change. A parked begin holds no
// connection: one statement looks at all the records that anybody waits for,
// every interval, while anybody does. A change made in this process wakes at
// once.
//
// Looking instead of LISTEN: a NOTIFY in every completion would serialise the
// commits of all tenants, and a missed one would have to be looked for anyway.
type waits struct {
	store    *store
	interval time.Duration
	logger   *slog.Logger

	mu        sync.Mutex // guards all below
	records   map[ref]map[*waiter]struct{}
	perTenant map[auth.TenantID]int
	polling   bool
	drained   chan struct{} // closed by drain
}

// waiter is one parked begin.
type waiter struct {
	at    ref
	fence int64         // of the attempt that it waits for
	woken chan struct{} // closed once
}

// watched is a record that somebody waits for, and the attempt seen.
type watched struct {
	ref
	fence int64
}

func newWaits(s *store, interval time.Duration, logger *slog.Logger) *waits {
	return &waits{
		store: s, interval: interval, logger: logger,
		records: make(map[ref]map[*waiter]struct{}), perTenant: make(map[auth.TenantID]int), drained: make(chan struct{}),
	}
}

// BeginOrWait is Begin; where the answer would be InProgress it waits up to
// wait (at most MaxWait), deciding again each time the record changes or its
// lease runs out. applied is false where the waiters of the tenant or the
// record are at their limit and the answer came at once. A client that is gone
// (ctx) acquires nothing.
func (s *Service) BeginOrWait(ctx context.Context, caller auth.Caller, req BeginRequest, wait time.Duration) (outcome Outcome, applied bool, err error) {
	e, err := s.entry(ctx, caller, req)
	if err != nil {
		return nil, true, err
	}
	end := time.NewTimer(min(wait, MaxWait))
	defer end.Stop()
	applied = true
	for over := false; ; {
		outcome, err = s.decideOne(ctx, e)
		busy, waiting := outcome.(InProgress)
		if err != nil || !waiting || over {
			break
		}
		w := s.waits.park(e.ref, busy.fence) //nolint:contextcheck // one look serves all who wait, not this caller alone
		if w == nil {
			applied = false
			break
		}
		over = s.waits.sleep(ctx, w, end.C)
		if ctx.Err() != nil {
			return nil, true, translate(ctx.Err())
		}
	}
	if err == nil {
		s.observe(e, outcome)
	}
	return outcome, applied, err
}

// park registers a waiter; nil at the limits.
func (p *waits) park(at ref, fence int64) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.perTenant[at.tenant] >= MaxWaitersPerTenant || len(p.records[at]) >= MaxWaitersPerRecord {
		return nil
	}
	w := &waiter{at: at, fence: fence, woken: make(chan struct{})}
	if p.records[at] == nil {
		p.records[at] = make(map[*waiter]struct{})
	}
	p.records[at][w] = struct{}{}
	p.perTenant[at.tenant]++
	if !p.polling {
		p.polling = true
		go p.poll()
	}
	return w
}

// sleep waits until the record changes (over is false), the time is up or the
// service drains (true), or the client is gone.
func (p *waits) sleep(ctx context.Context, w *waiter, end <-chan time.Time) (over bool) {
	defer p.leave(w)
	select {
	case <-w.woken:
		return false
	case <-end:
	case <-p.drained:
	case <-ctx.Done():
	}
	return true
}

func (p *waits) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(w)
}

// forget takes w out of the maps, once. Holds p.mu.
func (p *waits) forget(w *waiter) {
	if _, there := p.records[w.at][w]; !there {
		return
	}
	delete(p.records[w.at], w)
	if len(p.records[w.at]) == 0 {
		delete(p.records, w.at)
	}
	if p.perTenant[w.at.tenant]--; p.perTenant[w.at.tenant] == 0 {
		delete(p.perTenant, w.at.tenant)
	}
}

// wake lets everybody who waits for the record decide again.
func (p *waits) wake(at ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.records[at] {
		p.forget(w)
		close(w.woken)
	}
}

// drain ends all waits, those to come as well.
func (p *waits) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.drained:
	default:
		close(p.drained)
	}
}

// poll looks at the awaited records until nobody waits any more.
func (p *waits) poll() {
	ticker := time.NewTicker(p.interval)
	defer ticker.Stop()
	for range ticker.C {
		records := p.watched()
		if len(records) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
		changed, err := p.store.changed(ctx, records)
		cancel()
		if err != nil {
			p.logger.Warn("look at the records that are waited for", slog.Int("records", len(records)), slog.Any("error", err))
			continue // the waiters' own begins say 503 if it goes on
		}
		for _, at := range changed {
			p.wake(at)
		}
	}
}

// watched lists what is waited for, each record with the oldest attempt that a
// waiter saw. An empty list ends the polling.
func (p *waits) watched() []watched {
	p.mu.Lock()
	defer p.mu.Unlock()
	records := make([]watched, 0, len(p.records))
	for at, waiters := range p.records {
		first := true
		oldest := watched{ref: at}
		for w := range waiters {
			if first || w.fence < oldest.fence {
				oldest.fence, first = w.fence, false
			}
		}
		records = append(records, oldest)
	}
	p.polling = len(records) > 0
	return records
}
