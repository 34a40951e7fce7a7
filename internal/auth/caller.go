// Package auth owns who is asking: API keys, roles, and the Caller that every
// method of the domain takes as an argument.
//
// It must not decide what a role may do to a record (the route table and the
// domain packages do), and no other package sees a secret of a credential.
package auth

import "github.com/google/uuid"

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
)

// Caller is an authenticated credential. It is passed as an argument from the
// HTTP adapter down to the store; it is never put into a context.
type Caller struct {
	Tenant     TenantID
	Namespace  NamespaceID // the one namespace of a service credential; zero for the other roles
	Credential CredentialID
	Role       Role
	// TraceID is the W3C trace id of the request, 32 hex digits, or empty. It
	// is kept with the attempt so that a record leads back to its trace.
	TraceID string
	// Suspended is the operator's reason where the tenant is suspended; the
	// adapter refuses most calls, the calls on a held lease go on.
	Suspended *string
}
