//go:build linux

package main

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/onceward/onceward/bench/load"
)

// The comparisons, each with the statements of pgbench in its rounds.

const (
	plainClients = 64 // of pgbench, where it does best on few cores
	most         = 256
	some         = 64
)

// names of legs
const (
	legPlainBegin  = "pgbench begin"
	legPlainPair   = "pgbench pair"
	legPlainReplay = "pgbench select"
	legDigest      = "begin, digest"
	legRequest     = "begin, 300-byte request"
	legNaive       = "one statement per request"
	legMessage     = "pair, application/http"
	legJSON        = "pair, JSON"
	legBatch       = "batch of 50 begins"
	legCached      = "replay from memory, application/http"
	legCachedJSON  = "replay from memory, JSON"
	legUncached    = "replay from the database, application/http"
	legOpen        = "begin, digest, open loop"
)

// makes of scripts

func digestScript(m maker, prefix string, r *run, conn int) load.Script {
	return &beginScript{r, m.begin(m.beginByDigest(prefix, ownerOf(conn)))}
}

func requestScript(m maker, prefix string, r *run, conn int) load.Script {
	return &beginScript{r, m.begin(m.beginByRequest(prefix, ownerOf(conn)))}
}

func messagePairs(m maker, prefix string, r *run, conn int) load.Script {
	return &pairScript{run: r, begin: m.begin(m.beginByDigest(prefix, ownerOf(conn))), complete: m.completeMessage()}
}

func jsonPairs(m maker, prefix string, r *run, conn int) load.Script {
	return &pairScript{run: r, begin: m.begin(m.beginByDigest(prefix, ownerOf(conn))), complete: m.completeJSON()}
}

func batches(m maker, prefix string, r *run, conn int) load.Script {
	return &batchScript{r, m.batch(prefix, ownerOf(conn))}
}

// loaded is a leg that drives servers.
func (b *bench) loaded(name, against string, conns int, db *database, script func(maker, string, *run, int) load.Script, servers ...*server) leg {
	return leg{name: name, conns: conns, against: against, run: func(ctx context.Context, conns int) (measure, error) {
		m, _, err := b.drive(ctx, drive{db: db, servers: servers, script: script, conns: conns, profile: b.profileName(name, conns)})
		return m, err
	}}
}

// plainLeg is a leg of pgbench.
func (b *bench) plainLeg(name, script string, clients int, db *database) leg {
	return leg{name: name, conns: clients, run: func(ctx context.Context, clients int) (measure, error) {
		return b.plain(ctx, db, script, clients)
	}}
}

func (b *bench) begins(db *database, api, naive *server) group {
	plain := legID(legPlainBegin, plainClients)
	legs := []leg{b.plainLeg(legPlainBegin, plainBegin, plainClients, db)}
	for _, conns := range []int{most, some} {
		legs = append(legs,
			b.loaded(legDigest, plain, conns, db, digestScript, api),
			b.loaded(legRequest, plain, conns, db, requestScript, api))
	}
	legs = append(legs, b.loaded(legNaive, plain, some, db, digestScript, naive))
	return group{name: "begin", legs: b.thinned(legs), before: db.session.empty}
}

func (b *bench) pairs(db *database, api *server) group {
	plain := legID(legPlainPair, plainClients)
	legs := []leg{b.plainLeg(legPlainPair, plainPair, plainClients, db)}
	for _, conns := range []int{most, some, 1} {
		legs = append(legs,
			b.loaded(legMessage, plain, conns, db, messagePairs, api),
			b.loaded(legJSON, plain, conns, db, jsonPairs, api))
	}
	return group{name: "pair", legs: b.thinned(legs), before: db.session.empty}
}

func (b *bench) batches(db *database, api *server) group {
	legs := []leg{b.plainLeg(legPlainBegin, plainBegin, plainClients, db)}
	for _, conns := range []int{most, some, 1} {
		legs = append(legs, b.loaded(legBatch, legID(legPlainBegin, plainClients), conns, db, batches, api))
	}
	return group{name: "batch", legs: b.thinned(legs), before: db.session.empty}
}

// replays first completes the keys that are replayed, on both sides.
func (b *bench) replays(ctx context.Context, db *database, api, uncached *server) (group, error) {
	if err := db.session.empty(ctx); err != nil {
		return group{}, err
	}
	if err := db.session.makeCompleted(ctx, db, replayedRecords, responseBody(), storedHeaders()); err != nil {
		return group{}, err
	}
	prefix, err := b.complete(ctx, db, api, replayedRecords)
	if err != nil {
		return group{}, err
	}
	script := func(asMessage bool) func(maker, string, *run, int) load.Script {
		return func(m maker, _ string, r *run, _ int) load.Script {
			return &replayScript{run: r, request: m.replay(prefix, asMessage), want: wantOfReplay(m.body, asMessage), records: replayedRecords}
		}
	}
	plain := legID(legPlainReplay, plainClients)
	replay := func(name string, conns int, s *server, asMessage bool) leg {
		return leg{name: name, conns: conns, against: plain, run: func(ctx context.Context, conns int) (measure, error) {
			m, _, err := b.drive(ctx, drive{db: db, servers: []*server{s}, script: script(asMessage), conns: conns, uncounted: true, profile: b.profileName(name, conns)})
			return m, err
		}}
	}
	legs := []leg{b.plainLeg(legPlainReplay, plainReplay, plainClients, db)}
	for _, conns := range []int{most, some, 1} {
		legs = append(legs, replay(legCached, conns, api, true), replay(legCachedJSON, conns, api, false), replay(legUncached, conns, uncached, true))
	}
	return group{name: "replay", legs: b.thinned(legs)}, nil
}

// wantOfReplay is what the answer must hold.
func wantOfReplay(body string, asMessage bool) []byte {
	if asMessage {
		return []byte("\r\n\r\n" + body)
	}
	text, _ := json.Marshal(body) // a string is always written
	return append([]byte(`"body":`), text...)
}

// complete makes completed records through the API and returns the prefix of
// their keys.
func (b *bench) complete(ctx context.Context, db *database, api *server, records int64) (prefix string, err error) {
	const plenty = 10 // minutes; it ends when the keys do
	script := func(m maker, p string, r *run, conn int) load.Script {
		prefix = p
		return messagePairs(m, p, r, conn)
	}
	_, _, err = b.drive(ctx, drive{db: db, servers: []*server{api}, script: script, conns: some, measure: plenty * minute, limit: records})
	return prefix, err
}

// thinned leaves out of a quick run what no mark speaks of.
func (b *bench) thinned(legs []leg) []leg {
	if !b.opts.quick {
		return legs
	}
	return slices.DeleteFunc(legs, func(l leg) bool {
		return l.against != "" && l.conns != most && l.name != legDigest && l.name != legNaive && l.name != legBatch && l.name != legCached && l.name != legMessage
	})
}
