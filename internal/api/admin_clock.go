package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// Clock is the database's clock as this process sees it: *postgres.Clock.
type Clock interface {
	// Doubt is why the clock is not believed; nil: it is.
	Doubt() error
	// Trust is the operator's word that it is right.
	Trust()
	// Steps is how often it has jumped since the process began.
	Steps() int64
}

// clockTable is the operator's look at the database's clock, and the word with
// which begins go on before the minute after a jump is over. Each process has
// a clock of its own: the word is for the one that is asked.
func clockTable() []route {
	operator := []auth.Role{auth.RoleOperator}
	return []route{
		{method: http.MethodGet, pattern: "/v1/admin/clock", listener: Operator, roles: operator, admin: true, call: call((*API).getClock)},
		{method: http.MethodPost, pattern: "/v1/admin/clock/trust", listener: Operator, roles: operator, admin: true, call: call((*API).trustClock)},
	}
}

type clockBody struct {
	Doubtful bool  `json:"doubtful"`
	Steps    int64 `json:"steps"`
}

func (a *API) getClock(_ context.Context, _ auth.Caller, _ nothing) (adminAnswer, error) {
	if a.clock == nil {
		return adminAnswer{}, problem.New(problem.NotFound, "This process does not watch the database's clock.")
	}
	return ok(clockBody{a.clock.Doubt() != nil, a.clock.Steps()}), nil
}

func (a *API) trustClock(ctx context.Context, caller auth.Caller, req nothing) (adminAnswer, error) {
	if a.clock != nil && a.clock.Doubt() != nil {
		a.clock.Trust()
		a.logger.WarnContext(ctx, "the operator says that the database's clock is right: begins are answered again",
			slog.String("request_id", caller.RequestID), slog.String("address", caller.Address))
	}
	return a.getClock(ctx, caller, req)
}
