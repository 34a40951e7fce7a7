//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

const (
	demoTenantName = "Demo"
	demoNamespace  = "live"
	testNamespace  = "test"

	// demoHoldOperation is the one operation whose lapsed attempts are held.
	demoHoldOperation = "POST /v1/payouts"

	// demoMinRetention lets somebody watch a record expire.
	demoMinRetention = time.Minute
)

// demoTenantID is the same in every database: a lost credentials.json must not
// make a second tenant.
func demoTenantID() auth.TenantID {
	return auth.TenantID(uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://onceward.example/tenants/demo")))
}

// demo makes the demo tenant and looks after its credentials.
type demo struct {
	tenants       *tenants.Service
	credentials   *auth.Credentials
	authenticator *auth.Authenticator
}

func newDemo(pool *pgxpool.Pool) (*demo, error) {
	service, err := tenants.New(pool)
	if err != nil {
		return nil, fmt.Errorf("set up tenants: %w", err)
	}
	authenticator, err := auth.NewAuthenticator(pool)
	if err != nil {
		return nil, fmt.Errorf("set up authentication: %w", err)
	}
	return &demo{tenants: service, credentials: auth.NewCredentials(pool, authenticator.Forget), authenticator: authenticator}, nil
}

// ensureTenant makes the tenant, its namespaces and its policy where they are
// missing. What somebody has changed since stays as it is. first is true until
// a run has issued a credential.
func (d *demo) ensureTenant(ctx context.Context) (tenant tenants.Tenant, first bool, err error) {
	tenant, err = d.tenants.Tenant(ctx, demoTenantID())
	if errors.Is(err, problem.NotFound) {
		tenant, err = d.tenants.Create(ctx, tenants.CreateParams{
			ID: demoTenantID(), Name: demoTenantName, MinRetention: demoMinRetention,
		})
	}
	if err != nil {
		return tenants.Tenant{}, false, fmt.Errorf("make the demo tenant: %w", err)
	}
	if tenant.State == tenants.StateDeleting {
		return tenants.Tenant{}, false, errors.New("the demo tenant is being deleted: wait until it is gone, or run `make reset` to start anew")
	}
	if err := d.ensureNamespaces(ctx, tenant.ID); err != nil {
		return tenants.Tenant{}, false, err
	}
	issued, err := d.credentials.List(ctx, tenant.ID)
	if err != nil {
		return tenants.Tenant{}, false, fmt.Errorf("list the demo credentials: %w", err)
	}
	// Credentials come last: where there is none, nobody has been able to
	// change the policy, and a first run may have ended half-way.
	if len(issued) == 0 {
		hold := tenants.OnLeaseExpiryHold
		if _, err := d.tenants.SetPolicy(ctx, tenant.ID, tenants.Override{Operation: demoHoldOperation, OnLeaseExpiry: &hold}); err != nil {
			return tenants.Tenant{}, false, fmt.Errorf("set the policy of %s: %w", demoHoldOperation, err)
		}
	}
	return tenant, len(issued) == 0, nil
}

func (d *demo) ensureNamespaces(ctx context.Context, tenant auth.TenantID) error {
	have, err := d.tenants.Namespaces(ctx, tenant)
	if err != nil {
		return fmt.Errorf("list the demo namespaces: %w", err)
	}
	for _, name := range []string{demoNamespace, testNamespace} {
		if slices.ContainsFunc(have, func(n tenants.Namespace) bool { return n.Name == name }) {
			continue
		}
		if _, err := d.tenants.CreateNamespace(ctx, tenant, tenants.NamespaceParams{Name: name}); err != nil {
			return fmt.Errorf("make the demo namespace %s: %w", name, err)
		}
	}
	return nil
}

// namespaceNamed is a namespace of the tenant by its name.
func (d *demo) namespaceNamed(ctx context.Context, tenant auth.TenantID, name string) (tenants.Namespace, error) {
	return d.namespace(ctx, tenant, func(n tenants.Namespace) bool { return n.Name == name })
}

func (d *demo) namespace(ctx context.Context, tenant auth.TenantID, is func(tenants.Namespace) bool) (tenants.Namespace, error) {
	have, err := d.tenants.Namespaces(ctx, tenant)
	if err != nil {
		return tenants.Namespace{}, fmt.Errorf("list the demo namespaces: %w", err)
	}
	i := slices.IndexFunc(have, is)
	if i < 0 {
		return tenants.Namespace{}, errors.New("a namespace of the demo tenant is gone: run `make reset` to start anew")
	}
	return have[i], nil
}
