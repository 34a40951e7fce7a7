package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// operatorTable is the rows of the operator's listener. The operator is shown
// no key and no response of a tenant.
func operatorTable() []route {
	operator := []auth.Role{auth.RoleOperator}
	rows := []route{
		{method: http.MethodGet, pattern: "/v1/admin/tenants", query: []string{"limit", "cursor"}, call: call((*API).listTenants)},
		{method: http.MethodPost, pattern: "/v1/admin/tenants", body: jsonBody, call: call((*API).createTenant)},
		{method: http.MethodGet, pattern: "/v1/admin/tenants/{id}", call: call((*API).getTenant)},
		{method: http.MethodPatch, pattern: "/v1/admin/tenants/{id}", body: jsonBody, call: call((*API).patchTenant)},
		{method: http.MethodDelete, pattern: "/v1/admin/tenants/{id}", query: []string{"name"}, call: call((*API).deleteTenant)},
		{method: http.MethodPost, pattern: "/v1/admin/tenants/{id}/credentials", body: jsonBody, call: call((*API).recoverAdmin)},
	}
	for i := range rows {
		rows[i].listener, rows[i].roles, rows[i].admin = Operator, operator, true
	}
	return rows
}

type tenantBody struct {
	ID                  string        `json:"id"`
	Name                string        `json:"name"`
	State               tenants.State `json:"state"`
	SuspendedReason     *string       `json:"suspended_reason"`
	MinRetentionSeconds int64         `json:"min_retention_seconds"`
	MaxRetentionSeconds int64         `json:"max_retention_seconds"`
	BodyLimitBytes      int           `json:"body_limit_bytes"`
	GraceSeconds        int64         `json:"grace_seconds"`
	RequestsPerSecond   *int64        `json:"requests_per_second"`
	NewKeysPerMinute    int64         `json:"new_keys_per_minute"`
	MaxLiveRecords      *int64        `json:"max_live_records"`
	MaxStoredBytes      *int64        `json:"max_stored_bytes"`

	NamespaceRequestsPerSecond *int64 `json:"namespace_requests_per_second"`
	CallerRequestsPerSecond    *int64 `json:"caller_requests_per_second"`

	CreatedAt   instant `json:"created_at"`
	DeleteAfter instant `json:"delete_after"` // when its rows begin to go; null unless it is being deleted
	DeletedRows int64   `json:"deleted_rows"`
}

func tenantBodyOf(t tenants.Tenant) tenantBody {
	return tenantBody{
		ID: t.ID.String(), Name: t.Name, State: t.State, SuspendedReason: textOrNull(t.SuspendedReason),
		MinRetentionSeconds: wholeSeconds(t.MinRetention), MaxRetentionSeconds: wholeSeconds(t.MaxRetention),
		BodyLimitBytes: t.BodyLimit, GraceSeconds: wholeSeconds(t.Grace), RequestsPerSecond: t.Limits.RequestsPerSecond,
		NewKeysPerMinute: t.Limits.NewKeysPerMinute, MaxLiveRecords: t.Limits.LiveRecords, MaxStoredBytes: t.Limits.StoredBytes,
		NamespaceRequestsPerSecond: t.Limits.NamespaceRequestsPerSecond, CallerRequestsPerSecond: t.Limits.CallerRequestsPerSecond,
		CreatedAt: instant(t.CreatedAt), DeleteAfter: instant(t.DeleteAfter), DeletedRows: t.DeletedRows,
	}
}

// tenantsRequest is GET /v1/admin/tenants.
type tenantsRequest struct {
	after auth.TenantID
	limit int
}

func (r *tenantsRequest) decode(x *exchange) error {
	l, err := x.listing()
	if err != nil {
		return err
	}
	r.limit = l.limit
	if l.cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(l.cursor)
		if err != nil || len(raw) != len(r.after) {
			return badCursor()
		}
		copy(r.after[:], raw)
	}
	return nil
}

func (a *API) listTenants(ctx context.Context, _ auth.Caller, req tenantsRequest) (adminAnswer, error) {
	list, more, err := a.admin.Tenants.List(ctx, req.after, req.limit)
	if err != nil {
		return adminAnswer{}, err
	}
	p := pageOf(list, tenantBodyOf)
	if more {
		last := list[len(list)-1].ID
		p.NextCursor = textOrNull(base64.RawURLEncoding.EncodeToString(last[:]))
	}
	return ok(p), nil
}

// limitMembers are those of a tenant that the operator sets.
type limitMembers struct {
	Name                *string      `json:"name"`
	MinRetentionSeconds *wholeNumber `json:"min_retention_seconds"`
	MaxRetentionSeconds *wholeNumber `json:"max_retention_seconds"`
	BodyLimitBytes      *wholeNumber `json:"body_limit_bytes"`
	GraceSeconds        *wholeNumber `json:"grace_seconds"`
	RequestsPerSecond   *wholeNumber `json:"requests_per_second"`
	NewKeysPerMinute    *wholeNumber `json:"new_keys_per_minute"`
	MaxLiveRecords      *wholeNumber `json:"max_live_records"`
	MaxStoredBytes      *wholeNumber `json:"max_stored_bytes"`

	NamespaceRequestsPerSecond *wholeNumber `json:"namespace_requests_per_second"`
	CallerRequestsPerSecond    *wholeNumber `json:"caller_requests_per_second"`
}

func (m limitMembers) patch() tenants.LimitsPatch {
	p := tenants.LimitsPatch{
		Name: m.Name, MinRetention: duration(m.MinRetentionSeconds), MaxRetention: duration(m.MaxRetentionSeconds), Grace: duration(m.GraceSeconds),
		RequestsPerSecond: (*int64)(m.RequestsPerSecond), NewKeysPerMinute: (*int64)(m.NewKeysPerMinute),
		LiveRecords: (*int64)(m.MaxLiveRecords), StoredBytes: (*int64)(m.MaxStoredBytes),
		NamespaceRequestsPerSecond: (*int64)(m.NamespaceRequestsPerSecond), CallerRequestsPerSecond: (*int64)(m.CallerRequestsPerSecond),
	}
	if m.BodyLimitBytes != nil {
		p.BodyLimit = new(int(min(max(*m.BodyLimitBytes, 0), maxSeconds)))
	}
	return p
}

// createTenantRequest is POST /v1/admin/tenants.
type createTenantRequest struct{ patch tenants.LimitsPatch }

func (r *createTenantRequest) decode(x *exchange) error {
	var b limitMembers
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.patch = b.patch()
	return nil
}

// createdTenant is the one answer that shows the first admin's secret.
type createdTenant struct {
	Tenant     tenantBody `json:"tenant"`
	Credential issuedBody `json:"credential"`
}

func (a *API) createTenant(ctx context.Context, caller auth.Caller, req createTenantRequest) (adminAnswer, error) {
	made, credential, key, err := a.admin.Tenants.By(caller).CreateWithAdmin(ctx, req.patch)
	return adminAnswer{
		status: http.StatusCreated, location: "/v1/admin/tenants/" + made.ID.String(),
		value: createdTenant{tenantBodyOf(made), issuedBody{credentialBodyOf(credential), key.Reveal()}},
	}, err
}

// tenantRequest is a call about one tenant.
type tenantRequest struct {
	id   auth.TenantID
	name string // repeated, of a deletion
}

func (r *tenantRequest) decode(x *exchange) error {
	r.id, r.name = x.tenantID(), x.query.Get("name")
	return nil
}

// tenantID is the one in the path; no tenant has the zero id, which stands for
// what cannot be one.
func (x *exchange) tenantID() auth.TenantID {
	id, known := parseUUID(x.pathValue("id"))
	if !known {
		return auth.TenantID{}
	}
	return auth.TenantID(id)
}

func (a *API) getTenant(ctx context.Context, _ auth.Caller, req tenantRequest) (adminAnswer, error) {
	t, err := a.admin.Tenants.Tenant(ctx, req.id)
	return ok(tenantBodyOf(t)), err
}

func (a *API) deleteTenant(ctx context.Context, caller auth.Caller, req tenantRequest) (adminAnswer, error) {
	t, err := a.admin.Tenants.By(caller).Delete(ctx, req.id, req.name)
	return adminAnswer{status: http.StatusAccepted, value: tenantBodyOf(t)}, err
}

// patchTenantRequest is PATCH /v1/admin/tenants/{id}.
type patchTenantRequest struct {
	id     auth.TenantID
	state  *string
	reason *string
	limits bool // any of the members of patch is there
	patch  tenants.LimitsPatch
}

func (r *patchTenantRequest) decode(x *exchange) error {
	var b struct {
		limitMembers
		State  *string `json:"state"`
		Reason *string `json:"reason"`
	}
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.id, r.state, r.reason, r.patch, r.limits = x.tenantID(), b.State, b.Reason, b.patch(), b.limitMembers != limitMembers{}
	switch {
	case b.State != nil && *b.State != string(tenants.StateActive) && *b.State != string(tenants.StateSuspended):
		return problem.Invalid(problem.Field{Pointer: "/state", Reason: "active or suspended"})
	case b.State != nil && r.limits:
		return problem.Invalid(problem.Field{Pointer: "/state", Reason: "is changed alone, without limits in the same call"})
	case b.Reason != nil && (b.State == nil || *b.State != string(tenants.StateSuspended)):
		return problem.Invalid(problem.Field{Pointer: "/reason", Reason: "goes with the state suspended only"})
	case b.State == nil && !r.limits:
		return problem.Invalid(problem.Field{Reason: "the body changes nothing: send state, or limits"})
	}
	return nil
}

func (a *API) patchTenant(ctx context.Context, caller auth.Caller, req patchTenantRequest) (adminAnswer, error) {
	service := a.admin.Tenants.By(caller)
	if req.limits {
		t, err := service.ChangeLimits(ctx, req.id, req.patch)
		return ok(tenantBodyOf(t)), err
	}
	now, err := service.Tenant(ctx, req.id)
	switch {
	case err != nil:
	case *req.state == string(tenants.StateActive):
		err = service.Reactivate(ctx, req.id)
	case now.State == tenants.StateDeleting: // suspended again: its deletion is taken back
		_, err = service.Undelete(ctx, req.id)
	default:
		err = service.Suspend(ctx, req.id, text0(req.reason))
	}
	if err != nil {
		return adminAnswer{}, err
	}
	t, err := service.Tenant(ctx, req.id)
	return ok(tenantBodyOf(t)), err
}

// recoverRequest is POST /v1/admin/tenants/{id}/credentials.
type recoverRequest struct {
	id     auth.TenantID
	reason string
}

func (r *recoverRequest) decode(x *exchange) error {
	var b struct {
		Reason *string `json:"reason"`
	}
	err := decodeJSON(x.body, &b)
	r.id, r.reason = x.tenantID(), text0(b.Reason)
	return err
}

func (a *API) recoverAdmin(ctx context.Context, caller auth.Caller, req recoverRequest) (adminAnswer, error) {
	if _, err := a.admin.Tenants.Tenant(ctx, req.id); err != nil {
		return adminAnswer{}, err
	}
	name := "recovered " + a.nowFunc().UTC().Format(time.RFC3339Nano)
	credential, key, err := a.admin.Credentials.By(caller.Actor()).Recover(ctx, req.id, name, req.reason)
	return issued(credential, key), err
}
