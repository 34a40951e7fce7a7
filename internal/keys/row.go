package keys

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// ref names a record with everything that a statement or a map needs to stay
// inside its tenant and namespace.
type ref struct {
	tenant    auth.TenantID
	namespace auth.NamespaceID
	id        ID
}

// record is the ref itself: what embeds one names its record.
func (a ref) record() ref { return a }

func (ref) weight() int { return 0 }

// compare orders records by primary key, the order in which every batch
// touches them.
func (a ref) compare(b ref) int {
	if c := bytes.Compare(a.tenant[:], b.tenant[:]); c != 0 {
		return c
	}
	return bytes.Compare(a.id[:], b.id[:])
}

// row is a record as it was read, with the database's clock at that moment.
type row struct {
	now time.Time

	namespace auth.NamespaceID
	caller    string
	operation string
	key       string
	print     keyedPrint

	fence       int64
	attempt     int
	state       storedState
	hold        bool
	takenOver   bool
	tokenUsed   bool
	bound       bool
	resolved    bool
	ownerDigest []byte

	createdAt      time.Time
	acquiredAt     time.Time
	leaseExpiresAt time.Time
	expiresAt      time.Time // zero: infinity
	completedAt    time.Time // zero unless completed

	credential auth.CredentialID
	traceID    string
	metadata   []byte // JSON object, or nil

	recoveryName string // empty: none
	recoveryData []byte

	responseDigest []byte
	response       storedResponse
}

// storedResponse is a response as its columns hold it. body is nil where it
// is larger than inlineBodyBytes: load it by the fence.
type storedResponse struct {
	status      int
	headers     []byte
	body        []byte
	bodyBytes   int
	bodyOmitted bool
	bodyRef     string
}

// expired says whether the record's retention had ended: it is absent then,
// pruned or not.
func (r *row) expired() bool { return !r.expiresAt.IsZero() && !r.expiresAt.After(r.now) }

// lapsed says whether the lease had run out.
func (r *row) lapsed() bool { return !r.leaseExpiresAt.After(r.now) }

// shownState is the state by the clock (wire contract, section 2).
func (r *row) shownState() State {
	switch {
	case r.state == storedCompleted:
		return StateCompleted
	case r.state == storedOpen:
		return StateOpen
	case r.state == storedUnknown, r.lapsed() && r.hold:
		return StateUnknown
	case r.lapsed():
		return StateLapsed
	default:
		return StateInProgress
	}
}

func (r *row) onLeaseExpiry() tenants.OnLeaseExpiry {
	if r.hold {
		return tenants.OnLeaseExpiryHold
	}
	return tenants.OnLeaseExpiryTakeover
}

func (r *row) recoveryPoint() *RecoveryPoint {
	if r.recoveryName == "" {
		return nil
	}
	return &RecoveryPoint{Name: r.recoveryName, Data: jsontext.Value(r.recoveryData)}
}

func (r *row) lease(under *tenants.Snapshot, id ID) Lease {
	return Lease{Token: leaseToken(under, id, r.fence), Fence: r.fence, ExpiresAt: r.leaseExpiresAt, OnLeaseExpiry: r.onLeaseExpiry()}
}

func (r *row) acquired(e *entry, resumed bool) Acquired {
	return Acquired{
		ID: e.id, Attempt: r.attempt, Resumed: resumed, TakenOver: r.takenOver,
		Lease: r.lease(e.snapshot, e.id), RecoveryPoint: r.recoveryPoint(),
		CreatedAt: r.createdAt, ExpiresAt: r.expiresAt,
	}
}

func (r *row) replay(id ID, matched bool) Replay {
	return Replay{
		ID: id, Attempt: r.attempt, FingerprintMatched: matched,
		CreatedAt: r.createdAt, CompletedAt: r.completedAt, ExpiresAt: r.expiresAt, Age: r.age(),
		stored: r.response, fence: r.fence,
	}
}

// age is how long ago the record was made; never below zero, although the
// database's clock may have been set back since.
func (r *row) age() time.Duration { return max(r.now.Sub(r.createdAt), 0) }
