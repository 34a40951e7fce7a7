package keys

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/internal/tenants"
)

// Outcome is the answer to a begin: one of Acquired, Replay, InProgress,
// Mismatch and Unknown. Callers switch over all five.
type Outcome interface{ outcome() }

// Acquired says: run the operation; this is the lease.
type Acquired struct {
	ID            ID
	Attempt       int
	Resumed       bool // the same attempt as before: its begin was repeated with its owner
	TakenOver     bool // an earlier attempt's lease lapsed: it may still be working
	Lease         Lease
	RecoveryPoint *RecoveryPoint // nil where no attempt has set one
	CreatedAt     time.Time
	ExpiresAt     time.Time // zero while the record does not expire (hold)
}

// Lease is the right of one attempt to complete its record.
type Lease struct {
	Token         LeaseToken
	Fence         int64
	ExpiresAt     time.Time
	OnLeaseExpiry tenants.OnLeaseExpiry
}

// RecoveryPoint is how far an attempt came.
type RecoveryPoint struct {
	Name string
	Data jsontext.Value // as sent
}

// Replay says: it is done; this is the stored response.
type Replay struct {
	ID                 ID
	Attempt            int
	FingerprintMatched bool
	Response           Response
	CreatedAt          time.Time
	CompletedAt        time.Time
	ExpiresAt          time.Time
	Age                time.Duration // since CreatedAt, by the database's clock

	stored storedResponse // Response is made from it, once its body is there
	fence  int64
}

// InProgress says: another attempt holds the lease.
type InProgress struct {
	ID             ID
	Attempt        int
	LeaseExpiresAt time.Time
	RetryAfter     time.Duration // whole seconds, 1 to 30, jittered
	Age            time.Duration // of the record, as of a Replay

	fence int64 // of the attempt that was seen; a wait ends when it changes
}

// Mismatch says: the key is bound to another request.
type Mismatch struct {
	ID      ID
	Differs []string // of operation, method, path, query, body; or fingerprint
	Status  int      // the policy's: 409, 422 or 400

	Age    time.Duration // of the record, as of a Replay
	Stored int           // the status of the stored response; 0 where there is none
}

// Unknown says: an earlier attempt may have done the work, and the record holds.
type Unknown struct {
	ID      ID
	Attempt int
	Age     time.Duration // of the record, as of a Replay
}

func (Acquired) outcome()   {}
func (Replay) outcome()     {}
func (InProgress) outcome() {}
func (Mismatch) outcome()   {}
func (Unknown) outcome()    {}
