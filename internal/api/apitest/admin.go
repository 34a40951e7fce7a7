package apitest

import (
	"testing"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
)

// OperatorToken lets the operator in at every instance.
const OperatorToken = "an-operator-token-of-the-tests-0123456789"

// TokenIssuer is the issuer of the tokens of every instance.
const TokenIssuer = "https://onceward.test"

// TokenSecret is what the signing keys in the database are sealed under.
func TokenSecret() [32]byte { return [32]byte{1, 2, 3} }

// administration is what an instance administers with.
func (i *Instance) administration(tb testing.TB, w *World) api.Administration {
	tb.Helper()
	keySource, err := auth.KeysInDatabase(w.Pool, TokenSecret())
	if err != nil {
		tb.Fatal(err)
	}
	log := audit.NewLog(w.Pool)
	tokens := auth.NewTokens(keySource, TokenIssuer, log)
	i.Auth.Accept(tokens)
	return api.Administration{
		Tenants:     i.Tenants,
		Credentials: auth.NewCredentials(w.Pool, i.Auth.Forget),
		Audit:       log,
		Tokens:      tokens,
		Retentions:  keys.NewRetentions(w.Pool),
		Records:     i.records,
		Limits:      i.Limits,
		Usage:       limits.NewUsage(w.Pool),
		Operators:   auth.NewOperators(OperatorToken, OperatorToken+"-next"),
	}
}

// Operator makes a client of the operator's listener with an operator token.
func (i *Instance) Operator() *Client {
	c := i.Client(OperatorToken)
	c.base = i.OperatorURL
	return c
}

// OperatorClientWith makes a client of the operator's listener with any token.
func (i *Instance) OperatorClientWith(token string) *Client {
	c := i.Client(token)
	c.base = i.OperatorURL
	return c
}
