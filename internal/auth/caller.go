// Package auth owns who is asking: API keys, roles, and the Caller that every
// method of the domain takes as an argument.
//
// It must not decide what a role may do to a record (the route table and the
// domain packages do), and no other package sees a secret of a credential.
package auth

import (
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/audit"
)

// TenantID names a tenant.
type TenantID uuid.UUID

// NamespaceID names a namespace inside a tenant; the zero value names none.
type NamespaceID uuid.UUID

// CredentialID is the public part of an API key: 16 characters of lower-case
// base 32. It may be logged.
type CredentialID string

// String is the canonical text form.
func (id TenantID) String() string { return uuid.UUID(id).String() }

// String is the canonical text form.
func (id NamespaceID) String() string { return uuid.UUID(id).String() }

// Role is what a credential may do; the route table says which call needs which.
type Role string

// The roles of a tenant's credentials (wire contract, section 1).
const (
	RoleService  Role = "service"
	RoleOps      Role = "ops"
	RoleResolver Role = "resolver"
	RoleAdmin    Role = "admin"

	// RoleOperator belongs to no tenant and to no credential: whoever presents
	// an operator token on the operator's listener.
	RoleOperator Role = "operator"
)

// Caller is an authenticated credential. It is passed as an argument from the
// HTTP adapter down to the store; it is never put into a context.
type Caller struct {
	Tenant     TenantID
	Namespace  NamespaceID // the one namespace of a service credential; zero for the other roles
	Credential CredentialID
	Role       Role
	// Namespaces are those in which a resolver decides; nil is all of them. The
	// list is shared and never changed.
	Namespaces *[]NamespaceID
	// KeyPresented says that the API key itself came with the request (or, in a
	// session, within the last ten minutes) and not only a token made from it.
	KeyPresented bool
	// RequestID and Address say by which request and from where; the audit
	// trail keeps them. Empty where the caller came by no request.
	RequestID string
	Address   string
	// TraceID is the W3C trace id of the request, 32 hex digits, or empty. It
	// is kept with the attempt so that a record leads back to its trace.
	TraceID string
	// DatabaseNanos is where those who wait for the database on behalf of the
	// request add how many nanoseconds they did; nil: nobody asks.
	DatabaseNanos *atomic.Int64
	// Suspended is the operator's reason where the tenant is suspended; the
	// adapter refuses most calls, the calls on a held lease go on.
	Suspended *string
}

// Decides says whether the caller's credential names the namespace among those
// in which it decides.
func (c Caller) Decides(namespace NamespaceID) bool {
	return c.Namespaces == nil || slices.Contains(*c.Namespaces, namespace)
}

// Actor is the caller as the audit trail knows it.
func (c Caller) Actor() audit.Actor {
	if c.Role == RoleOperator {
		return audit.Operator(c.RequestID, c.Address)
	}
	return audit.Actor{
		Kind: audit.ActorCredential, Name: string(c.Credential), Role: string(c.Role), RequestID: c.RequestID, Address: c.Address,
	}
}
