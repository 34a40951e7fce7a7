package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/freshcache"
	"github.com/onceward/onceward/internal/problem"
)

const (
	// trust and loadTimeout keep the promise that a revocation, a suspension or
	// an expiry is seen within 5 s: a copy is at most trust old when it is
	// used, and nobody waits for a read that began longer ago.
	trust       = 4 * time.Second
	loadTimeout = 3 * time.Second

	// About 300 bytes each.
	maxKnownCredentials   = 50_000
	maxUnknownCredentials = 10_000
)

// Authenticator turns a bearer token into a Caller. It is safe for use by many
// goroutines.
type Authenticator struct {
	credentials *freshcache.Cache[CredentialID, knownCredential]
	rows        *store
	uses        uses
	tokens      *Tokens // nil: none are accepted
	nowFunc     func() time.Time
}

// knownCredential is a row as it was read, with its end on the process clock.
type knownCredential struct {
	caller Caller
	digest [sha256.Size]byte
	// refused is set where the key was revoked, or its tenant is being deleted.
	refused bool
	// endsAt has a monotonic reading; a life that outlasts the copy ends later
	// than the copy is used.
	endsAt time.Time
}

// NewAuthenticator makes one that reads from pool.
func NewAuthenticator(pool *pgxpool.Pool) (*Authenticator, error) {
	return newAuthenticator(&store{db: pool}, time.Now)
}

func newAuthenticator(rows *store, nowFunc func() time.Time) (*Authenticator, error) {
	a := &Authenticator{rows: rows, nowFunc: nowFunc}
	cache, err := freshcache.New(freshcache.Config[CredentialID, knownCredential]{
		LoadFunc: func(ctx context.Context, id CredentialID) (knownCredential, bool, error) {
			// The time left is counted from before the question: a key may end
			// a round trip early, never late.
			askedAt := nowFunc()
			row, found, err := rows.Lookup(ctx, id)
			if err != nil || !found {
				return knownCredential{}, false, err
			}
			return row.known(id, askedAt), true, nil
		},
		Trust:       trust,
		LoadTimeout: loadTimeout,
		MaxPresent:  maxKnownCredentials,
		MaxAbsent:   maxUnknownCredentials,
		NowFunc:     nowFunc,
	})
	if err != nil {
		return nil, err
	}
	a.credentials = cache
	return a, nil
}

// Accept makes it take tokens beside API keys. To be called before the first
// use.
func (a *Authenticator) Accept(tokens *Tokens) { a.tokens = tokens }

// Authenticate returns who presents token, an API key or a JWT made of one. A suspended tenant's
// caller is returned with Suspended set: which calls go on is the route's
// affair.
//
// The error is problem.Unauthenticated, the same for a text that is no key, an
// unknown id, a wrong secret, a revoked or expired key and a tenant that is
// being deleted; or problem.KindUnavailable where the database could not be
// asked. Text that is no key costs no question to the database. An unknown id
// and a wrong secret cost the same.
func (a *Authenticator) Authenticate(ctx context.Context, token string) (Caller, error) {
	if a.tokens != nil && looksLikeToken(token) {
		return a.authenticateToken(ctx, token)
	}
	key, err := ParseKey(token)
	if err != nil {
		return Caller{}, unauthenticated()
	}
	digest := key.digest()
	known, found, err := a.credentials.Get(ctx, key.ID())
	if err != nil {
		return Caller{}, problem.Unavailable(err)
	}
	// Every test is made for every key: where there is no row, against zeros.
	same := subtle.ConstantTimeCompare(digest[:], known.digest[:]) == 1
	now := a.nowFunc()
	lives := now.Before(known.endsAt)
	if !found || !same || !lives || known.refused {
		return Caller{}, unauthenticated()
	}
	a.uses.note(known.caller, now)
	caller := known.caller
	caller.KeyPresented = true
	return caller, nil
}

// authenticateToken finds the credential of a token that is good by itself: it
// dies with that, and with every change of what it says of it.
func (a *Authenticator) authenticateToken(ctx context.Context, text string) (Caller, error) {
	c, err := a.tokens.verify(ctx, text)
	switch {
	case errors.Is(err, errKeys):
		return Caller{}, problem.Unavailable(err)
	case err != nil:
		return Caller{}, unauthenticated()
	}
	id, ok := ParseCredentialID(c.Subject)
	if !ok {
		return Caller{}, unauthenticated()
	}
	known, found, err := a.credentials.Get(ctx, id)
	if err != nil {
		return Caller{}, problem.Unavailable(err)
	}
	now := a.nowFunc()
	if !found || known.refused || !now.Before(known.endsAt) {
		return Caller{}, unauthenticated()
	}
	if claim := c.misfit(known.caller); claim != "" {
		return Caller{}, unauthenticated().WithCause(&MisfitError{Caller: known.caller, Claim: claim})
	}
	a.uses.note(known.caller, now)
	return known.caller, nil
}

// MisfitError is the cause of a refusal, for the audit trail: a token that we signed
// names a credential that is not what the token says. The caller is the
// credential as it is.
type MisfitError struct {
	Caller Caller
	Claim  string // the first one that differs
}

// Error is for the log.
func (m *MisfitError) Error() string {
	return "the token's claim " + m.Claim + " is not what the credential has"
}

// Forget drops what is known of the credential in this process, so that the
// next call with it asks the database. Other processes notice a change within
// 5 s.
func (a *Authenticator) Forget(id CredentialID) { a.credentials.Forget(id) }

// unauthenticated is the one answer to every key that is not good.
func unauthenticated() *problem.Error {
	return problem.New(problem.Unauthenticated, "Send the header Authorization: Bearer with a valid API key of your tenant. A key that is mistyped, unknown, expired or revoked gets this same answer.")
}
