//go:build linux

package main

import (
	"fmt"
	"strings"
)

// mark is a figure that the service owes, and one that it aims at.
type mark struct {
	text       string
	group      string
	leg, to    string // ids; to is empty where the figure is no ratio
	metric     func(measure) float64
	owed, goal float64
	atMost     bool // owed and goal are upper bounds
}

func marks() []mark {
	plain := legID(legPlainBegin, plainClients)
	return []mark{
		{"begin by digest, 256 connections, to pgbench -c 64", "begin", legID(legDigest, most), plain, rateOf, 1.5, 2.0, false},
		{"begin by a 300-byte request, 256 connections, to pgbench -c 64", "begin", legID(legRequest, most), plain, rateOf, 1.2, 1.7, false},
		{"pair by application/http, 256 connections, to pgbench -c 64", "pair", legID(legMessage, most), legID(legPlainPair, plainClients), rateOf, 1.3, 1.8, false},
		{"batch of 50, 64 connections, to pgbench -c 64", "batch", legID(legBatch, some), plain, rateOf, 3, 5, false},
		{"replay from memory, 256 connections, to pgbench SELECT -c 64", "replay", legID(legCached, most), legID(legPlainReplay, plainClients), rateOf, 0.8, 1.2, false},
		{"p99 of begins at 64 connections to that of one statement per request", "begin", legID(legDigest, some), legID(legNaive, some), latencyOf(99), 0.5, 0.3, true},
		{"p50 of a single caller's begins to that of one statement per request", "single caller", legID(legDigest, 1), legID(legNaive, 1), latencyOf(50), 1.1, 1.1, true},
		{"p99 of callers beside a hammered key to that beside as much other load", "hot key", legID(legBesideHot, quietCallers+loudCallers), legID(legBesideOwn, quietCallers+loudCallers), latencyOf(99), 2, 1.2, true},
		{"begins with a large table to an empty one", "large table", legID(legLargeTable, most), legID(legEmptyTable, most), rateOf, 0.65, 0.8, false},
		{"begins during paced pruning to none", "pruning", legID(legPruned, some), legID(legUnpruned, some), rateOf, 0.85, 0.95, false},
		{"WAL per pair, bytes", "pair", legID(legMessage, most), "", walOf, 1900, 1700, true},
	}
}

// values are the mark's figure, round by round.
func (m mark) values(r result) []float64 {
	of := r.measures[m.leg]
	if m.to != "" {
		return ratios(of, r.measures[m.to], m.metric)
	}
	list := make([]float64, len(of))
	for i, one := range of {
		list[i] = m.metric(one)
	}
	return list
}

func (m mark) verdict(value float64) string {
	reaches := func(bound float64) bool {
		if m.atMost {
			return value <= bound
		}
		return value >= bound
	}
	switch {
	case reaches(m.goal):
		return "goal reached"
	case reaches(m.owed):
		return "kept"
	default:
		return "**missed**"
	}
}

const (
	memoryMark = 400 // MiB
)

func (b *bench) markTable(out *strings.Builder) {
	fmt.Fprintf(out, "\n## Marks\n\n| mark | owed | goal | median (range) | |\n| --- | ---: | ---: | ---: | --- |\n")
	for _, m := range marks() {
		for _, r := range b.results {
			if r.name != m.group {
				continue
			}
			sign := "≥"
			if m.atMost {
				sign = "≤"
			}
			found := newSpread(m.values(r))
			fmt.Fprintf(out, "| %s | %s %g | %s %g | %s | %s |\n", m.text, sign, m.owed, sign, m.goal, found, m.verdict(found.median))
		}
	}
	if b.memory != nil {
		held := mark{owed: memoryMark, goal: memoryMark, atMost: true}
		at := float64(b.memory.idle >> 20)
		fmt.Fprintf(out, "| MiB resident with %d idle connections and a full cache | ≤ %d | ≤ %d | %.0f | %s |\n", idleConnections, memoryMark, memoryMark, at, held.verdict(at))
	}
}
