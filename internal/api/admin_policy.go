package api

import (
	"context"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// policyMembers are those of a policy as they are sent.
type policyMembers struct {
	RetentionSeconds *wholeNumber           `json:"retention_seconds"`
	LeaseSeconds     *wholeNumber           `json:"lease_seconds"`
	OnMismatch       *tenants.OnMismatch    `json:"on_mismatch"`
	MismatchStatus   *wholeNumber           `json:"mismatch_status"`
	OnLeaseExpiry    *tenants.OnLeaseExpiry `json:"on_lease_expiry"`
	StoreErrors      *tenants.StoreErrors   `json:"store_errors"`
	StoreBody        *tenants.StoreBody     `json:"store_body"`
	StripHeaders     *[]string              `json:"strip_headers"`
	KeepHeaders      *[]string              `json:"keep_headers"`
	IgnorePointers   *[]string              `json:"ignore_pointers"`
}

func (m policyMembers) override() tenants.Override {
	o := tenants.Override{
		Retention: duration(m.RetentionSeconds), Lease: duration(m.LeaseSeconds), OnMismatch: m.OnMismatch, OnLeaseExpiry: m.OnLeaseExpiry,
		StoreErrors: m.StoreErrors, StoreBody: m.StoreBody, StripHeaders: m.StripHeaders, KeepHeaders: m.KeepHeaders, IgnorePointers: m.IgnorePointers,
	}
	if m.MismatchStatus != nil {
		o.MismatchStatus = new(int(min(max(*m.MismatchStatus, 0), 999)))
	}
	return o
}

// policyBody is a policy with nothing left open.
type policyBody struct {
	RetentionSeconds int64                 `json:"retention_seconds"`
	LeaseSeconds     int64                 `json:"lease_seconds"`
	OnMismatch       tenants.OnMismatch    `json:"on_mismatch"`
	MismatchStatus   int                   `json:"mismatch_status"`
	OnLeaseExpiry    tenants.OnLeaseExpiry `json:"on_lease_expiry"`
	StoreErrors      tenants.StoreErrors   `json:"store_errors"`
	StoreBody        tenants.StoreBody     `json:"store_body"`
	StripHeaders     []string              `json:"strip_headers"`
	KeepHeaders      []string              `json:"keep_headers"`
	IgnorePointers   []string              `json:"ignore_pointers"`
}

func policyAnswer(p tenants.Policies) adminAnswer {
	d := p.Defaults
	answer := ok(policyBody{
		wholeSeconds(d.Retention), wholeSeconds(d.Lease), d.OnMismatch, d.MismatchStatus, d.OnLeaseExpiry, d.StoreErrors, d.StoreBody,
		d.StripHeaders, d.KeepHeaders, d.IgnorePointers,
	})
	answer.version = p.Version
	return answer
}

// overrideBody is one operation's row: only the members that it sets.
type overrideBody struct {
	Operation        string                 `json:"operation"`
	Namespace        *string                `json:"namespace"`
	RetentionSeconds *int64                 `json:"retention_seconds,omitzero"`
	LeaseSeconds     *int64                 `json:"lease_seconds,omitzero"`
	OnMismatch       *tenants.OnMismatch    `json:"on_mismatch,omitzero"`
	MismatchStatus   *int                   `json:"mismatch_status,omitzero"`
	OnLeaseExpiry    *tenants.OnLeaseExpiry `json:"on_lease_expiry,omitzero"`
	StoreErrors      *tenants.StoreErrors   `json:"store_errors,omitzero"`
	StoreBody        *tenants.StoreBody     `json:"store_body,omitzero"`
	StripHeaders     *[]string              `json:"strip_headers,omitzero"`
	KeepHeaders      *[]string              `json:"keep_headers,omitzero"`
	IgnorePointers   *[]string              `json:"ignore_pointers,omitzero"`
}

func overrideBodyOf(o tenants.Override) overrideBody {
	b := overrideBody{
		Operation: o.Operation, OnMismatch: o.OnMismatch, MismatchStatus: o.MismatchStatus, OnLeaseExpiry: o.OnLeaseExpiry,
		StoreErrors: o.StoreErrors, StoreBody: o.StoreBody, StripHeaders: o.StripHeaders, KeepHeaders: o.KeepHeaders, IgnorePointers: o.IgnorePointers,
	}
	if o.Namespace != (auth.NamespaceID{}) {
		b.Namespace = textOrNull(o.Namespace.String())
	}
	if o.Retention != nil {
		b.RetentionSeconds = new(wholeSeconds(*o.Retention))
	}
	if o.Lease != nil {
		b.LeaseSeconds = new(wholeSeconds(*o.Lease))
	}
	return b
}

func overridesAnswer(p tenants.Policies) adminAnswer {
	answer := ok(pageOf(p.Overrides, overrideBodyOf))
	answer.version = p.Version
	return answer
}

func (a *API) getPolicy(ctx context.Context, caller auth.Caller, _ nothing) (adminAnswer, error) {
	p, err := a.admin.Tenants.Policies(ctx, caller.Tenant)
	return policyAnswer(p), err
}

// patchPolicyRequest is PATCH /v1/policy.
type patchPolicyRequest struct {
	patch tenants.Override
	pre   tenants.Precondition
}

func (r *patchPolicyRequest) decode(x *exchange) error {
	var b policyMembers
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.patch, r.pre = b.override(), ifMatch(x.request.Header)
	return nil
}

func (a *API) patchPolicy(ctx context.Context, caller auth.Caller, req patchPolicyRequest) (adminAnswer, error) {
	p, err := a.admin.Tenants.By(caller).PatchDefaults(ctx, caller.Tenant, req.patch, req.pre)
	return policyAnswer(p), err
}

func (a *API) listOperationPolicies(ctx context.Context, caller auth.Caller, _ nothing) (adminAnswer, error) {
	p, err := a.admin.Tenants.Policies(ctx, caller.Tenant)
	return overridesAnswer(p), err
}

// putOperationRequest is PUT /v1/policy/operations.
type putOperationRequest struct {
	row tenants.Override
	pre tenants.Precondition
}

func (r *putOperationRequest) decode(x *exchange) error {
	var b struct {
		policyMembers
		Operation *string `json:"operation"`
		Namespace *string `json:"namespace"`
	}
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.row, r.pre = b.override(), ifMatch(x.request.Header)
	r.row.Operation = text0(b.Operation)
	if b.Namespace != nil {
		id, known := parseUUID(*b.Namespace)
		if !known || auth.NamespaceID(id) == (auth.NamespaceID{}) {
			return problem.Invalid(noNamespace("/namespace"))
		}
		r.row.Namespace = auth.NamespaceID(id)
	}
	return nil
}

func (a *API) putOperationPolicy(ctx context.Context, caller auth.Caller, req putOperationRequest) (adminAnswer, error) {
	p, err := a.admin.Tenants.By(caller).PutOperation(ctx, caller.Tenant, req.row, req.pre)
	if err != nil {
		return adminAnswer{}, err
	}
	answer := ok(overrideBodyOf(req.row))
	for _, row := range p.Overrides {
		if row.Operation == req.row.Operation && row.Namespace == req.row.Namespace {
			answer = ok(overrideBodyOf(row))
		}
	}
	answer.version = p.Version
	return answer, nil
}

// deleteOperationRequest is DELETE /v1/policy/operations.
type deleteOperationRequest struct {
	operation string
	namespace auth.NamespaceID
	pre       tenants.Precondition
}

func (r *deleteOperationRequest) decode(x *exchange) error {
	r.pre = ifMatch(x.request.Header)
	if r.operation = x.query.Get("operation"); r.operation == "" {
		return problem.Invalid(problem.Field{Parameter: "operation", Reason: "is required: the operation whose policy is to go"})
	}
	if x.query.Has("namespace") {
		id, known := parseUUID(x.query.Get("namespace"))
		if !known {
			return problem.Invalid(problem.Field{Parameter: "namespace", Reason: "the tenant has no such namespace"})
		}
		r.namespace = auth.NamespaceID(id)
	}
	return nil
}

// taggedNoContent is 204 with the version that a change has made.
type taggedNoContent struct{ version int64 }

func (a taggedNoContent) send(x *exchange) error {
	x.Header().Set("ETag", etag(a.version))
	return noContent{}.send(x)
}

func (a *API) deleteOperationPolicy(ctx context.Context, caller auth.Caller, req deleteOperationRequest) (taggedNoContent, error) {
	p, err := a.admin.Tenants.By(caller).DeleteOperation(ctx, caller.Tenant, req.namespace, req.operation, req.pre)
	return taggedNoContent{p.Version}, err
}
