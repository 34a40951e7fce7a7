package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/pruning"
)

// pruneWithin is how long a caller waits for a prune; the rest is a job's.
const pruneWithin = 20 * time.Second

// Pruning prunes on demand: a *pruning.Pruner, and the worker's queue for what
// takes longer than its caller waits.
type Pruning interface {
	Run(ctx context.Context, req pruning.Request) (pruning.Report, error)
	ContinuePruning(ctx context.Context, tenant *auth.TenantID) error
}

// pruneTable is the rows of pruning on demand.
func pruneTable() []route {
	return []route{
		{method: http.MethodPost, pattern: "/v1/prune", listener: Public, roles: []auth.Role{auth.RoleAdmin}, admin: true, call: call((*API).prune)},
		{method: http.MethodPost, pattern: "/v1/admin/prune", listener: Operator, roles: []auth.Role{auth.RoleOperator}, admin: true, call: call((*API).pruneAll)},
	}
}

// pruneRequest is POST /v1/prune, which has no body.
type pruneRequest struct{}

func (*pruneRequest) decode(*exchange) error { return nil }

type pruneBody struct {
	Pruned      int64   `json:"pruned"`
	Left        int64   `json:"left"`
	TookSeconds float64 `json:"took_seconds"`
	// Done says that nothing expired was left; else a job goes on with it.
	Done bool `json:"done"`
}

func pruneBodyOf(r pruning.Report) pruneBody {
	return pruneBody{r.Pruned, r.Left, r.Took.Seconds(), r.Done}
}

// prune removes the tenant's expired records now, without the hour's delay.
func (a *API) prune(ctx context.Context, caller auth.Caller, _ pruneRequest) (jsonAnswer, error) {
	report, err := a.pruneOf(ctx, &caller.Tenant)
	if err != nil {
		return jsonAnswer{}, err
	}
	err = a.admin.Audit.Add(context.WithoutCancel(ctx), audit.Entry{
		Tenant: uuid.UUID(caller.Tenant), Actor: caller.Actor(), Action: "records.prune",
		Object: audit.Object{Kind: "tenant", ID: caller.Tenant.String()}, After: map[string]int64{"pruned": report.Pruned, "left": report.Left},
	})
	if err != nil { // what is gone is gone: the answer says so
		a.logger.Warn("a prune is not in the audit trail", slog.String("tenant", caller.Tenant.String()), slog.Any("error", err))
	}
	return jsonAnswer{pruneBodyOf(report)}, nil
}

type pruneAllBody struct {
	pruneBody
	Tenants []prunedTenant `json:"tenants"` // those that had anything to prune
}

type prunedTenant struct {
	Tenant string `json:"tenant"`
	Pruned int64  `json:"pruned"`
	Left   int64  `json:"left"`
}

// pruneAll removes everybody's expired records now, without the hour's delay.
func (a *API) pruneAll(ctx context.Context, _ auth.Caller, _ pruneRequest) (jsonAnswer, error) {
	report, err := a.pruneOf(ctx, nil)
	if err != nil {
		return jsonAnswer{}, err
	}
	body := pruneAllBody{pruneBodyOf(report), make([]prunedTenant, len(report.Tenants))}
	for i, t := range report.Tenants {
		body.Tenants[i] = prunedTenant{t.Tenant.String(), t.Pruned, t.Left}
	}
	return jsonAnswer{body}, nil
}

// pruneOf prunes for as long as a caller waits, and leaves the rest to a job.
func (a *API) pruneOf(ctx context.Context, tenant *auth.TenantID) (pruning.Report, error) {
	report, err := a.pruning.Run(ctx, pruning.Request{Tenant: tenant, Within: pruneWithin})
	if err != nil {
		return report, problem.Unavailable(err)
	}
	if !report.Done {
		if err := a.pruning.ContinuePruning(ctx, tenant); err != nil {
			return report, problem.Unavailable(err)
		}
	}
	return report, nil
}
