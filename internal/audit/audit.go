// Package audit owns the trail of who did what: the shape of an entry, its
// writing in the transaction of the change, and its reading by the tenant.
//
// It must not change or remove an entry, it decides nothing about who may do
// what, and no secret, body, idempotency key, token or fingerprint is ever put
// into it: the packages that write entries see to that.
package audit

import (
	"time"

	"github.com/google/uuid"
)

// ActorKind says what kind of hand it was.
type ActorKind string

// The kinds of actor.
const (
	ActorCredential ActorKind = "credential" // a credential of the tenant; Name is its id
	ActorOperator   ActorKind = "operator"   // whoever holds an operator token
	ActorLocal      ActorKind = "local"      // a command on the machine itself
)

// Actor is who does something, and by which request. It is an argument of
// every change.
type Actor struct {
	Kind      ActorKind
	Name      string
	Role      string
	RequestID string // empty where no request was made
	Address   string // of the peer, without port; empty where there is none
}

// Local is the actor of what is done on the machine and not over HTTP.
func Local() Actor { return Actor{Kind: ActorLocal, Name: string(ActorLocal)} }

// Operator is the actor of what is done with an operator token.
func Operator(requestID, address string) Actor {
	return Actor{Kind: ActorOperator, Name: string(ActorOperator), Role: string(ActorOperator), RequestID: requestID, Address: address}
}

// Object is what an action was done to. Kind is a word such as credential; ID
// may be empty where the tenant has only one.
type Object struct {
	Kind string
	ID   string
}

// Entry is one line of the trail, to be written.
type Entry struct {
	Tenant uuid.UUID
	Actor  Actor
	Action string // noun.verb, lower case, such as credential.issue
	Object Object
	Reason string // as given, or empty
	// Before and After are written as JSON; nil is left out.
	Before, After any
}

// Record is one line of the trail, as it was read.
type Record struct {
	ID     int64
	At     time.Time
	Actor  Actor
	Action string
	Object Object
	Reason string
	Before []byte // JSON, or nil
	After  []byte // JSON, or nil
}

// Filter narrows a reading; a zero member does not.
type Filter struct {
	Action   string
	Actor    string
	ObjectID string
	Since    time.Time // inclusive
	Until    time.Time // exclusive
	// Before is the id of the last record of the page before; zero begins with
	// the newest.
	Before int64
	Limit  int // 1 to MaxPage
}

// MaxPage is the most records of one reading.
const MaxPage = 200
