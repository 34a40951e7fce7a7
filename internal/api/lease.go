package api

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

// held is what every call of the wire contract, section 4, names: a record,
// and the token of the attempt that holds it.
type held struct{ id, token string }

func (h *held) decode(x *exchange) error {
	h.id = x.pathValue("id")
	token, faults := x.leaseHeader()
	if len(faults) > 0 {
		return problem.Invalid(faults...)
	}
	h.token = token
	return nil
}

// renewRequest is PATCH /v1/keys/{id}/lease. No body at all is {}.
type renewRequest struct {
	held
	leaseSeconds *int64 // nil: the policy's
}

func (r *renewRequest) decode(x *exchange) error {
	var b struct {
		LeaseSeconds *wholeNumber `json:"lease_seconds"`
	}
	if !isBlank(x.body) {
		if err := decodeJSON(x.body, &b); err != nil {
			return err
		}
	}
	r.leaseSeconds = (*int64)(b.LeaseSeconds)
	return r.held.decode(x)
}

func (a *API) renew(ctx context.Context, caller auth.Caller, req renewRequest) (leaseAnswer, error) {
	lease, err := a.keys.Renew(ctx, caller, req.id, req.token, req.leaseSeconds)
	return leaseAnswer(lease), err
}

type leaseAnswer keys.Lease

func (l leaseAnswer) send(x *exchange) error {
	x.outcome = "renewed"
	return x.writeObject(http.StatusOK, func(o *object) { leaseMembers(o, keys.Lease(l)) })
}

// release is DELETE /v1/keys/{id}/lease.
func (a *API) release(ctx context.Context, caller auth.Caller, req held) (noContent, error) {
	return noContent{}, a.keys.Release(ctx, caller, req.id, req.token)
}

// declareUnknown is POST /v1/keys/{id}/unknown.
func (a *API) declareUnknown(ctx context.Context, caller auth.Caller, req held) (noContent, error) {
	return noContent{}, a.keys.DeclareUnknown(ctx, caller, req.id, req.token)
}

// recoveryPointRequest is PUT /v1/keys/{id}/recovery-point.
type recoveryPointRequest struct {
	held
	point struct {
		Name *string        `json:"name"`
		Data jsontext.Value `json:"data"` // as sent, to the byte; nil where absent
	}
}

func (r *recoveryPointRequest) decode(x *exchange) error {
	if err := decodeJSON(x.body, &r.point); err != nil {
		return err
	}
	return r.held.decode(x)
}

func (a *API) setRecoveryPoint(ctx context.Context, caller auth.Caller, req recoveryPointRequest) (noContent, error) {
	return noContent{}, a.keys.SetRecoveryPoint(ctx, caller, req.id, req.token, req.point.Name, req.point.Data)
}
