package main

import "runtime/debug"

const (
	// heapGrowth lets the heap grow fivefold between collections: what is alive
	// is small beside what requests throw away, and collecting it costs CPU
	// that answers need (docs/performance.md).
	heapGrowth = 400
	// memoryBesideCache is what a process needs beside a full replay cache, with
	// 10,000 idle connections and the heap grown; near it the collector works
	// harder. It is no wall: the process does not die of it.
	memoryBesideCache = 256 << 20
)

// setMemory sets what the environment leaves open of the Go runtime's own
// variables, GOGC and GOMEMLIMIT.
func setMemory(cfg config) {
	if cfg.GOGC == "" {
		debug.SetGCPercent(heapGrowth)
	}
	if cfg.GOMEMLIMIT == "" {
		debug.SetMemoryLimit(int64(cfg.ReplayCacheMiB)<<20 + memoryBesideCache)
	}
}
