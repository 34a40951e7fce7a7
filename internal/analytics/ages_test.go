package analytics

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func agesOf(list ...time.Duration) (a Ages) {
	for _, age := range list {
		a.add(cellOf(age), 1)
	}
	return a
}

func TestABoundBelongsToItsBucket(t *testing.T) {
	t.Parallel()
	for i, bound := range Bounds() {
		if got := int(cellOf(bound).bucket); got != i {
			t.Errorf("%v falls into bucket %d, want %d", bound, got, i)
		}
		if got := int(cellOf(bound + time.Microsecond).bucket); got != i+1 {
			t.Errorf("one microsecond above %v falls into bucket %d, want %d", bound, got, i+1)
		}
	}
	for _, age := range []time.Duration{-time.Second, 0, time.Nanosecond} {
		if got := cellOf(age); got.bucket != 0 || got.upper() <= 0 {
			t.Errorf("%v falls into bucket %d up to %v", age, got.bucket, got.upper())
		}
	}
}

// Case: a hundred ages of 0.2 to 0.9 s, and a hundred of exactly 5 s and 30 s.
func TestPercentilesLieInTheTrueBucket(t *testing.T) {
	t.Parallel()
	var list []time.Duration
	for i := range 100 {
		list = append(list, 200*time.Millisecond+time.Duration(i)*7*time.Millisecond)
	}
	young := agesOf(list...)
	p50, _ := young.Quantile(0.5)
	p95, _ := young.Quantile(0.95)
	if p50 <= 500*time.Millisecond || p50 > time.Second || p95 <= 500*time.Millisecond || p95 > time.Second {
		t.Errorf("p50 %v, p95 %v, want both above 0.5 s and at most 1 s", p50, p95)
	}
	list = nil
	for range 50 {
		list = append(list, 5*time.Second, 30*time.Second)
	}
	edges := agesOf(list...)
	want := [Buckets]int64{4: 50, 6: 50}
	if diff := cmp.Diff(edges.Histogram(), want); diff != "" {
		t.Errorf("histogram (-got +want):\n%s", diff)
	}
	p50, _ = edges.Quantile(0.5)
	p99, _ := edges.Quantile(0.99)
	if p50 != 5*time.Second || p99 != 30*time.Second {
		t.Errorf("p50 %v, p99 %v, want 5 s and 30 s", p50, p99)
	}
}

func TestNothingHasNoPercentile(t *testing.T) {
	t.Parallel()
	if age, ok := (&Ages{}).Quantile(0.5); ok {
		t.Errorf("the median of nothing is %v", age)
	}
}

// Against the sorted list itself: the percentile is never below the true one,
// at most 2.1 % above it, and in the same bucket; however the ages were merged.
func TestEveryPercentileIsWithinTwoPercentOfTheTrueOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.SliceOfN(rapid.Int64Range(1, 30*24*3600*1_000_000), 1, 200).Draw(t, "ages")
		list := make([]time.Duration, len(micros))
		var merged Ages
		for i, m := range micros {
			list[i] = time.Duration(m) * time.Microsecond
			part := agesOf(list[i])
			for cell, n := range part.cells {
				merged.add(cell, n)
			}
		}
		slices.Sort(list)
		q := rapid.Float64Range(0.001, 1).Draw(t, "q")
		rank := 0
		for float64(rank) < q*float64(len(list)) {
			rank++
		}
		truth := list[rank-1]
		got, ok := merged.Quantile(q)
		if !ok || got < truth-time.Microsecond || got.Seconds() > truth.Seconds()*1.021 || cellOf(got).bucket != cellOf(truth).bucket {
			t.Fatalf("quantile %v is %v, the true one %v", q, got, truth)
		}
		sum := int64(0)
		for _, n := range merged.Histogram() {
			sum += n
		}
		if sum != int64(len(list)) {
			t.Fatalf("the buckets add up to %d of %d", sum, len(list))
		}
	})
}
