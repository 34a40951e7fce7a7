package keys

import (
	"context"

	"github.com/onceward/onceward/internal/auth"
)

// BeginBatch decides entries in order, each as if it had come right after
// those before it, and calls emit once for each, in order. One bad entry never
// fails another; two entries of one batch never resume each other. Large
// bodies of replays are loaded in slices while the results are emitted, so a
// batch never holds all of them. An error of emit ends it and is returned.
func (s *Service) BeginBatch(ctx context.Context, caller auth.Caller, entries []BatchEntry, emit func(i int, outcome Outcome, err error) error) error {
	results := make([]result, len(entries))
	valid := make([]*entry, len(entries))
	for i, sent := range entries {
		if sent.Err != nil {
			results[i].err = sent.Err
			continue
		}
		valid[i], results[i].err = s.entry(ctx, caller, sent.Request)
	}
	for _, places := range rounds(valid) {
		s.beginPlaces(ctx, valid, results, places)
	}
	return s.emit(ctx, valid, results, emit)
}

// recorder is what a batch is made of: something about one record.
type recorder interface {
	comparable
	entrant
}

// rounds groups the places of the entries that are not nil so that no group
// names a record twice and every entry comes after the earlier ones of its
// record.
func rounds[E recorder](entries []E) [][]int {
	var groups [][]int
	var none E
	seen := make(map[ref]int, len(entries))
	for i, e := range entries {
		if e == none {
			continue
		}
		n := seen[e.record()]
		seen[e.record()] = n + 1
		if n == len(groups) {
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], i)
	}
	return groups
}

func (s *Service) beginPlaces(ctx context.Context, valid []*entry, results []result, places []int) {
	group := make([]*entry, len(places))
	groupResults := make([]result, len(places))
	for n, i := range places {
		group[n] = valid[i]
	}
	s.begin(ctx, group, groupResults)
	for n, i := range places {
		results[i] = groupResults[n]
		if _, holds := results[i].outcome.(Acquired); holds {
			for _, later := range valid[i+1:] {
				if later != nil && later.ref == valid[i].ref {
					later.noResume = true
				}
			}
		}
	}
}

// emit hands out the results in order, loading the large bodies of as many
// replays at a time as fit into bodySliceBytes.
func (s *Service) emit(ctx context.Context, valid []*entry, results []result, emit func(i int, outcome Outcome, err error) error) error {
	for from := 0; from < len(results); {
		to := s.loadSlice(ctx, valid, results, from)
		for ; from < to; from++ {
			res := results[from]
			results[from] = result{} // the body is not needed once it is written
			if res.err == nil {
				s.observe(valid[from], res.outcome)
			}
			if err := emit(from, res.outcome, res.err); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadSlice completes the replays from from on until bodySliceBytes are
// loaded, and returns the place after the last that it looked at.
func (s *Service) loadSlice(ctx context.Context, valid []*entry, results []result, from int) (to int) {
	var slice []loading
	var places []int
	size := 0
	for to = from; to < len(results); to++ {
		replay, ok := results[to].outcome.(Replay)
		if !ok {
			continue
		}
		if size += replay.stored.bodyBytes; size > bodySliceBytes && len(slice) > 0 {
			break
		}
		slice = append(slice, loading{valid[to].ref, &replay})
		places = append(places, to)
	}
	complete, err := s.loadReplays(ctx, slice)
	for n, i := range places {
		switch {
		case err != nil:
			results[i] = result{err: err}
		case complete[n]:
			results[i].outcome = *slice[n].replay
		default: // it ended meanwhile: decide it anew, alone
			results[i].outcome, results[i].err = s.decideOne(ctx, valid[i])
		}
	}
	return to
}
