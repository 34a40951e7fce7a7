package auth

import (
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/problem"
)

// MaxOverlap is how long a rotated key may go on at most.
const MaxOverlap = 30 * 24 * time.Hour

// Credentials administers API keys. Every call names the tenant; what belongs
// to another tenant is as if it did not exist. Every change is written to the
// tenant's audit trail in its own transaction.
type Credentials struct {
	rows *store
	// random is read for every new key.
	random     io.Reader
	forgetFunc func(CredentialID)
	actor      audit.Actor
}

// NewCredentials administers the credentials in pool's database. forgetFunc is
// told of each credential that has ended, so that this process refuses it at
// once (Authenticator.Forget); nil where nobody authenticates here. What it
// changes is in the name of audit.Local until By says otherwise.
func NewCredentials(pool *pgxpool.Pool, forgetFunc func(CredentialID)) *Credentials {
	if forgetFunc == nil {
		forgetFunc = func(CredentialID) {}
	}
	return &Credentials{rows: &store{db: pool}, random: rand.Reader, forgetFunc: forgetFunc, actor: audit.Local()}
}

// By is the same administration in the name of actor.
func (c *Credentials) By(actor audit.Actor) *Credentials {
	changed := *c
	changed.actor = actor
	return &changed
}

// Issue makes a credential and its key, which nobody can read again.
// It returns problem.InvalidRequest with JSON pointers, problem.NameTaken, or
// problem.NotFound where there is no such tenant.
func (c *Credentials) Issue(ctx context.Context, tenant TenantID, params IssueParams) (Credential, Key, error) {
	return c.issue(ctx, tenant, params, "credential.issue", "")
}

// Recover issues an admin credential for a tenant that has lost its own. It
// stands in the tenant's audit trail with its reason, 3 to 500 characters. Kinds
// as for Issue.
func (c *Credentials) Recover(ctx context.Context, tenant TenantID, name, reason string) (Credential, Key, error) {
	if !IsReason(reason) {
		return Credential{}, Key{}, problem.Invalid(problem.Field{Pointer: "/reason", Reason: reasonForm})
	}
	return c.issue(ctx, tenant, IssueParams{Name: name, Role: RoleAdmin}, "credential.recover", reason)
}

func (c *Credentials) issue(ctx context.Context, tenant TenantID, params IssueParams, action, reason string) (Credential, Key, error) {
	if err := params.validate(); err != nil {
		return Credential{}, Key{}, err
	}
	key, err := NewKey(c.random)
	if err != nil {
		return Credential{}, Key{}, err
	}
	credential, err := c.rows.Insert(ctx, tenant, key, params, audit.Entry{Actor: c.actor, Action: action, Reason: reason})
	if err != nil {
		return Credential{}, Key{}, err
	}
	return credential, key, nil
}

// Rotate replaces a credential at once: RotateWithOverlap with none.
func (c *Credentials) Rotate(ctx context.Context, tenant TenantID, id CredentialID) (Credential, Key, error) {
	return c.RotateWithOverlap(ctx, tenant, id, 0)
}

// RotateWithOverlap replaces a credential that is neither revoked, expired nor
// replaced already by one with the same name, role, namespaces and expiry, and
// a new key. Both keys work for the overlap, whole seconds up to MaxOverlap;
// with none the old one is refused everywhere within 5 s. The namespace stays,
// so what was begun under the old key is replayed under the new one.
// It returns problem.InvalidRequest, and problem.NotFound where there is no such
// live credential.
func (c *Credentials) RotateWithOverlap(ctx context.Context, tenant TenantID, id CredentialID, overlap time.Duration) (Credential, Key, error) {
	if overlap < 0 || overlap > MaxOverlap || overlap%time.Second != 0 {
		return Credential{}, Key{}, problem.Invalid(problem.Field{Pointer: "/overlap_seconds", Reason: "whole seconds, from 0 to 2592000"})
	}
	key, err := NewKey(c.random)
	if err != nil {
		return Credential{}, Key{}, err
	}
	credential, err := c.rows.Replace(ctx, tenant, id, key, overlap, audit.Entry{Actor: c.actor, Action: "credential.rotate"})
	if err != nil {
		return Credential{}, Key{}, err
	}
	c.forgetFunc(id)
	return credential, key, nil
}

// Revoke ends a credential: its key is refused everywhere within 5 s. Revoking
// what is revoked changes nothing. It returns problem.LastAdmin where no other
// admin credential of the tenant would be left, and problem.NotFound where the
// tenant has no such credential.
func (c *Credentials) Revoke(ctx context.Context, tenant TenantID, id CredentialID) error {
	if err := c.rows.Revoke(ctx, tenant, id, audit.Entry{Actor: c.actor, Action: "credential.revoke"}); err != nil {
		return err
	}
	c.forgetFunc(id)
	return nil
}

// List returns the tenant's credentials, revoked and expired ones included,
// the oldest first.
func (c *Credentials) List(ctx context.Context, tenant TenantID) ([]Credential, error) {
	return c.rows.List(ctx, tenant)
}
