package analytics

import (
	"time"

	"github.com/onceward/onceward/internal/auth"
)

// Outcome is what is counted. Its number is stored.
type Outcome uint8

// The outcomes. The first six are those of a begin: each begin is exactly one
// of them, and they add up to the begins (wire contract, section 6).
const (
	Acquired Outcome = iota + 1
	Resumed
	Replay
	InProgress
	Mismatch
	Unknown
	Takeover // counted beside the Acquired that it is
	LateCompletion
	Release
	Resolution
	DeclaredUnknown // by the holder of the lease
	outcomes        // one more than the last
)

// String is the kind of an event, as the API and the log name it.
func (o Outcome) String() string {
	names := [outcomes]string{
		"", "acquired", "resumed", "replay", "in_progress", "mismatch", "unknown", "takeover",
		"late_completion", "release", "resolution", "declared_unknown",
	}
	if o >= outcomes {
		return ""
	}
	return names[o]
}

// single says whether the outcome is also kept as an event of its own.
func (o Outcome) single() bool {
	return o >= Replay && o <= LateCompletion || o == DeclaredUnknown
}

// conflict says whether the outcome was a 409 to a begin.
func (o Outcome) conflict() bool { return o >= InProgress && o <= Unknown }

// ParseKind is the kind of single event of that name.
func ParseKind(name string) (kind Outcome, ok bool) {
	for o := Acquired; o < outcomes; o++ {
		if o.single() && o.String() == name {
			return o, true
		}
	}
	return 0, false
}

// Kinds lists the names of the kinds of single events.
func Kinds() []string {
	var names []string
	for o := Acquired; o < outcomes; o++ {
		if o.single() {
			names = append(names, o.String())
		}
	}
	return names
}

// Event is one thing that was answered.
type Event struct {
	Outcome Outcome
	// TakenOver says of an Acquired that it took over a lapsed lease: it is
	// counted as a Takeover too.
	TakenOver  bool
	Tenant     auth.TenantID
	Namespace  auth.NamespaceID
	Credential auth.CredentialID
	TraceID    string // or empty
	Record     [16]byte
	Operation  string
	Caller     string // or empty
	Key        string
	Attempt    int           // of the record; 0 where it was not said
	Status     int           // of a replay, or a mismatch with what is completed, the stored one; of a late completion the one it tried to store; else 0
	Age        time.Duration // of a replay or a 409: since the record was created
}
