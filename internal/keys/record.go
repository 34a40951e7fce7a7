package keys

import (
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// State is what a record is at the moment of looking, lapse and hold included.
type State string

// The states of a record that exists (wire contract, section 2).
const (
	StateInProgress State = "in_progress"
	StateLapsed     State = "lapsed"
	StateUnknown    State = "unknown"
	StateOpen       State = "open"
	StateCompleted  State = "completed"
)

// Include says which parts of a record were asked for beside its own row.
type Include struct {
	Response bool // service and admin
	Late     bool // admin
}

// Record is what inspect shows. It never carries token, owner or fingerprint.
type Record struct {
	ID             ID
	Namespace      auth.NamespaceID
	Caller         string
	Operation      string
	Key            string
	State          State
	Attempt        int
	Fence          int64
	LeaseExpiresAt time.Time // zero unless in progress or lapsed
	OnLeaseExpiry  tenants.OnLeaseExpiry
	RecoveryPoint  *RecoveryPoint // nil where none, or where the role may not see it
	Metadata       map[string]string
	Status         int // of the stored response; 0 where none
	BodyBytes      int
	CreatedAt      time.Time
	CompletedAt    time.Time // zero unless completed
	ExpiresAt      time.Time // zero while the record does not expire
	History        []Attempt // the last 20, oldest first
	Response       *Response // where asked for and completed
	Late           []LateCompletion
}

// Attempt is one acquisition of a record in its history.
type Attempt struct {
	Attempt    int
	BegunAt    time.Time
	EndedAt    time.Time // zero while it has not ended
	How        string    // completed, released, error_released, lapsed, resolved_completed, resolved_retry; empty while it has not ended
	Credential auth.CredentialID
	TraceID    string
}

// LateCompletion is what a former holder tried to store.
type LateCompletion struct {
	At          time.Time
	Fence       int64
	Status      int
	HeaderNames []string
	BodyBytes   int
	BodySHA256  [32]byte
	BodyHead    []byte // the first 16 KiB
	Credential  auth.CredentialID
	TraceID     string
}
