package api

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// tokenTable is the exchange of an API key for a token, and the keys under
// which tokens are found good.
func tokenTable() []route {
	everyRole := []auth.Role{auth.RoleService, auth.RoleOps, auth.RoleResolver, auth.RoleAdmin}
	return []route{
		{method: http.MethodPost, pattern: "/v1/auth/token", listener: Public, roles: everyRole, admin: true, needsKey: true, whileSuspended: true, call: call((*API).exchangeToken)},
		{method: http.MethodGet, pattern: "/.well-known/jwks.json", listener: Public, page: keySet},
	}
}

type tokenBody struct {
	Token     string  `json:"token"`
	TokenType string  `json:"token_type"`
	ExpiresIn int64   `json:"expires_in"`
	ExpiresAt instant `json:"expires_at"`
}

func (a *API) exchangeToken(ctx context.Context, caller auth.Caller, _ nothing) (adminAnswer, error) {
	if caller.Suspended != nil && caller.Role != auth.RoleService {
		return adminAnswer{}, suspended(caller)
	}
	if a.admin.Tokens == nil {
		return adminAnswer{}, problem.New(problem.KindUnavailable, "This service has no signing keys: its operator sets ONCEWARD_JWT_SECRET or ONCEWARD_JWT_KEYS_FILE. The API key itself works everywhere.")
	}
	token, err := a.admin.Tokens.Exchange(ctx, caller)
	return ok(tokenBody{token.Reveal(), "Bearer", int64(auth.TokenLife.Seconds()), instant(token.ExpiresAt)}), err
}

func suspended(caller auth.Caller) error {
	return problem.New(problem.Suspended, "The tenant is suspended: %s. Leases that are held can still be completed, renewed and released.", *caller.Suspended)
}

// keySet is /.well-known/jwks.json (RFC 7517, section 5).
func keySet(a *API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(w)
		set := []auth.JWK{}
		if a.admin.Tokens != nil {
			var err error
			if set, err = a.admin.Tokens.KeySet(r.Context()); err != nil {
				x.fail(err)
				return
			}
		}
		body, err := json.Marshal(map[string]any{"keys": set})
		if err != nil {
			x.fail(err)
			return
		}
		x.Header().Set("Cache-Control", "max-age=60")
		x.write(http.StatusOK, mediaJSON, body)
	})
}
