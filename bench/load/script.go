//go:build linux

package load

// Script is what one connection sends, one request after the other. All
// scripts of a run are called from one goroutine.
type Script interface {
	// Next is the whole next request. It may be overwritten by the next call.
	// Nil says that this connection has nothing more to send.
	Next() []byte
	// Answer judges the answer to the last request; an error ends the run.
	Answer(Answer) (Done, error)
}

// Answer is what came back. Its bytes are valid during the call only.
type Answer struct {
	Status int
	Head   []byte // status line and header, without the blank line
	Body   []byte
}

// Done says what an answer amounts to.
type Done struct {
	// Kind is the histogram that the latency goes into, below Kinds.
	Kind int
	// Operations is how many operations it finished: 50 for a batch of 50, and
	// one for the second request of a pair.
	Operations int
}

// Kinds is how many kinds of requests a run keeps apart.
const Kinds = 2
