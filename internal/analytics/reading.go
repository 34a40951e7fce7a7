package analytics

import (
	"fmt"
	"time"
)

// Reading is what the figures of an operation or a caller mean, in words, with
// the figures that led to it.
type Reading struct {
	Code  string
	Text  string
	Count int64 // how many
	Of    int64 // of how many
}

// Codes of readings.
const (
	ReadingNetwork       = "network_trouble"
	ReadingEagerRetries  = "eager_retries"
	ReadingReusedKeys    = "reused_keys"
	ReadingShortLeases   = "short_leases"
	ReadingReusedOwners  = "reused_owners"
	ReadingLateWork      = "late_work"
	readingNetworkWithin = 5 * time.Second
	readingRetriesAfter  = 30 * time.Second
)

const (
	// fewest is below what a share says nothing.
	fewest = 5
	// Shares from which a reading is given.
	shareNetwork      = 0.5
	shareEagerRetries = 0.25
	shareMismatches   = 0.01
	shareTakeovers    = 0.01
	shareResumed      = 0.05
)

// Read explains the figures of a group: which of the known causes they point
// at. Empty where they point at none, or are too few to say anything.
func (g *Group) Read() []Reading {
	within, after := g.Ages.around(readingNetworkWithin, readingRetriesAfter)
	replays, begins := g.Of(Replay), g.Begins()
	var readings []Reading
	say := func(code string, count, of int64, share float64, format string) {
		if count >= fewest && float64(count) >= share*float64(of) {
			readings = append(readings, Reading{Code: code, Text: fmt.Sprintf(format, count, of), Count: count, Of: of})
		}
	}
	say(ReadingNetwork, within, replays, shareNetwork,
		"%d of %d replays came within 5 s of the first begin: answers are lost on the way, by network trouble or a time-out that is shorter than the work.")
	say(ReadingEagerRetries, after, replays, shareEagerRetries,
		"%d of %d replays came more than 30 s after the first begin: a retry loop that goes on too eagerly, or a circuit breaker that is badly set.")
	say(ReadingReusedKeys, g.Of(Mismatch), begins, shareMismatches,
		"%d of %d begins brought a key with another request: a client reuses keys for new operations.")
	say(ReadingShortLeases, g.Of(Takeover), g.Of(Acquired), shareTakeovers,
		"%d of %d acquisitions took over a lapsed lease: leases are shorter than the work, or its holders die.")
	say(ReadingReusedOwners, g.Of(Resumed), begins, shareResumed,
		"%d of %d begins resumed an attempt by its owner: owners are reused instead of made for each attempt, or begins lose their answers.")
	if late := g.Of(LateCompletion); late > 0 {
		completions := "completions"
		if late == 1 {
			completions = "completion"
		}
		readings = append(readings, Reading{
			Code: ReadingLateWork, Count: late, Of: begins,
			Text: fmt.Sprintf("%d %s came from a holder that had lost its lease, beside %d begins: work may have been done twice.", late, completions, begins),
		})
	}
	return readings
}

// around counts the ages in the buckets up to within, and those in the buckets
// above after. Both are bounds of buckets.
func (a *Ages) around(within, after time.Duration) (young, old int64) {
	bounds := Bounds()
	for bucket, n := range a.Histogram() {
		if bucket < len(bounds) && bounds[bucket] <= within {
			young += n
		}
		if bucket == len(bounds) || bounds[bucket] > after {
			old += n
		}
	}
	return young, old
}
