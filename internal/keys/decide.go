package keys

import (
	"crypto/hmac"
	"time"

	"github.com/onceward/onceward/internal/tenants"
)

// resumeWindow is how long after its acquisition a begin can be repeated with
// its owner and get the same lease again (wire contract, section 3).
const resumeWindow = 30 * time.Second

// storedState is the column state; lapse and hold are decided by the clock.
type storedState int16

const (
	storedInProgress storedState = 1
	storedOpen       storedState = 2
	storedCompleted  storedState = 3
	storedUnknown    storedState = 4
)

// action is what a begin does about a row that exists.
type action int

const (
	actAnswer   action = iota // nothing is written
	actCorrupt                // the row is not this identity's: refuse and raise an alarm
	actRestart                // its retention has ended: a new record in the same row
	actReplace                // open and not bound: acquire, whatever the fingerprint
	actReopen                 // open and bound: acquire, keep the fingerprint
	actTakeOver               // lapsed: acquire from the earlier attempt
	actResume                 // the same attempt, its lapsed lease begun anew
)

// decision is what a begin does, and its answer where nothing is written.
type decision struct {
	action  action
	outcome Outcome
}

// decide is the table of the wire contract, section 3, in its order. It is
// pure: the clock is the database's, as read with the row. What it decides to
// write, the writing statement checks again by the fence and the same
// conditions.
func decide(e *entry, r *row) decision {
	if r.expired() {
		return decision{action: actRestart}
	}
	if r.namespace != e.namespace || r.caller != e.caller || r.key != e.key ||
		e.scope == tenants.KeyScopeOperation && r.operation != e.operation {
		return decision{action: actCorrupt}
	}
	if r.state == storedOpen && !r.bound {
		return decision{action: actReplace}
	}
	differs := e.differs(r)
	switch {
	case len(differs) > 0 && r.state == storedCompleted && e.policy.OnMismatch == tenants.OnMismatchReplay:
		return decision{outcome: r.replay(e.id, false)}
	case len(differs) > 0:
		return decision{outcome: Mismatch{ID: e.id, Differs: differs, Status: e.policy.MismatchStatus, Age: r.age(), Stored: r.response.status}}
	case r.state == storedCompleted:
		return decision{outcome: r.replay(e.id, true)}
	case e.mayResume(r) && !r.lapsed():
		return decision{outcome: r.acquired(e, true)}
	case e.mayResume(r):
		return decision{action: actResume}
	case r.state == storedInProgress && !r.lapsed():
		return decision{outcome: InProgress{ID: e.id, Attempt: r.attempt, LeaseExpiresAt: r.leaseExpiresAt, RetryAfter: retryAfter(r.now.Sub(r.acquiredAt), r.leaseExpiresAt.Sub(r.now), e.jitter), Age: r.age(), fence: r.fence}}
	case r.state == storedUnknown || r.state == storedInProgress && r.hold:
		return decision{outcome: Unknown{ID: e.id, Attempt: r.attempt, Age: r.age()}}
	case r.state == storedOpen:
		return decision{action: actReopen}
	default:
		return decision{action: actTakeOver}
	}
}

// differs says in which parts e is not the request that the record is bound
// to; empty where it is. A begin with a request is compared under the pointers
// of the stored fingerprint, whatever the policy says today.
func (e *entry) differs(r *row) []string {
	var names []string
	if e.operation != r.operation {
		names = append(names, "operation") // only under KeyScopeNamespace: decide refuses it elsewhere
	}
	return append(names, differing(e.printUnder(r.print.pointers), r.print)...)
}

// mayResume says whether e is the repeat of the begin that acquired the
// record's present attempt.
func (e *entry) mayResume(r *row) bool {
	return r.state == storedInProgress && !r.tokenUsed && !e.noResume &&
		r.now.Sub(r.acquiredAt) <= resumeWindow && hmac.Equal(r.ownerDigest, e.ownerDigest[:])
}

// retryAfter is about as long as the attempt has already run, spread by jitter
// (0 to 1), in whole seconds: at least 1, at most what is left of the lease
// (rounded up) and at most 30.
func retryAfter(ran, left time.Duration, jitter float64) time.Duration {
	const most = 30 * time.Second
	wait := time.Duration(float64(ran)*(0.5+jitter)) + time.Duration(jitter*float64(time.Second))
	wait = min(roundUp(wait), roundUp(left), most)
	return max(wait, time.Second)
}

func roundUp(d time.Duration) time.Duration {
	if rest := d % time.Second; rest > 0 {
		return d - rest + time.Second
	}
	return d
}
