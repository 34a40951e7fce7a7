//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/onceward/onceward/bench/load"
)

// measure is what one leg of one round found.
type measure struct {
	operations int64
	rate       float64 // operations a second
	meanMS     float64 // pgbench only, which gives no percentiles
	latency    [load.Kinds]*hdrhistogram.Histogram
	used       usage
	wal        int64 // bytes
}

// leg is one side of a comparison: a load of one kind on so many connections.
type leg struct {
	name  string
	conns int
	// against is the id of the leg of the same round to whose rate this one's
	// is compared; empty: none.
	against string
	run     func(ctx context.Context, conns int) (measure, error)
}

func (l leg) id() string { return legID(l.name, l.conns) }

func legID(name string, conns int) string { return fmt.Sprintf("%s @%d", name, conns) }

// group is legs that run in turn, round after round: what the machine does
// besides meets all of them alike.
type group struct {
	name   string
	legs   []leg
	before func(ctx context.Context) error // each round; nil: nothing
}

// result is a group's measures, by leg and round.
type result struct {
	group
	measures map[string][]measure
}

func (b *bench) runGroup(ctx context.Context, g group) (result, error) {
	r := result{group: g, measures: make(map[string][]measure)}
	for round := range b.opts.pairs {
		if g.before != nil {
			if err := g.before(ctx); err != nil {
				return r, fmt.Errorf("%s: %w", g.name, err)
			}
		}
		var line []string
		for _, l := range g.legs {
			m, err := l.run(ctx, l.conns)
			if err != nil {
				return r, fmt.Errorf("%s, %s: %w", g.name, l.id(), err)
			}
			r.measures[l.id()] = append(r.measures[l.id()], m)
			line = append(line, fmt.Sprintf("%s %.0f/s", l.id(), m.rate))
		}
		b.say("%s, round %d of %d (load average %s): %s", g.name, round+1, b.opts.pairs, loadAverage(), strings.Join(line, ", "))
	}
	return r, nil
}

// drive is a load on servers.
type drive struct {
	db      *database
	servers []*server
	script  func(m maker, prefix string, r *run, conn int) load.Script
	conns   int
	rate    float64 // requests a second of an open loop; zero: closed
	measure time.Duration
	limit   int64 // keys to be used at the most; zero: no limit
	// uncounted is for loads that make no records.
	uncounted bool
	profile   string // name of its profiles
}

var errCounts = errors.New("the counts do not agree")

// drive runs a load and holds what the generator was told against what is in
// the table: every begin that was answered acquired is one record, every
// completion one completed record.
func (b *bench) drive(ctx context.Context, d drive) (measure, *run, error) {
	b.runs++
	prefix := fmt.Sprintf("bench-%d-%06d", b.unique, b.runs)
	r := &run{limit: d.limit}
	config := load.Config{Measure: d.measure, Warmup: b.warmup(), Rate: d.rate, NowFunc: b.nowFunc}
	if config.Measure == 0 {
		config.Measure = time.Duration(b.opts.seconds) * time.Second
	}
	for i := range d.conns {
		config.Scripts = append(config.Scripts, d.script(d.db.maker(), prefix, r, i))
	}
	for _, s := range d.servers {
		config.Addrs = append(config.Addrs, s.addr)
	}
	var marks []snapshot
	var failed error
	config.Edge = func() {
		at, err := takeSnapshot(ctx, d.db, d.servers)
		marks, failed = append(marks, at), errors.Join(failed, err)
	}
	if d.profile != "" {
		failed = beginProfile(d.servers)
	}
	found, err := load.Run(ctx, config)
	if err = errors.Join(err, failed); err != nil {
		return measure{}, r, err
	}
	if d.profile != "" {
		err = b.endProfile(ctx, d.servers, d.profile)
	}
	for _, s := range d.servers {
		err = errors.Join(err, s.shorten())
	}
	if err == nil && !d.uncounted {
		err = r.check(ctx, d.db, prefix)
	}
	return measure{
		operations: found.Operations, rate: float64(found.Operations) / found.Took.Seconds(), latency: found.Latency,
		used: marks[1].used.minus(marks[0].used), wal: marks[1].wal - marks[0].wal,
	}, r, err
}

func (r *run) check(ctx context.Context, db *database, prefix string) error {
	there, err := db.session.count(ctx, db.tenant, prefix)
	if err != nil {
		return err
	}
	if there.acquired != r.acquired || there.completed != r.completed {
		return fmt.Errorf("%w: %d begins were answered acquired and %d completions completed, but there are %d records, %d of them completed",
			errCounts, r.acquired, r.completed, there.acquired, there.completed)
	}
	return nil
}

// snapshot is what was used up to a moment.
type snapshot struct {
	used usage
	wal  int64
}

func takeSnapshot(ctx context.Context, db *database, servers []*server) (s snapshot, err error) {
	if s.wal, err = db.session.written(ctx); err != nil {
		return s, err
	}
	s.used, err = usageOf(db.postmaster, servers)
	return s, err
}
