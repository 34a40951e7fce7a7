package tenants

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// NamespaceParams describes a namespace to be made.
type NamespaceParams struct {
	Name     string   // 1 to 100 characters, unique in the tenant
	KeyScope KeyScope // never changes afterwards; empty is KeyScopeOperation
}

// CreateNamespace makes a namespace of the tenant. It returns
// problem.InvalidRequest, problem.NameTaken, and problem.NotFound where there
// is no such tenant.
func (s *Service) CreateNamespace(ctx context.Context, tenant auth.TenantID, params NamespaceParams) (Namespace, error) {
	if params.KeyScope == "" {
		params.KeyScope = KeyScopeOperation
	}
	var v fieldErrors
	v.name("/name", params.Name)
	if params.KeyScope != KeyScopeOperation && params.KeyScope != KeyScopeNamespace {
		v.add("/key_scope", "operation or namespace")
	}
	if err := v.err(); err != nil {
		return Namespace{}, err
	}
	id, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return Namespace{}, problem.Internal(fmt.Errorf("make a namespace id: %w", err))
	}
	namespace := Namespace{ID: auth.NamespaceID(id), Name: params.Name, KeyScope: params.KeyScope}
	if err := s.rows.InsertNamespace(ctx, tenant, namespace, s.entry("namespace.create")); err != nil {
		return Namespace{}, err
	}
	s.snapshots.Forget(tenant)
	return namespace, nil
}

// Namespaces lists the tenant's namespaces by name. A tenant that does not
// exist has none.
func (s *Service) Namespaces(ctx context.Context, tenant auth.TenantID) ([]Namespace, error) {
	return s.rows.Namespaces(ctx, tenant)
}

// RenameNamespace gives a namespace of the tenant another name; its key_scope
// never changes. It returns problem.InvalidRequest, problem.NameTaken, and
// problem.NotFound where the tenant has no such namespace.
func (s *Service) RenameNamespace(ctx context.Context, tenant auth.TenantID, id auth.NamespaceID, name string) (Namespace, error) {
	var v fieldErrors
	v.name("/name", name)
	if err := v.err(); err != nil {
		return Namespace{}, err
	}
	namespace, err := s.rows.RenameNamespace(ctx, tenant, id, name, s.entry("namespace.rename"))
	s.snapshots.Forget(tenant)
	return namespace, err
}

// Namespace returns one namespace of the tenant; problem.NotFound where it has
// none such.
func (s *Service) Namespace(ctx context.Context, tenant auth.TenantID, id auth.NamespaceID) (Namespace, error) {
	list, err := s.rows.Namespaces(ctx, tenant)
	if err != nil {
		return Namespace{}, err
	}
	for _, n := range list {
		if n.ID == id {
			return n, nil
		}
	}
	return Namespace{}, namespaceNotFound()
}

func namespaceNotFound() error {
	return problem.New(problem.NotFound, "The tenant has no such namespace.")
}
