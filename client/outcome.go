package client

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// RecordID names a record. It is the same every time for one identity
// (namespace, caller, operation, key), and tells nobody the key.
type RecordID string

// LeaseToken proves the right to complete a record. It is a secret: it prints
// as a placeholder, and string(token) is the token itself.
type LeaseToken string

// String hides the token.
func (LeaseToken) String() string { return "[lease token]" }

// GoString hides the token.
func (t LeaseToken) GoString() string { return t.String() }

// LogValue hides the token.
func (t LeaseToken) LogValue() slog.Value { return slog.StringValue(t.String()) }

// OnLeaseExpiry says what becomes of a record whose lease ends without a response.
type OnLeaseExpiry string

// The two ways.
const (
	OnLeaseExpiryTakeover OnLeaseExpiry = "takeover" // another attempt may be made
	OnLeaseExpiryHold     OnLeaseExpiry = "hold"     // the outcome is unknown until a person decides
)

// Outcome is what a begin that is not refused was answered with: *Acquired or
// *Replay. Switch over both; anything else must not run the operation.
type Outcome interface{ outcome() }

// Acquired says: run the operation now. The record waits for its response.
type Acquired struct {
	ID      RecordID
	Attempt int
	// Resumed says that this begin's own first try had acquired the lease
	// already, and its answer was lost.
	Resumed bool
	// TakenOver says that an earlier attempt's lease ended without a response.
	// It may have done any part of the work, and may still be working.
	TakenOver     bool
	Lease         Grant
	RecoveryPoint *RecoveryPoint // the last that any attempt set; nil: none
	CreatedAt     time.Time
	ExpiresAt     time.Time // zero while the record does not expire (hold)
}

// Grant is a lease: the right of one attempt to complete its record.
type Grant struct {
	Token         LeaseToken
	Fence         int64 // every acquisition of the record raises it
	ExpiresAt     time.Time
	OnLeaseExpiry OnLeaseExpiry

	// By this process's clock, the lease ends no earlier than since + length.
	length time.Duration
	since  time.Time
}

// RecoveryPoint is how far an attempt came.
type RecoveryPoint struct {
	Name string         // 1 to 64 printable ASCII characters
	Data jsontext.Value // JSON of up to 16 KiB, as it was set; nil: none
}

// Replay says: it is done, by an earlier attempt; do not run it.
type Replay struct {
	ID      RecordID
	Attempt int // that gave the response
	// FingerprintMatched is false only where the policy replays to another
	// request under the same key (on_mismatch: replay).
	FingerprintMatched bool
	Response           Response
	CreatedAt          time.Time
	CompletedAt        time.Time
	ExpiresAt          time.Time
	Age                time.Duration // since the record was first created
}

func (*Acquired) outcome() {}
func (*Replay) outcome()   {}

// Held is what a lease holder shows: which record, and by what right.
type Held struct {
	ID    RecordID
	Token LeaseToken
}

// Held is what to complete, renew or release a by.
func (a *Acquired) Held() Held { return Held{a.ID, a.Lease.Token} }

// The JSON of the answers.
type (
	outcomeWire struct {
		Outcome            string             `json:"outcome"`
		ID                 RecordID           `json:"id"`
		Attempt            int                `json:"attempt"`
		Resumed            bool               `json:"resumed"`
		TakenOver          bool               `json:"taken_over"`
		Lease              grantWire          `json:"lease"`
		RecoveryPoint      *recoveryPointWire `json:"recovery_point"`
		FingerprintMatched bool               `json:"fingerprint_matched"`
		Response           responseWire       `json:"response"`
		CreatedAt          time.Time          `json:"created_at"`
		CompletedAt        time.Time          `json:"completed_at"`
		ExpiresAt          time.Time          `json:"expires_at"`
		AgeSeconds         float64            `json:"age_seconds"`
	}
	grantWire struct {
		Token         LeaseToken    `json:"token"`
		Fence         int64         `json:"fence"`
		ExpiresAt     time.Time     `json:"expires_at"`
		OnLeaseExpiry OnLeaseExpiry `json:"on_lease_expiry"`
	}
	recoveryPointWire struct {
		Name string         `json:"name"`
		Data jsontext.Value `json:"data,omitzero"`
	}
)

// result is what the answer says; an outcome that does not go with its status,
// or that is not known, is an error. asked is the lease that the call asked
// for, or zero.
func (w outcomeWire) result(call string, status int, asked time.Duration, a answer) (Outcome, error) {
	switch {
	case status == 201 && w.Outcome == "acquired" && w.ID != "" && w.Lease.Token != "":
		if w.Resumed { // its lease began with an earlier try
			asked = 0
		}
		out := &Acquired{
			ID: w.ID, Attempt: w.Attempt, Resumed: w.Resumed, TakenOver: w.TakenOver, Lease: w.Lease.grant(asked, a),
			CreatedAt: w.CreatedAt, ExpiresAt: w.ExpiresAt,
		}
		if p := w.RecoveryPoint; p != nil {
			out.RecoveryPoint = &RecoveryPoint{Name: p.Name, Data: p.Data}
		}
		return out, nil
	case status == 200 && w.Outcome == "replay" && w.Response.Status != 0:
		return &Replay{
			ID: w.ID, Attempt: w.Attempt, FingerprintMatched: w.FingerprintMatched, Response: w.Response.response(),
			CreatedAt: w.CreatedAt, CompletedAt: w.CompletedAt, ExpiresAt: w.ExpiresAt,
			Age: time.Duration(w.AgeSeconds * float64(time.Second)),
		}, nil
	default:
		return nil, unexpected(call, status, "the outcome is not one that this version knows; the operation must not run", nil)
	}
}

// grant works out how long the lease lasts: as asked, or else from its end and
// the service's own clock, which an answer gives in whole seconds; so at the
// most a second too short, and never too long but by what the clocks of the
// service's machines differ.
func (w grantWire) grant(asked time.Duration, a answer) Grant {
	g := Grant{Token: w.Token, Fence: w.Fence, ExpiresAt: w.ExpiresAt, OnLeaseExpiry: w.OnLeaseExpiry, length: asked, since: a.since}
	if g.length == 0 {
		now := a.since
		if date, err := http.ParseTime(a.header.Get("Date")); err == nil {
			now = date.Add(time.Second)
		}
		g.length = max(w.ExpiresAt.Sub(now), time.Second)
	}
	return g
}
