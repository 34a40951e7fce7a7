package auth

import (
	"context"
	"crypto/rand"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Credentials administers API keys. Every call names the tenant; what belongs
// to another tenant is as if it did not exist.
type Credentials struct {
	rows *store
	// random is read for every new key.
	random     io.Reader
	forgetFunc func(CredentialID)
}

// NewCredentials administers the credentials in pool's database. forgetFunc is
// told of each credential that has ended, so that this process refuses it at
// once (Authenticator.Forget); nil where nobody authenticates here.
func NewCredentials(pool *pgxpool.Pool, forgetFunc func(CredentialID)) *Credentials {
	if forgetFunc == nil {
		forgetFunc = func(CredentialID) {}
	}
	return &Credentials{rows: &store{db: pool}, random: rand.Reader, forgetFunc: forgetFunc}
}

// Issue makes a credential and its key, which nobody can read again.
// It returns problem.InvalidRequest with JSON pointers, problem.NameTaken, or
// problem.NotFound where there is no such tenant.
func (c *Credentials) Issue(ctx context.Context, tenant TenantID, params IssueParams) (Credential, Key, error) {
	if err := params.validate(); err != nil {
		return Credential{}, Key{}, err
	}
	key, err := NewKey(c.random)
	if err != nil {
		return Credential{}, Key{}, err
	}
	credential, err := c.rows.Insert(ctx, tenant, key, params)
	if err != nil {
		return Credential{}, Key{}, err
	}
	return credential, key, nil
}

// Rotate replaces a credential that is neither revoked nor expired by one with
// the same name, role, namespaces and expiry, and a new key. The old key is
// refused everywhere within 5 s. The namespace stays, so what was begun under
// the old key is replayed under the new one.
// It returns problem.NotFound where there is no such live credential.
func (c *Credentials) Rotate(ctx context.Context, tenant TenantID, id CredentialID) (Credential, Key, error) {
	key, err := NewKey(c.random)
	if err != nil {
		return Credential{}, Key{}, err
	}
	credential, err := c.rows.Replace(ctx, tenant, id, key)
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
	if err := c.rows.Revoke(ctx, tenant, id); err != nil {
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
