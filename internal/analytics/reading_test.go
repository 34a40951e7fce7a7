package analytics

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFiguresAreExplainedWithWhatLedToIt(t *testing.T) {
	t.Parallel()
	group := func(counts map[Outcome]int64, ages ...time.Duration) *Group {
		g := &Group{Ages: agesOf(ages...)}
		for o, n := range counts {
			g.counts[o] = n
		}
		g.counts[Replay] = int64(len(ages))
		return g
	}
	repeat := func(age time.Duration, n int) (list []time.Duration) {
		for range n {
			list = append(list, age)
		}
		return list
	}
	for name, tt := range map[string]struct {
		group *Group
		want  map[string][2]int64
	}{
		"nothing":                        {group(nil), map[string][2]int64{}},
		"too few to say anything":        {group(nil, repeat(time.Second, 4)...), map[string][2]int64{}},
		"within 5 s":                     {group(nil, repeat(5*time.Second, 6)...), map[string][2]int64{ReadingNetwork: {6, 6}}},
		"5 s to 30 s":                    {group(nil, repeat(30*time.Second, 6)...), map[string][2]int64{}},
		"over 30 s":                      {group(nil, repeat(31*time.Second, 6)...), map[string][2]int64{ReadingEagerRetries: {6, 6}}},
		"both":                           {group(nil, append(repeat(time.Second, 5), repeat(time.Hour, 5)...)...), map[string][2]int64{ReadingNetwork: {5, 10}, ReadingEagerRetries: {5, 10}}},
		"keys that are reused":           {group(map[Outcome]int64{Acquired: 95, Mismatch: 5}), map[string][2]int64{ReadingReusedKeys: {5, 100}}},
		"few mismatches among very many": {group(map[Outcome]int64{Acquired: 9995, Mismatch: 5}), map[string][2]int64{}},
		"leases too short":               {group(map[Outcome]int64{Acquired: 100, Takeover: 7}), map[string][2]int64{ReadingShortLeases: {7, 100}}},
		"owners that are reused":         {group(map[Outcome]int64{Acquired: 90, Resumed: 10}), map[string][2]int64{ReadingReusedOwners: {10, 100}}},
		"one late completion":            {group(map[Outcome]int64{Acquired: 900, LateCompletion: 1}), map[string][2]int64{ReadingLateWork: {1, 900}}},
	} {
		got := map[string][2]int64{}
		for _, r := range tt.group.Read() {
			got[r.Code] = [2]int64{r.Count, r.Of}
			if r.Text == "" || strings.Contains(r.Text, "%") {
				t.Errorf("%s: %s says %q", name, r.Code, r.Text)
			}
		}
		if diff := cmp.Diff(got, tt.want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", name, diff)
		}
	}
}
