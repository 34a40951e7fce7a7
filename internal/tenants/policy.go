// Package tenants owns tenants, their namespaces, limits and policies, and the
// snapshot of all of them under which a call is decided.
//
// It must not touch idempotency records, and it never invents a policy: one
// that cannot be loaded is problem.KindUnavailable, never the defaults.
package tenants

import (
	"time"

	"github.com/onceward/onceward/internal/auth"
)

// KeyScope says whether the operation is part of a record's identity.
type KeyScope string

// The key scopes of a namespace; chosen when it is made, never changed.
const (
	KeyScopeOperation KeyScope = "operation"
	KeyScopeNamespace KeyScope = "namespace"
)

// OnMismatch says what a begin with another fingerprint gets on a completed record.
type OnMismatch string

// The values of on_mismatch.
const (
	OnMismatchReject OnMismatch = "reject"
	OnMismatchReplay OnMismatch = "replay"
)

// OnLeaseExpiry says what a record becomes whose lease ended without an answer.
type OnLeaseExpiry string

// The values of on_lease_expiry.
const (
	OnLeaseExpiryTakeover OnLeaseExpiry = "takeover"
	OnLeaseExpiryHold     OnLeaseExpiry = "hold"
)

// StoreErrors says which error responses release instead of being stored.
type StoreErrors string

// The values of store_errors.
const (
	StoreErrorsAll    StoreErrors = "all"
	StoreErrorsClient StoreErrors = "client"
	StoreErrorsNone   StoreErrors = "none"
)

// StoreBody says whether bodies are kept.
type StoreBody string

// The values of store_body.
const (
	StoreBodyAll  StoreBody = "all"
	StoreBodyNone StoreBody = "none"
)

// Policy is what holds for one operation in one namespace, with nothing left open.
type Policy struct {
	Retention      time.Duration // whole seconds
	Lease          time.Duration // whole seconds
	OnMismatch     OnMismatch
	MismatchStatus int // 409, 422 or 400
	OnLeaseExpiry  OnLeaseExpiry
	StoreErrors    StoreErrors
	StoreBody      StoreBody
	StripHeaders   []string // lower case
	KeepHeaders    []string // lower case; empty keeps all
	IgnorePointers []string // RFC 6901
}

// Override is one row of a tenant's policies; a nil member is left to the next
// wider row.
type Override struct {
	Namespace      auth.NamespaceID // zero: every namespace
	Operation      string           // empty: the tenant's default
	Retention      *time.Duration
	Lease          *time.Duration
	OnMismatch     *OnMismatch
	MismatchStatus *int
	OnLeaseExpiry  *OnLeaseExpiry
	StoreErrors    *StoreErrors
	StoreBody      *StoreBody
	StripHeaders   *[]string
	KeepHeaders    *[]string
	IgnorePointers *[]string
}

// DefaultPolicy is the contract's (section 6): what holds for a new tenant.
func DefaultPolicy() Policy {
	return Policy{
		Retention:      24 * time.Hour,
		Lease:          time.Minute,
		OnMismatch:     OnMismatchReject,
		MismatchStatus: 409,
		OnLeaseExpiry:  OnLeaseExpiryTakeover,
		StoreErrors:    StoreErrorsAll,
		StoreBody:      StoreBodyAll,
	}
}
