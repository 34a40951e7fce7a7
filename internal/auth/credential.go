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
	LastUsedAt *time.Time // some seconds behind; nil: never used
	ReplacedAt *time.Time // when a rotation issued its successor; nil: it has none
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
	// CreateNamespace makes the namespace of a service credential together with
	// it, in place of Namespace.
	CreateNamespace *NewNamespace
	// Namespaces is for the role resolver; nil is all.
	Namespaces []NamespaceID
	// ExpiresAt is in the future; nil is never.
	ExpiresAt *time.Time
}

// NewNamespace is a namespace to be made with its first credential.
type NewNamespace struct {
	Name     string // 1 to 100 characters, unique in the tenant
	KeyScope string // operation or namespace; empty is operation
}

func (p IssueParams) validate() error {
	var fields []problem.Field
	add := func(pointer, reason string) {
		fields = append(fields, problem.Field{Pointer: pointer, Reason: reason})
	}
	if !isName(p.Name) {
		add("/name", nameForm)
	}
	if made := p.CreateNamespace; made != nil {
		if !isName(made.Name) {
			add("/create_namespace/name", nameForm)
		}
		if made.KeyScope != "" && made.KeyScope != "operation" && made.KeyScope != "namespace" {
			add("/create_namespace/key_scope", "operation or namespace")
		}
		if p.Namespace != (NamespaceID{}) || p.Role != RoleService {
			add("/create_namespace", "only a service credential makes a namespace, and only in place of naming one")
		}
	}
	switch p.Role {
	case RoleService:
		if p.Namespace == (NamespaceID{}) && p.CreateNamespace == nil {
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

const nameForm = "a name is 1 to 100 characters of UTF-8 without controls"

func isName(name string) bool {
	n := utf8.RuneCountInString(name)
	return utf8.ValidString(name) && n >= 1 && n <= maxNameLength && !hasControl(name)
}

const reasonForm = "a reason is 3 to 500 characters of UTF-8 without controls"

// IsReason says whether text can stand as the reason of a change in the audit
// trail: 3 to 500 characters of UTF-8 without controls.
func IsReason(text string) bool {
	n := utf8.RuneCountInString(text)
	return utf8.ValidString(text) && n >= 3 && n <= 500 && !hasControl(text)
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
