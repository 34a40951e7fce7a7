package limits

import (
	"math"

	"github.com/onceward/onceward/internal/auth"
)

// demand is how much of one limit this process is asked for.
type demand struct {
	key       key
	perSecond float64
}

// counted is what has been used since the last refresh.
type counted struct {
	days map[auth.TenantID]*day
	held map[auth.TenantID]held // the additions alone
}

// collect takes what is to be told to the others. Buckets that nobody asks for
// and that are full again are dropped.
func (l *Limiter) collect() ([]demand, counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.nowFunc()
	elapsed := math.Max(now.Sub(l.refreshedAt).Seconds(), 0.001)
	l.refreshedAt = now
	var demands []demand
	for k, b := range l.buckets {
		b.demand = (b.demand + b.asked/elapsed) / 2
		b.asked = 0
		idle := b.demand < 0.01
		if idle && b.tokens+b.limit*b.share*now.Sub(b.at).Seconds() >= b.size() {
			delete(l.buckets, k)
			continue
		}
		if k.caller == "" || b.demand > b.limit*publishedAbove { // callers are many
			demands = append(demands, demand{k, b.demand})
		}
	}
	c := counted{days: l.days, held: make(map[auth.TenantID]held)}
	l.days = make(map[auth.TenantID]*day)
	for tenant, h := range l.held {
		if h.newRecords != 0 || h.newBytes != 0 {
			c.held[tenant] = held{newRecords: h.newRecords, newBytes: h.newBytes}
			// They count here until they are read back.
			h.records, h.bytes = h.records+h.newRecords, h.bytes+h.newBytes
			h.newRecords, h.newBytes = 0, 0
		}
	}
	return demands, c
}

// putBack is for what could not be told.
func (l *Limiter) putBack(c counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for tenant, d := range c.days {
		today := l.day(tenant)
		today.requests, today.newRecords, today.limited = today.requests+d.requests, today.newRecords+d.newRecords, today.limited+d.limited
	}
	for tenant, added := range c.held {
		h := l.heldBy(tenant)
		h.records, h.bytes = h.records-added.newRecords, h.bytes-added.newBytes
		h.newRecords, h.newBytes = h.newRecords+added.newRecords, h.newBytes+added.newBytes
	}
}

// share sets what this process may give out: its part of what all processes
// are asked for.
func (l *Limiter) share(demands []demand, totals map[key]float64, processes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = max(processes, 1)
	for _, d := range demands {
		b := l.buckets[d.key]
		if b == nil {
			continue
		}
		share := 1 / float64(l.processes)
		if total := totals[d.key]; total > 0 {
			share = math.Min(math.Max(d.perSecond/total, leastShare), 1)
		}
		b.share = share
		b.tokens = math.Min(b.tokens, b.size())
	}
}

// watched are the tenants of whose holdings this process has heard.
func (l *Limiter) watched() []auth.TenantID {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]auth.TenantID, 0, len(l.held))
	for tenant := range l.held {
		list = append(list, tenant)
	}
	return list
}
