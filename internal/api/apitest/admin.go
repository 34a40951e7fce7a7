package apitest

import (
	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
)

// OperatorToken lets the operator in at every instance.
const OperatorToken = "an-operator-token-of-the-tests-0123456789"

// administration is what an instance administers with.
func (i *Instance) administration(w *World) api.Administration {
	return api.Administration{
		Tenants:     i.Tenants,
		Credentials: auth.NewCredentials(w.Pool, i.Auth.Forget),
		Audit:       audit.NewLog(w.Pool),
		Retentions:  keys.NewRetentions(w.Pool),
		Records:     i.records,
		Operators:   auth.NewOperators(OperatorToken, OperatorToken+"-next"),
	}
}

// Operator makes a client of the operator's listener with an operator token.
func (i *Instance) Operator() *Client {
	c := i.Client(OperatorToken)
	c.base = i.OperatorURL
	return c
}
