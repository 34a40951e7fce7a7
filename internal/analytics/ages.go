package analytics

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/DataDog/sketches-go/ddsketch/mapping"
)

// Buckets is the number of buckets of the age histogram: the bounds of the
// wire contract, section 6, and what is above the last.
const Buckets = 14

// Bounds are the upper bounds of all buckets but the last, which has none. A
// bound belongs to its bucket.
func Bounds() [Buckets - 1]time.Duration {
	return [...]time.Duration{
		100 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
		10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute,
		time.Hour, 6 * time.Hour, 24 * time.Hour,
	}
}

// relativeAccuracy is that of the sketch: a percentile is at most this much off.
// It can never change: what is stored are indexes under it.
const relativeAccuracy = 0.01

// shortestAge stands for every age below it, which the logarithm of the sketch
// could not place: ages are known to the microsecond.
const shortestAge = time.Microsecond

//nolint:gochecknoglobals // a constant that Go cannot declare
var sketchMapping = sync.OnceValue(func() *mapping.LogarithmicMapping {
	m, err := mapping.NewLogarithmicMapping(relativeAccuracy)
	if err != nil {
		panic(err) // only for an accuracy outside of 0 to 1
	}
	return m
})

// ageCell is where an age is counted: a bucket of the contract's histogram, and
// in it a bin of the DDSketch. Splitting the sketch's bins at the contract's
// bounds makes the histogram exact, and keeps a percentile in the bucket in
// which the age at its rank lies.
type ageCell struct {
	bucket uint8
	bin    int16
}

func cellOf(age time.Duration) ageCell {
	age = max(age, shortestAge)
	bounds := Bounds()
	bucket, _ := slices.BinarySearchFunc(bounds[:], age, cmp.Compare[time.Duration])
	// The longest retention is 30 days: the index of a bin is below 1,000.
	bin := min(max(sketchMapping().Index(age.Seconds()), math.MinInt16), math.MaxInt16)
	return ageCell{bucket: uint8(bucket), bin: int16(bin)} //nolint:gosec // both are bounded above
}

// upper is the largest age of the cell: the end of its bin, or its bucket's
// bound where that is smaller. Every age in the cell is at most one width of a
// bin (2 %) below it and in the same bucket.
func (c ageCell) upper() time.Duration {
	end := time.Duration(sketchMapping().LowerBound(int(c.bin)+1) * float64(time.Second))
	if bounds := Bounds(); int(c.bucket) < len(bounds) {
		end = min(end, bounds[c.bucket])
	}
	return end
}

// Ages are the ages of replays: a histogram and a mergeable sketch in one.
type Ages struct {
	cells map[ageCell]int64
	total int64
}

func (a *Ages) add(c ageCell, n int64) {
	if a.cells == nil {
		a.cells = make(map[ageCell]int64)
	}
	a.cells[c] += n
	a.total += n
}

// Count is how many there are.
func (a *Ages) Count() int64 { return a.total }

// Histogram is how many fall into each bucket. It adds up to Count.
func (a *Ages) Histogram() (buckets [Buckets]int64) {
	for c, n := range a.cells {
		buckets[c.bucket] += n
	}
	return buckets
}

// Quantile is the age at the rank ceil(q * Count), within 2 % above the true
// one and in the same bucket; ok is false where there are no ages. q is above
// 0 and at most 1.
func (a *Ages) Quantile(q float64) (age time.Duration, ok bool) {
	if a.total == 0 {
		return 0, false
	}
	cells := make([]ageCell, 0, len(a.cells))
	for c := range a.cells {
		cells = append(cells, c)
	}
	slices.SortFunc(cells, func(x, y ageCell) int {
		return cmp.Or(cmp.Compare(x.bucket, y.bucket), cmp.Compare(x.bin, y.bin))
	})
	left := int64(math.Ceil(q * float64(a.total)))
	for _, c := range cells {
		if left -= a.cells[c]; left <= 0 {
			return c.upper(), true
		}
	}
	return cells[len(cells)-1].upper(), true
}
