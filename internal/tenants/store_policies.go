package tenants

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

// policyChange edits p.after; what it returns as an error undoes everything.
type policyChange func(ctx context.Context, tx pgx.Tx, p *policies) error

// policyChanging is one change of policy with all that it needs.
type policyChanging struct {
	pre        Precondition
	entry      audit.Entry
	mayShorten bool
	change     policyChange
}

// ChangePolicies runs a change on the tenant's rows and raises its policy
// version, in one transaction under the lock of the tenant's row. The order of
// its refusals is the wire contract's: values, absence, precondition. Another
// tenant's namespace is as one that does not exist; where there is no such
// tenant it is problem.NotFound.
func (s *store) ChangePolicies(ctx context.Context, tenant auth.TenantID, c policyChanging) (Policies, error) {
	var after Policies
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) (err error) {
		after, err = changePolicies(ctx, tx, tenant, c)
		return err
	})
	if err != nil {
		return Policies{}, failure("change the policy", err)
	}
	return after, nil
}

func changePolicies(ctx context.Context, tx pgx.Tx, tenant auth.TenantID, c policyChanging) (Policies, error) {
	p, err := lockPolicies(ctx, tx, tenant)
	if err != nil {
		return Policies{}, err
	}
	if err := c.change(ctx, tx, p); err != nil {
		return Policies{}, err
	}
	if err := c.pre.check(p.tenant.PolicyVersion); err != nil {
		return Policies{}, err
	}
	if !c.mayShorten && p.shortens() {
		return Policies{}, errReauthenticate()
	}
	changed := p.changed()
	for _, key := range changed {
		if row, kept := p.after[key]; kept {
			err = upsertOverride(ctx, tx, tenant, row)
		} else {
			err = deleteOverride(ctx, tx, tenant, key)
		}
		if err != nil {
			return Policies{}, err
		}
	}
	if p.tenant.PolicyVersion, err = raisePolicyVersion(ctx, tx, tenant); err != nil {
		return Policies{}, err
	}
	c.entry.Tenant, c.entry.Object = uuid.UUID(tenant), audit.Object{Kind: "policy"}
	c.entry.Before, c.entry.After = auditedRows(p.before, changed), auditedRows(p.after, changed)
	return p.shown(), audit.Write(ctx, tx, c.entry)
}

// auditedRows are the rows under keys as the trail keeps them.
func auditedRows(rows map[overrideKey]Override, keys []overrideKey) []overrideJSON {
	list := []overrideJSON{}
	for _, key := range keys {
		if row, has := rows[key]; has {
			list = append(list, jsonOf(row))
		}
	}
	return list
}

func jsonOf(o Override) overrideJSON {
	return overrideJSON{
		Namespace: uuid.UUID(o.Namespace), Operation: o.Operation, RetentionSeconds: inSeconds(o.Retention), LeaseSeconds: inSeconds(o.Lease),
		OnMismatch: o.OnMismatch, MismatchStatus: o.MismatchStatus, OnLeaseExpiry: o.OnLeaseExpiry, StoreErrors: o.StoreErrors,
		StoreBody: o.StoreBody, StripHeaders: o.StripHeaders, KeepHeaders: o.KeepHeaders, IgnorePointers: o.IgnorePointers,
	}
}

// lockPolicies reads the tenant's policy rows and keeps them as they are until
// the end of tx: whoever changes them locks the tenant first.
func lockPolicies(ctx context.Context, tx pgx.Tx, id auth.TenantID) (*policies, error) {
	tenant, err := lockTenant(ctx, tx, id)
	if err != nil {
		return nil, err
	}
	return readPolicies(ctx, tx, tenant)
}

func readPolicies(ctx context.Context, from queryer, tenant Tenant) (*policies, error) {
	const query = `
		select namespace_id, operation, retention_seconds, lease_seconds, on_mismatch, mismatch_status, on_lease_expiry,
		       store_errors, store_body, strip_headers, keep_headers, ignore_pointers
		from policies
		where tenant_id = @tenant`
	rows, err := from.Query(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant.ID)})
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Override, error) {
		var o overrideJSON
		err := row.Scan(&o.Namespace, &o.Operation, &o.RetentionSeconds, &o.LeaseSeconds, &o.OnMismatch, &o.MismatchStatus, &o.OnLeaseExpiry,
			&o.StoreErrors, &o.StoreBody, &o.StripHeaders, &o.KeepHeaders, &o.IgnorePointers)
		return o.override(), err
	})
	if err != nil {
		return nil, err
	}
	p := &policies{tenant: tenant, before: make(map[overrideKey]Override, len(list))}
	for _, row := range list {
		p.before[overrideKey{row.Namespace, row.Operation}] = row
	}
	p.after = maps.Clone(p.before)
	return p, nil
}

// shown is what an administrator sees of the rows as they are to be.
func (p *policies) shown() Policies {
	shown := Policies{
		Version: p.tenant.PolicyVersion, Default: p.after[overrideKey{}],
		Defaults: snapshotOf(p.after).Policy(auth.NamespaceID{}, ""), Overrides: []Override{},
	}
	for key, row := range p.after {
		if key.operation != "" {
			shown.Overrides = append(shown.Overrides, row)
		}
	}
	slices.SortFunc(shown.Overrides, func(a, b Override) int {
		if c := strings.Compare(a.Operation, b.Operation); c != 0 {
			return c
		}
		return strings.Compare(a.Namespace.String(), b.Namespace.String())
	})
	return shown
}

// Policies reads the tenant's policy rows; problem.NotFound where there is no
// such tenant.
func (s *store) Policies(ctx context.Context, tenant auth.TenantID) (Policies, error) {
	var shown Policies
	err := s.read(ctx, tenant, func(_ pgx.Tx, p *policies) error {
		shown = p.shown()
		return nil
	})
	return shown, err
}

// read looks at the tenant's rows as they are at one moment.
func (s *store) read(ctx context.Context, id auth.TenantID, look func(tx pgx.Tx, p *policies) error) error {
	err := postgres.InTx(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set transaction isolation level repeatable read, read only"); err != nil {
			return err
		}
		tenant, err := oneTenant(ctx, tx, sqlTenant, pgx.NamedArgs{"tenant": uuid.UUID(id)})
		if err != nil {
			return err
		}
		p, err := readPolicies(ctx, tx, tenant)
		if err != nil {
			return err
		}
		return look(tx, p)
	})
	if err != nil {
		return failure("read the policy", err)
	}
	return nil
}

// PutOverride replaces a policy row of the tenant and raises its policy
// version, in one transaction. It returns problem.InvalidRequest for a
// retention outside the tenant's limits and for a namespace that the tenant
// does not have, and problem.NotFound where there is no such tenant.
func (s *store) PutOverride(ctx context.Context, tenant auth.TenantID, row Override, entry audit.Entry) (version int64, err error) {
	after, err := s.ChangePolicies(ctx, tenant, policyChanging{
		pre: Precondition{unconditional: true}, entry: entry, mayShorten: true,
		change: func(ctx context.Context, tx pgx.Tx, p *policies) error {
			if err := p.inLimits("/retention_seconds", row.Retention); err != nil {
				return err
			}
			if err := mustHaveNamespace(ctx, tx, tenant, row.Namespace); err != nil {
				return err
			}
			p.after[overrideKey{row.Namespace, row.Operation}] = row
			return nil
		},
	})
	return after.Version, err
}

func raisePolicyVersion(ctx context.Context, tx pgx.Tx, tenant auth.TenantID) (version int64, err error) {
	const query = `
		update tenants
		set policy_version = policy_version + 1
		where tenant_id = @tenant
		returning policy_version`
	err = tx.QueryRow(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant)}).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		err = tenantNotFound()
	}
	return version, err
}

// mustHaveNamespace refuses a namespace that the tenant does not have; zero is
// every namespace.
func mustHaveNamespace(ctx context.Context, tx pgx.Tx, tenant auth.TenantID, namespace auth.NamespaceID) error {
	const query = `
		select exists (select from namespaces where tenant_id = @tenant and namespace_id = @namespace)`
	if namespace == (auth.NamespaceID{}) {
		return nil
	}
	var has bool
	if err := tx.QueryRow(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant), "namespace": uuid.UUID(namespace)}).Scan(&has); err != nil {
		return err
	}
	if !has {
		return problem.Invalid(problem.Field{Pointer: "/namespace", Reason: "the tenant has no such namespace"})
	}
	return nil
}

func deleteOverride(ctx context.Context, tx pgx.Tx, tenant auth.TenantID, key overrideKey) error {
	const query = `
		delete from policies
		where tenant_id = @tenant
		  and namespace_id = @namespace
		  and operation = @operation`
	_, err := tx.Exec(ctx, query, pgx.NamedArgs{"tenant": uuid.UUID(tenant), "namespace": uuid.UUID(key.namespace), "operation": key.operation})
	return err
}

func upsertOverride(ctx context.Context, tx pgx.Tx, tenant auth.TenantID, row Override) error {
	const query = `
		insert into policies (tenant_id, namespace_id, operation, retention_seconds, lease_seconds, on_mismatch, mismatch_status,
		                      on_lease_expiry, store_errors, store_body, strip_headers, keep_headers, ignore_pointers)
		values (@tenant, @namespace, @operation, @retention_seconds, @lease_seconds, @on_mismatch, @mismatch_status,
		        @on_lease_expiry, @store_errors, @store_body, @strip_headers, @keep_headers, @ignore_pointers)
		on conflict (tenant_id, namespace_id, operation) do update
		set retention_seconds = excluded.retention_seconds,
		    lease_seconds     = excluded.lease_seconds,
		    on_mismatch       = excluded.on_mismatch,
		    mismatch_status   = excluded.mismatch_status,
		    on_lease_expiry   = excluded.on_lease_expiry,
		    store_errors      = excluded.store_errors,
		    store_body        = excluded.store_body,
		    strip_headers     = excluded.strip_headers,
		    keep_headers      = excluded.keep_headers,
		    ignore_pointers   = excluded.ignore_pointers`
	_, err := tx.Exec(ctx, query, pgx.NamedArgs{
		"tenant":            uuid.UUID(tenant),
		"namespace":         uuid.UUID(row.Namespace),
		"operation":         row.Operation,
		"retention_seconds": inSeconds(row.Retention),
		"lease_seconds":     inSeconds(row.Lease),
		"on_mismatch":       row.OnMismatch,
		"mismatch_status":   row.MismatchStatus,
		"on_lease_expiry":   row.OnLeaseExpiry,
		"store_errors":      row.StoreErrors,
		"store_body":        row.StoreBody,
		"strip_headers":     row.StripHeaders,
		"keep_headers":      row.KeepHeaders,
		"ignore_pointers":   row.IgnorePointers,
	})
	if err != nil {
		return fmt.Errorf("store a policy row: %w", err)
	}
	return nil
}

func wholeSecondsOf(d time.Duration) int64 { return int64(d / time.Second) }
