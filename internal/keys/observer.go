package keys

import (
	"github.com/onceward/onceward/internal/auth"
)

// Observer is told what was answered, after the answer is decided. It is
// called on the path of the request, so it must never block, fail or keep
// what it is given beyond what it copies.
type Observer interface {
	ObserveBegin(caller auth.Caller, o BeginObservation)
	ObserveLateCompletion(caller auth.Caller, o LateObservation)
	// ObserveCorrupt is an alarm: a row stands under an id that its identity
	// does not have. The begin was refused.
	ObserveCorrupt(caller auth.Caller, id ID)
}

// BeginObservation is one answered begin.
type BeginObservation struct {
	Operation string
	Caller    string
	Key       string
	Outcome   Outcome
}

// LateObservation is one late completion: it may mean work done twice.
type LateObservation struct {
	ID        ID
	Operation string
	Caller    string
	Key       string
	Attempt   int // of the record as it stands
	Status    int // what it tried to store
}

// discard is the Observer of a Service that was given none.
type discard struct{}

func (discard) ObserveBegin(auth.Caller, BeginObservation)         {}
func (discard) ObserveLateCompletion(auth.Caller, LateObservation) {}
func (discard) ObserveCorrupt(auth.Caller, ID)                     {}
