//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/bench/load"
)

const (
	minute = time.Minute

	idleConnections = 10_000
	// cachedRecords of bodyBytes each are more than the cache of 64 MiB holds.
	cachedRecords = 30_000
	// soakPairs a second is a load that the machine does beside other work.
	soakPairs   = 1_000
	soakSamples = 40
)

// remembered is what the memory of one API came to.
type remembered struct {
	idle, highest int64 // bytes resident: with the cache full and the connections idle; ever
	// Of a long run of load: the mean of the second quarter and of the last.
	soaked        time.Duration
	early, late   int64
	soakedRecords int64
}

// remember fills the replay cache of a new API, parks connections on it, and
// looks at its memory; then, if asked to, loads it for long.
func (b *bench) remember(ctx context.Context, db *database) (m remembered, err error) {
	api, err := b.startAPI(ctx, "memory", db)
	if err != nil {
		return m, err
	}
	defer func() { err = firstOf(err, api.stop()) }()
	if err := db.session.empty(ctx); err != nil {
		return m, err
	}
	prefix, err := b.complete(ctx, db, api, cachedRecords)
	if err != nil {
		return m, err
	}
	script := func(m maker, _ string, r *run, _ int) load.Script {
		return &replayScript{run: r, request: m.replay(prefix, true), want: wantOfReplay(m.body, true), records: cachedRecords}
	}
	// Twice through at the least: the first time fills, the second finds.
	if _, _, err := b.drive(ctx, drive{db: db, servers: []*server{api}, script: script, conns: some, uncounted: true, measure: 10 * time.Second}); err != nil {
		return m, err
	}
	release, err := load.Hold(api.addr, idleConnections, []byte("GET /healthz HTTP/1.1\r\nHost: bench\r\n\r\n"))
	if err != nil {
		return m, err
	}
	m.idle, m.highest, err = memory(api.pid())
	release()
	if err != nil || b.opts.soak == 0 {
		return m, err
	}
	return b.soak(ctx, db, api, m)
}

// soak loads an API with pairs at a steady rate and watches its memory.
func (b *bench) soak(ctx context.Context, db *database, api *server, m remembered) (remembered, error) {
	samples := make(chan []int64, 1)
	watching, stop := context.WithCancel(ctx)
	go func() { samples <- watchMemory(watching, api.pid(), b.opts.soak/soakSamples) }()
	_, r, err := b.drive(ctx, drive{db: db, servers: []*server{api}, script: messagePairs, conns: some, rate: 2 * soakPairs, measure: b.opts.soak})
	stop()
	seen := <-samples
	if err != nil {
		return m, err
	}
	if len(seen) < soakSamples/2 {
		return m, fmt.Errorf("memory was seen only %d times in %s", len(seen), b.opts.soak)
	}
	quarter := len(seen) / 4
	m.soaked, m.soakedRecords = b.opts.soak, r.completed
	m.early, m.late = mean(seen[quarter:2*quarter]), mean(seen[3*quarter:])
	return m, nil
}

func watchMemory(ctx context.Context, pid int, every time.Duration) (seen []int64) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return seen
		case <-ticker.C:
			if now, _, err := memory(pid); err == nil {
				seen = append(seen, now)
			}
		}
	}
}

func mean(values []int64) int64 {
	var sum int64
	for _, v := range values {
		sum += v
	}
	return sum / int64(max(len(values), 1))
}
