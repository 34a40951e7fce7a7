//go:build unix

package history_test

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// call is what a client asks for, about one key.
type call struct {
	key     string
	kind    kind
	owner   string // of a begin
	payload int    // of a begin: which request
	fence   int64  // of the lease that is used; other calls than begin
	body    string // of a completion
}

type kind string

// The calls, and what the test does to time.
const (
	begin    kind = "begin"
	complete kind = "complete"
	renew    kind = "renew"
	release  kind = "release"
	unknown  kind = "unknown"
	lapse    kind = "lapse"  // two minutes pass
	expire   kind = "expire" // the retention ends
)

// reply is the answer. Its code is the outcome of a begin, "ok", or the code of
// a problem; lost where no answer came: it may have happened or not.
type reply struct {
	code      string
	attempt   int
	fence     int64
	resumed   bool
	takenOver bool
	body      string
}

const lost = "lost"

type phase string

const (
	absent    phase = "absent"
	live      phase = "live"
	lapsed    phase = "lapsed"
	open      phase = "open"
	held      phase = "unknown"
	completed phase = "completed"
)

// record is all that the contract lets matter about one key, under the policy
// of a new tenant. It is comparable.
type record struct {
	phase     phase
	attempt   int
	fence     int64 // 0: acquired by a begin whose answer was lost
	highest   int64 // fence that was ever seen
	owner     string
	payload   int
	resumable bool // the acquisition is less than 30 s old, and its token not used
	bound     bool // the payload is, for good
	takenOver bool
	body      string
}

// next is every state in which the record may be after the call got the reply;
// none where the reply is wrong.
func (r record) next(c call, got reply) (states []record) {
	after, want := r.answer(c, got.fence)
	if got.code == lost {
		// Answers that are lost say nothing of a fence.
		return []record{r, after}
	}
	if want.code == "acquired" {
		isNew := !want.resumed && got.fence > r.highest
		isSame := want.resumed && (r.fence == 0 && got.fence > r.highest || got.fence == r.fence)
		if !isNew && !isSame {
			return nil
		}
		want.fence, after.fence, after.highest = got.fence, got.fence, max(r.highest, got.fence)
	}
	if got != want {
		return nil
	}
	return []record{after}
}

// answer is the contract: the state after the call, and the reply to it.
func (r record) answer(c call, fence int64) (after record, want reply) {
	switch c.kind {
	case begin:
		return r.begin(c, fence)
	case lapse:
		if r.phase == live {
			r.phase = lapsed
		}
		r.resumable = false
		return r, reply{code: "ok"}
	case expire:
		if r.phase != held { // what is unknown does not expire
			r = record{phase: absent, highest: r.highest}
		}
		return r, reply{code: "ok"}
	default:
		return r.use(c)
	}
}

// begin is the table of section 3, in its order.
func (r record) begin(c call, fence int64) (after record, want reply) {
	acquired := func(attempt int, takenOver bool) (record, reply) {
		after := r
		after.phase, after.attempt, after.fence, after.owner, after.resumable, after.takenOver = live, attempt, 0, c.owner, true, takenOver
		return after, reply{code: "acquired", attempt: attempt, fence: fence, takenOver: takenOver}
	}
	switch {
	case r.phase == absent, r.phase == open && !r.bound:
		r.payload, r.bound, r.body = c.payload, false, ""
		return acquired(r.attempt+1, false)
	case r.payload != c.payload:
		return r, reply{code: "fingerprint_mismatch"}
	case r.phase == completed:
		return r, reply{code: "replay", attempt: r.attempt, body: r.body}
	case (r.phase == live || r.phase == lapsed) && r.resumable && r.owner == c.owner:
		r.bound = r.bound || r.phase == lapsed
		r.phase = live
		return r, reply{code: "acquired", attempt: r.attempt, fence: fence, resumed: true, takenOver: r.takenOver}
	case r.phase == live:
		return r, reply{code: "in_progress", attempt: r.attempt}
	case r.phase == held:
		return r, reply{code: "outcome_unknown"}
	case r.phase == open:
		return acquired(r.attempt+1, false)
	default:
		r.bound = true
		return acquired(r.attempt+1, true)
	}
}

// use is the table of section 4.
func (r record) use(c call) (after record, want reply) {
	refuse := func(code string) (record, reply) { return r, reply{code: code} }
	ok := func(to phase) (record, reply) {
		after := r
		after.bound = r.bound || r.phase != live || c.kind == complete || c.kind == unknown
		after.phase, after.resumable = to, false
		return after, reply{code: "ok"}
	}
	switch {
	case r.phase == absent:
		return refuse("not_found")
	case c.fence != r.fence:
		return refuse("lease_lost")
	case r.phase == completed && c.kind == complete && c.body == r.body:
		return refuse("ok") // the same again
	case r.phase == completed:
		return refuse("already_completed")
	case r.phase == open && c.kind == release:
		return refuse("ok") // and changes nothing
	case r.phase == open:
		return refuse("lease_lost")
	}
	switch c.kind {
	case complete:
		r.body = c.body
		return ok(completed)
	case renew:
		return ok(live)
	case release:
		return ok(open)
	default:
		return ok(held)
	}
}

// model is the record for porcupine, one for each key.
func model() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) (byKey [][]porcupine.Operation) {
			places := map[string]int{}
			for _, operation := range history {
				key := operation.Input.(call).key //nolint:forcetypeassert // ours
				place, known := places[key]
				if !known {
					place = len(byKey)
					places[key], byKey = place, append(byKey, nil)
				}
				byKey[place] = append(byKey[place], operation)
			}
			return byKey
		},
		Init: func() []any { return []any{record{phase: absent}} },
		Step: func(state, input, output any) (states []any) {
			for _, s := range state.(record).next(input.(call), output.(reply)) { //nolint:forcetypeassert // ours
				if !slices.Contains(states, any(s)) {
					states = append(states, s)
				}
			}
			return states
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
	}
	return m.ToModel()
}
