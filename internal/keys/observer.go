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

// EndObserver is what an Observer may be as well: then it is told of attempts
// that ended otherwise than by storing a response, under the same rules.
type EndObserver interface {
	ObserveEnd(caller auth.Caller, o EndObservation)
}

// End is how an attempt ended otherwise than by storing a response.
type End int

// The ends.
const (
	EndReleased        End = iota // by its holder, or by a completion that releases
	EndDeclaredUnknown            // by its holder
	EndResolved                   // by a resolution
)

// EndObservation is one attempt that ended.
type EndObservation struct {
	How       End
	ID        ID
	Namespace auth.NamespaceID
	Operation string
	Caller    string
	Key       string
}

// observeEnd tells the observer, if it wants to know.
func (s *Service) observeEnd(caller auth.Caller, o EndObservation) {
	if observer, ok := s.observer.(EndObserver); ok {
		observer.ObserveEnd(caller, o)
	}
}

// discard is the Observer of a Service that was given none.
type discard struct{}

func (discard) ObserveBegin(auth.Caller, BeginObservation)         {}
func (discard) ObserveLateCompletion(auth.Caller, LateObservation) {}
func (discard) ObserveCorrupt(auth.Caller, ID)                     {}
