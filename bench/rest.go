//go:build linux

package main

import (
	"context"
	"time"
)

const (
	restLook = 500 * time.Millisecond
	// restShare of one CPU is what servers without any load use.
	restShare = 0.05
	// restWithin bounds the wait: a server that does not come to rest is
	// measured as it is, and the report says so.
	restWithin = time.Minute
)

// fresh is a leg that begins on an empty table, when the servers are at rest: for
// comparisons that are finer than what the legs before leave behind.
func (b *bench) fresh(l leg, db *database, servers ...*server) leg {
	run := l.run
	l.run = func(ctx context.Context, conns int) (measure, error) {
		if err := db.session.empty(ctx); err != nil {
			return measure{}, err
		}
		if err := b.rest(ctx, db, servers); err != nil {
			return measure{}, err
		}
		return run(ctx, conns)
	}
	return l
}

// rest waits until PostgreSQL and the servers are through with what earlier
// loads left them: the rest of the feed of the search, vacuums.
func (b *bench) rest(ctx context.Context, db *database, servers []*server) error {
	look := time.NewTicker(restLook)
	defer look.Stop()
	before, err := usageOf(db.postmaster, servers)
	if err != nil {
		return err
	}
	for waited := time.Duration(0); waited < restWithin; waited += restLook {
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		now, err := usageOf(db.postmaster, servers)
		if err != nil {
			return err
		}
		used := now.minus(before)
		if (used.api + used.postgres).Seconds() < restShare*restLook.Seconds() {
			return nil
		}
		before = now
	}
	b.left = append(b.left, "A leg that was to begin at rest did not.")
	return nil
}

// singleCaller is one caller that asks again when it has its answer.
func (b *bench) singleCaller(db *database, api, naive *server) group {
	plain := legID(legPlainBegin, 1)
	legs := []leg{
		b.plainLeg(legPlainBegin, plainBegin, 1, db),
		b.loaded(legNaive, plain, 1, db, digestScript, naive),
		b.loaded(legDigest, plain, 1, db, digestScript, api),
		b.loaded(legRequest, plain, 1, db, requestScript, api),
	}
	for i, l := range legs {
		legs[i] = b.fresh(l, db, api, naive)
	}
	return group{name: "single caller", legs: b.thinned(legs)}
}
