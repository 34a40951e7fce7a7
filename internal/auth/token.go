package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/problem"
)

const (
	// TokenLife is how long a token is good for.
	TokenLife = 15 * time.Minute
	// tokenLeeway is how far the clocks of two processes may differ.
	tokenLeeway = 60 * time.Second

	tokenAudience = "onceward-api"
	// maxTokenBytes is above every token of ours.
	maxTokenBytes = 2048
)

// Token is a JWT, for the one answer that shows it.
type Token struct {
	text      string
	ExpiresAt time.Time
}

// Reveal is the token itself.
func (t Token) Reveal() string { return t.text }

// String keeps it out of logs.
func (t Token) String() string { return redacted }

// Tokens makes tokens of API keys, and reads them. A token says no more than
// who presented the key: it dies with the credential, or with a change of its
// role.
type Tokens struct {
	keys    KeySource
	issuer  string
	log     *audit.Log
	nowFunc func() time.Time
}

// NewTokens signs with keys, in the name of issuer, which is the same on every
// process of the service.
func NewTokens(keys KeySource, issuer string, log *audit.Log) *Tokens {
	return &Tokens{keys: keys, issuer: issuer, log: log, nowFunc: time.Now}
}

// claims are those of the wire contract, section 6.
type claims struct {
	jwt.RegisteredClaims
	Tenant    string `json:"tenant"`
	Role      string `json:"role"`
	Namespace string `json:"namespace,omitempty"`
}

// Exchange makes a token for a caller that presented its API key; a token buys
// no token (problem.Reauthenticate). It is written to the tenant's audit trail.
// Kinds: reauthenticate, unavailable, internal.
func (t *Tokens) Exchange(ctx context.Context, caller Caller) (Token, error) {
	if !caller.KeyPresented {
		return Token{}, problem.New(problem.Reauthenticate, "A token is made from an API key and from nothing else. Send the API key itself.")
	}
	ring, err := t.keys.ring(ctx)
	if err != nil {
		return Token{}, problem.Unavailable(err)
	}
	now := t.nowFunc()
	token := Token{ExpiresAt: now.Add(TokenLife).Truncate(time.Second)}
	c := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: t.issuer, Audience: jwt.ClaimStrings{tokenAudience}, Subject: string(caller.Credential), ID: rand.Text(),
			ExpiresAt: jwt.NewNumericDate(token.ExpiresAt), NotBefore: jwt.NewNumericDate(now), IssuedAt: jwt.NewNumericDate(now),
		},
		Tenant: caller.Tenant.String(), Role: string(caller.Role),
	}
	if caller.Namespace != (NamespaceID{}) {
		c.Namespace = caller.Namespace.String()
	}
	unsigned := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	unsigned.Header["kid"] = ring.signer.kid
	if token.text, err = unsigned.SignedString(ring.signer.private); err != nil {
		return Token{}, problem.Internal(fmt.Errorf("sign a token: %w", err))
	}
	err = t.log.Add(ctx, audit.Entry{
		Tenant: uuid.UUID(caller.Tenant), Actor: caller.Actor(), Action: "token.issue", Object: object(caller.Credential),
		After: map[string]string{"jti": c.ID},
	})
	return token, err
}

// JWK is one public key (RFC 8037, section 2).
type JWK struct {
	KeyType   string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	KeyID     string `json:"kid"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
}

// KeySet is the public keys under which a token may be found good, those that
// are to sign soon included.
func (t *Tokens) KeySet(ctx context.Context) ([]JWK, error) {
	ring, err := t.keys.ring(ctx)
	if err != nil {
		return nil, problem.Unavailable(err)
	}
	var set []JWK
	for _, k := range ring.keys {
		set = append(set, JWK{"OKP", "Ed25519", base64.RawURLEncoding.EncodeToString(k.public), k.kid, "sig", "EdDSA"})
	}
	return set, nil
}

// looksLikeToken tells a token from an API key by its form alone.
func looksLikeToken(text string) bool { return strings.Count(text, ".") == 2 }

var (
	// errToken says that a text is no good token; why is nobody's business.
	errToken = errors.New("not a valid token")
	// errKeys says that the keys could not be read.
	errKeys = errors.New("the signing keys cannot be read")
)

// verify reads a token. Algorithm, issuer, audience and times are pinned; the
// key is found by kid among our own and nowhere else: what a header says of
// jwk, jku or x5u is not read.
func (t *Tokens) verify(ctx context.Context, text string) (*claims, error) {
	if len(text) > maxTokenBytes {
		return nil, errToken
	}
	ring, err := t.keys.ring(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errKeys, err)
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(t.issuer), jwt.WithAudience(tokenAudience),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(tokenLeeway), jwt.WithTimeFunc(t.nowFunc), jwt.WithStrictDecoding(),
	)
	var c claims
	_, err = parser.ParseWithClaims(text, &c, func(unproved *jwt.Token) (any, error) {
		kid, isText := unproved.Header["kid"].(string)
		if _, critical := unproved.Header["crit"]; critical || !isText {
			return nil, errToken
		}
		key := ring.find(kid)
		if key == nil {
			return nil, errToken
		}
		return key.public, nil
	})
	if err != nil || c.NotBefore == nil || c.IssuedAt == nil || c.ExpiresAt.Sub(c.IssuedAt.Time) > TokenLife {
		return nil, errToken
	}
	return &c, nil
}

// misfit names the claim that differs from the caller as the database has it
// now; empty: none.
func (c *claims) misfit(caller Caller) string {
	namespace := ""
	if caller.Namespace != (NamespaceID{}) {
		namespace = caller.Namespace.String()
	}
	switch {
	case c.Tenant != caller.Tenant.String():
		return "tenant"
	case c.Role != string(caller.Role):
		return "role"
	case c.Namespace != namespace:
		return "namespace"
	case !slices.Equal(c.Audience, jwt.ClaimStrings{tokenAudience}):
		return "aud"
	}
	return ""
}
