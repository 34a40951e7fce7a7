package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// nothing is a request without a body or a parameter.
type nothing struct{}

func (*nothing) decode(*exchange) error { return nil }

type credentialBody struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Role       auth.Role `json:"role"`
	Namespace  *string   `json:"namespace"`
	Namespaces *[]string `json:"namespaces"` // of a resolver; null: all
	CreatedAt  instant   `json:"created_at"`
	LastUsedAt instant   `json:"last_used_at"`
	ReplacedAt instant   `json:"replaced_at"`
	ExpiresAt  instant   `json:"expires_at"`
	RevokedAt  instant   `json:"revoked_at"`
}

// issuedBody is the one answer that shows a secret.
type issuedBody struct {
	credentialBody
	Secret string `json:"secret"`
}

func credentialBodyOf(c auth.Credential) credentialBody {
	b := credentialBody{
		ID: string(c.ID), Name: c.Name, Role: c.Role, CreatedAt: instant(c.CreatedAt), LastUsedAt: instantOf(c.LastUsedAt),
		ReplacedAt: instantOf(c.ReplacedAt), ExpiresAt: instantOf(c.ExpiresAt), RevokedAt: instantOf(c.RevokedAt),
	}
	if c.Namespace != (auth.NamespaceID{}) {
		b.Namespace = textOrNull(c.Namespace.String())
	}
	if c.Namespaces != nil {
		ids := make([]string, len(c.Namespaces))
		for i, id := range c.Namespaces {
			ids[i] = id.String()
		}
		b.Namespaces = &ids
	}
	return b
}

func issued(c auth.Credential, key auth.Key) adminAnswer {
	return adminAnswer{status: http.StatusCreated, value: issuedBody{credentialBodyOf(c), key.Reveal()}}
}

func (a *API) listCredentials(ctx context.Context, caller auth.Caller, _ nothing) (adminAnswer, error) {
	list, err := a.admin.Credentials.List(ctx, caller.Tenant)
	return ok(pageOf(list, credentialBodyOf)), err
}

// issueRequest is POST /v1/credentials.
type issueRequest struct{ params auth.IssueParams }

func (r *issueRequest) decode(x *exchange) error {
	var b struct {
		Name            *string   `json:"name"`
		Role            *string   `json:"role"`
		Namespace       *string   `json:"namespace"`
		Namespaces      *[]string `json:"namespaces"`
		CreateNamespace *struct {
			Name     *string `json:"name"`
			KeyScope *string `json:"key_scope"`
		} `json:"create_namespace"`
		ExpiresAt *string `json:"expires_at"`
	}
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.params = auth.IssueParams{Name: text0(b.Name), Role: auth.Role(text0(b.Role))}
	var faults []problem.Field
	if b.Namespace != nil {
		if id, ok := parseUUID(*b.Namespace); ok {
			r.params.Namespace = auth.NamespaceID(id)
		} else {
			faults = append(faults, noNamespace("/namespace"))
		}
	}
	if b.Namespaces != nil {
		r.params.Namespaces = []auth.NamespaceID{}
		for i, text := range *b.Namespaces {
			id, ok := parseUUID(text)
			if !ok {
				faults = append(faults, noNamespace("/namespaces/"+strconv.Itoa(i)))
			}
			r.params.Namespaces = append(r.params.Namespaces, auth.NamespaceID(id))
		}
	}
	if made := b.CreateNamespace; made != nil {
		r.params.CreateNamespace = &auth.NewNamespace{Name: text0(made.Name), KeyScope: text0(made.KeyScope)}
	}
	if b.ExpiresAt != nil {
		at, ok := parseTime(*b.ExpiresAt)
		if !ok {
			faults = append(faults, problem.Field{Pointer: "/expires_at", Reason: "must be a time such as 2027-01-31T00:00:00Z (RFC 3339)"})
		}
		r.params.ExpiresAt = &at
	}
	if len(faults) > 0 {
		return sortedFaults(faults)
	}
	return nil
}

func noNamespace(pointer string) problem.Field {
	return problem.Field{Pointer: pointer, Reason: "the tenant has no such namespace"}
}

func text0(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (a *API) issueCredential(ctx context.Context, caller auth.Caller, req issueRequest) (adminAnswer, error) {
	credential, key, err := a.admin.Credentials.By(caller.Actor()).Issue(ctx, caller.Tenant, req.params)
	return issued(credential, key), err
}

// defaultOverlap is what a rotation that says nothing gets: a key that is in
// use somewhere goes on until tomorrow.
const defaultOverlap = 24 * time.Hour

// rotateRequest is POST /v1/credentials/{id}/rotate.
type rotateRequest struct {
	id      auth.CredentialID
	overlap time.Duration
}

func (r *rotateRequest) decode(x *exchange) error {
	r.id, r.overlap = x.credentialID(), defaultOverlap
	var b struct {
		OverlapSeconds *wholeNumber `json:"overlap_seconds"`
	}
	if len(x.body) == 0 {
		return nil
	}
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	if d := duration(b.OverlapSeconds); d != nil {
		r.overlap = *d
	}
	return nil
}

func (a *API) rotateCredential(ctx context.Context, caller auth.Caller, req rotateRequest) (adminAnswer, error) {
	credential, key, err := a.admin.Credentials.By(caller.Actor()).RotateWithOverlap(ctx, caller.Tenant, req.id, req.overlap)
	return issued(credential, key), err
}

// revokeRequest is DELETE /v1/credentials/{id}.
type revokeRequest struct{ id auth.CredentialID }

func (r *revokeRequest) decode(x *exchange) error {
	r.id = x.credentialID()
	return nil
}

// credentialID is the one in the path; no credential has the empty one, which
// stands for what cannot be an id.
func (x *exchange) credentialID() auth.CredentialID {
	id, _ := auth.ParseCredentialID(x.pathValue("id"))
	return id
}

func (a *API) revokeCredential(ctx context.Context, caller auth.Caller, req revokeRequest) (noContent, error) {
	return noContent{}, a.admin.Credentials.By(caller.Actor()).Revoke(ctx, caller.Tenant, req.id)
}

type namespaceBody struct {
	ID       string           `json:"id"`
	Name     string           `json:"name"`
	KeyScope tenants.KeyScope `json:"key_scope"`
}

func namespaceBodyOf(n tenants.Namespace) namespaceBody {
	return namespaceBody{n.ID.String(), n.Name, n.KeyScope}
}

func (a *API) listNamespaces(ctx context.Context, caller auth.Caller, _ nothing) (adminAnswer, error) {
	list, err := a.admin.Tenants.Namespaces(ctx, caller.Tenant)
	return ok(pageOf(list, namespaceBodyOf)), err
}

// namespaceRequest is POST /v1/namespaces and PATCH /v1/namespaces/{id}.
type namespaceRequest struct {
	id       string
	name     *string
	keyScope *string
}

func (r *namespaceRequest) decode(x *exchange) error {
	r.id = x.pathValue("id")
	var b struct {
		Name     *string `json:"name"`
		KeyScope *string `json:"key_scope"`
	}
	err := decodeJSON(x.body, &b)
	r.name, r.keyScope = b.Name, b.KeyScope
	return err
}

func (a *API) createNamespace(ctx context.Context, caller auth.Caller, req namespaceRequest) (adminAnswer, error) {
	if req.keyScope != nil && *req.keyScope == "" {
		return adminAnswer{}, problem.Invalid(problem.Field{Pointer: "/key_scope", Reason: "operation or namespace"})
	}
	made, err := a.admin.Tenants.By(caller).CreateNamespace(ctx, caller.Tenant, tenants.NamespaceParams{
		Name: text0(req.name), KeyScope: tenants.KeyScope(text0(req.keyScope)),
	})
	return adminAnswer{status: http.StatusCreated, value: namespaceBodyOf(made)}, err
}

func (a *API) renameNamespace(ctx context.Context, caller auth.Caller, req namespaceRequest) (adminAnswer, error) {
	raw, known := parseUUID(req.id)
	id := auth.NamespaceID(raw)
	if !known {
		id = auth.NamespaceID{}
	}
	if req.keyScope != nil {
		now, err := a.admin.Tenants.Namespace(ctx, caller.Tenant, id)
		if err != nil {
			return adminAnswer{}, err
		}
		if *req.keyScope != string(now.KeyScope) {
			return adminAnswer{}, problem.New(problem.Immutable, "The key_scope of a namespace is chosen when it is made: keys that are stored would change their identity. Make another namespace.")
		}
	}
	renamed, err := a.admin.Tenants.By(caller).RenameNamespace(ctx, caller.Tenant, id, text0(req.name))
	return ok(namespaceBodyOf(renamed)), err
}
