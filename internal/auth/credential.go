package auth

import (
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/problem"
)

// maxNameLength is in characters.
const maxNameLength = 100

// String is the id as it is.
func (id CredentialID) String() string { return string(id) }

// Credential is an API key as its tenant's administrators see it: all but the
// key.
type Credential struct {
	ID     CredentialID
	Tenant TenantID
	Name   string // unique among the tenant's credentials that are not revoked
	Role   Role
	// Namespace is the one of a service credential; zero for the other roles.
	Namespace NamespaceID
	// Namespaces are those in which a resolver decides; nil is all of them.
	Namespaces []NamespaceID
	CreatedAt  time.Time
	ExpiresAt  *time.Time // nil: never
	RevokedAt  *time.Time // nil: it is not
}

// IssueParams describes a credential to be issued.
type IssueParams struct {
	Name string // 1 to 100 characters
	Role Role
	// Namespace is required for the role service and for no other: it is where
	// its keys are compared with each other.
	Namespace NamespaceID
	// Namespaces is for the role resolver; nil is all.
	Namespaces []NamespaceID
	// ExpiresAt is in the future; nil is never.
	ExpiresAt *time.Time
}

func (p IssueParams) validate() error {
	var fields []problem.Field
	add := func(pointer, reason string) {
		fields = append(fields, problem.Field{Pointer: pointer, Reason: reason})
	}
	if n := utf8.RuneCountInString(p.Name); !utf8.ValidString(p.Name) || n < 1 || n > maxNameLength || hasControl(p.Name) {
		add("/name", "a name is 1 to 100 characters of UTF-8 without controls")
	}
	switch p.Role {
	case RoleService:
		if p.Namespace == (NamespaceID{}) {
			add("/namespace", "a service credential names the one namespace in which its keys are compared: two credentials that share one see each other's keys, so a rotation breaks nothing; two that do not never meet")
		}
	case RoleOps, RoleResolver, RoleAdmin:
		if p.Namespace != (NamespaceID{}) {
			add("/namespace", "only a service credential names a namespace")
		}
	default:
		add("/role", "a role is service, ops, resolver or admin")
	}
	switch {
	case p.Namespaces == nil:
	case p.Role != RoleResolver:
		add("/namespaces", "only a resolver names namespaces")
	case len(p.Namespaces) == 0:
		add("/namespaces", "a resolver names at least one namespace, or leaves the member out for all")
	}
	if len(fields) > 0 {
		return problem.Invalid(fields...)
	}
	return nil
}

// hasControl finds what PostgreSQL refuses (NUL) and what garbles a list or log.
func hasControl(text string) bool {
	for _, r := range text {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return true
		}
	}
	return false
}
