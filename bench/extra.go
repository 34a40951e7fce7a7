//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/onceward/onceward/bench/load"
)

// What is measured beside the comparisons with pgbench.

const (
	legOneProcess   = "begin, one process"
	legTwoProcesses = "begin, two processes"
	legContested    = "begin, two processes, every key at both"
	legEmptyTable   = "begin, empty table"
	legLargeTable   = "begin, large table"
	legUnpruned     = "begin, nothing else"
	legPruned       = "begin, during paced pruning"

	// expiredFifths of the large table's records have expired.
	expiredFifths = 1
	// contestedKeys is how many keys a second of the leg both processes are
	// asked for. The leg ends when all have been: it checks more than it measures.
	contestedKeys = 400
)

// opened is an open loop at seven tenths of what the closed one reached, where
// latency counts from the moment at which a request was due.
func (b *bench) opened(db *database, api *server, closed result) group {
	rate := 0.7 * median(rates(closed.measures[legID(legDigest, most)]))
	return group{name: "open loop", before: db.session.empty, legs: []leg{{
		name: fmt.Sprintf("%s, %.0f/s", legOpen, rate), conns: most,
		run: func(ctx context.Context, conns int) (measure, error) {
			m, _, err := b.drive(ctx, drive{db: db, servers: []*server{api}, script: digestScript, conns: conns, rate: rate})
			return m, err
		},
	}}}
}

func (b *bench) twoProcesses(db *database, one, other *server) group {
	keys := int64(contestedKeys * b.opts.seconds)
	contested := func(ctx context.Context, conns int) (measure, error) {
		script := func(m maker, prefix string, r *run, conn int) load.Script {
			return &contestedScript{beginScript: beginScript{r, m.begin(m.beginByDigest(prefix, ownerOf(conn)))}}
		}
		m, r, err := b.drive(ctx, drive{db: db, servers: []*server{one, other}, script: script, conns: conns, measure: 2 * minute, limit: keys})
		if err == nil && (r.acquired != keys || r.refused != keys*int64(conns-1)) {
			err = fmt.Errorf("%w: of %d keys begun by each of %d connections, %d were acquired and %d begins refused", errCounts, keys, conns, r.acquired, r.refused)
		}
		return m, err
	}
	return group{name: "two processes", legs: []leg{
		b.fresh(b.loaded(legOneProcess, "", most, db, digestScript, one), db, one, other),
		b.fresh(b.loaded(legTwoProcesses, legID(legOneProcess, most), most, db, digestScript, one, other), db, one, other),
		{name: legContested, conns: 4, run: contested},
	}}
}

func (b *bench) largeTable(small, large *database, atSmall, atLarge *server) group {
	return group{name: "large table", before: small.session.empty, legs: []leg{
		b.loaded(legEmptyTable, "", most, small, digestScript, atSmall),
		b.loaded(legLargeTable, legID(legEmptyTable, most), most, large, digestScript, atLarge),
	}}
}

// pruned compares begins without and with the hourly job running beside them.
func (b *bench) pruned(large *database, api *server) group {
	beside := func(ctx context.Context, conns int) (measure, error) {
		pruning, stop := context.WithCancel(ctx)
		type outcome struct {
			pruned int64
			err    error
		}
		ended := make(chan outcome, 1)
		go func() {
			pruned, err := large.prune(pruning)
			ended <- outcome{pruned, err}
		}()
		m, _, err := b.drive(ctx, drive{db: large, servers: []*server{api}, script: digestScript, conns: conns})
		stop()
		o := <-ended
		switch {
		case err != nil:
			return m, err
		case o.err != nil:
			return m, fmt.Errorf("prune: %w", o.err)
		case o.pruned == 0:
			return m, fmt.Errorf("nothing was left to prune: make more records, or fewer rounds")
		}
		b.prunedRecords += o.pruned
		return m, nil
	}
	return group{name: "pruning", legs: []leg{
		b.loaded(legUnpruned, "", some, large, digestScript, api),
		{name: legPruned, conns: some, against: legID(legUnpruned, some), run: beside},
	}}
}
