//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

const (
	// demoNamePrefix and the role make the name of a demo credential, by which
	// the one to rotate is found.
	demoNamePrefix = "demo-"

	operatorTokenBytes = 32
)

func demoRoles() []auth.Role {
	return []auth.Role{auth.RoleService, auth.RoleOps, auth.RoleResolver, auth.RoleAdmin}
}

// secrets is .onceward/credentials.json: what the database cannot tell again.
type secrets struct {
	OperatorToken string            `json:"operator_token"`
	Credentials   map[string]string `json:"credentials"` // API keys by role
}

// readSecrets is what the last run kept; nothing, where that is lost or
// damaged. It fails only where there is something that it may not read.
func readSecrets(path string) (secrets, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return secrets{}, nil
	}
	if err != nil {
		return secrets{}, fmt.Errorf("read the demo credentials: %w", err)
	}
	var kept secrets
	if err := json.Unmarshal(raw, &kept); err != nil {
		return secrets{}, nil //nolint:nilerr // what cannot be read is replaced, and the caller says so
	}
	return kept, nil
}

// access is a demo tenant that can be used.
type access struct {
	secrets
	tenant    tenants.Tenant
	namespace tenants.Namespace // of the service credential
	first     bool              // there was no credential before
	renewed   []string          // roles whose key had to be replaced
	link      string            // signs the admin in at the dashboard, once
}

// ensure makes sure of the tenant and of one key for each role. A kept key that
// is still good stays; another is rotated, which keeps its namespace, or issued
// where there is none to rotate.
func (d *demo) ensure(ctx context.Context, kept secrets) (access, error) {
	tenant, first, err := d.ensureTenant(ctx)
	if err != nil {
		return access{}, err
	}
	now := access{secrets: kept, tenant: tenant, first: first}
	now.Credentials = map[string]string{}
	for _, role := range demoRoles() {
		key := kept.Credentials[string(role)]
		good, err := d.isGood(ctx, key, role)
		if err == nil && !good {
			key, err = d.newKey(ctx, role)
			if !first {
				now.renewed = append(now.renewed, string(role))
			}
		}
		if err != nil {
			return access{}, fmt.Errorf("make the demo credential for the role %s: %w", role, err)
		}
		now.Credentials[string(role)] = key
	}
	if now.OperatorToken == "" {
		now.OperatorToken = newOperatorToken()
	}
	now.namespace, err = d.namespaceOf(ctx, now.Credentials[string(auth.RoleService)])
	return now, err
}

// isGood finds out by using it whether a kept key still is what it was.
func (d *demo) isGood(ctx context.Context, key string, role auth.Role) (bool, error) {
	caller, err := d.authenticator.Authenticate(ctx, key)
	if errors.Is(err, problem.Unauthenticated) {
		return false, nil
	}
	return err == nil && caller.Tenant == demoTenantID() && caller.Role == role, err
}

// newKey rotates the demo credential of the role, or issues it where the tenant
// has none.
func (d *demo) newKey(ctx context.Context, role auth.Role) (string, error) {
	name := demoNamePrefix + string(role)
	issued, err := d.credentials.List(ctx, demoTenantID())
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(issued, func(c auth.Credential) bool { return c.Name == name && c.RevokedAt == nil })
	if i >= 0 {
		_, key, err := d.credentials.Rotate(ctx, demoTenantID(), issued[i].ID)
		return key.Reveal(), err
	}
	params := auth.IssueParams{Name: name, Role: role}
	if role == auth.RoleService {
		live, err := d.namespaceNamed(ctx, demoTenantID(), demoNamespace)
		if err != nil {
			return "", err
		}
		params.Namespace = live.ID
	}
	_, key, err := d.credentials.Issue(ctx, demoTenantID(), params)
	return key.Reveal(), err
}

// namespaceOf is where a service key's records are.
func (d *demo) namespaceOf(ctx context.Context, key string) (tenants.Namespace, error) {
	caller, err := d.authenticator.Authenticate(ctx, key)
	if err != nil {
		return tenants.Namespace{}, fmt.Errorf("use the demo credential: %w", err)
	}
	return d.namespace(ctx, caller.Tenant, func(n tenants.Namespace) bool { return n.ID == caller.Namespace })
}

func newOperatorToken() string {
	raw := make([]byte, operatorTokenBytes)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(raw)
}

// say tells what became of the demo tenant, without a secret.
func (a access) say(out *printer, done func(format string, args ...any), path string) {
	if a.first {
		done("demo tenant made, its keys are in %s,", path)
	} else {
		done("demo tenant as the last run left it,")
	}
	if len(a.renewed) > 0 {
		out.note("%s was lost or does not match the database: new keys were made for %s, in the same namespaces, and the old ones are refused within 5 s",
			path, strings.Join(a.renewed, ", "))
	}
	if a.tenant.State == tenants.StateSuspended {
		out.note("the demo tenant is suspended (%s): begins are refused until it is reactivated", a.tenant.SuspendedReason)
	}
}
