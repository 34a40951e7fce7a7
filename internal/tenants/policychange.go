package tenants

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// Precondition is what the caller of a change says it has read: the versions
// that If-Match named. The zero value is a caller that said nothing, which is
// problem.PreconditionRequired; versions that are not the present one are
// problem.PreconditionFailed.
type Precondition struct {
	Given    bool
	Versions []int64
	// unconditional is for changes that nobody has read before.
	unconditional bool
}

func (p Precondition) check(version int64) error {
	switch {
	case p.unconditional:
		return nil
	case !p.Given:
		return problem.New(problem.PreconditionRequired, "Send the header If-Match with the ETag of the policy as you read it, so that two administrators cannot overwrite each other.")
	case !slices.Contains(p.Versions, version):
		return problem.New(problem.PreconditionFailed, "The policy has changed since you read it: its version is %d now. Read it again, and send its ETag in If-Match.", version)
	}
	return nil
}

// policies are all policy rows of a tenant while they are changed.
type policies struct {
	tenant Tenant
	before map[overrideKey]Override
	after  map[overrideKey]Override
}

func (p *policies) put(row Override) {
	key := overrideKey{row.Namespace, row.Operation}
	if row.empty() && key != (overrideKey{}) {
		delete(p.after, key)
		return
	}
	p.after[key] = row
}

// changed are the keys of the rows that differ, in order.
func (p *policies) changed() []overrideKey {
	keys := make(map[overrideKey]bool)
	for key, row := range p.after {
		if old, had := p.before[key]; !had || !old.equal(row) {
			keys[key] = true
		}
	}
	for key := range p.before {
		if _, has := p.after[key]; !has {
			keys[key] = true
		}
	}
	return slices.SortedFunc(maps.Keys(keys), func(a, b overrideKey) int {
		return strings.Compare(a.operation+a.namespace.String(), b.operation+b.namespace.String())
	})
}

// shortens says whether any operation would keep its records for less time.
func (p *policies) shortens() bool {
	before, after := snapshotOf(p.before), snapshotOf(p.after)
	for _, rows := range []map[overrideKey]Override{p.before, p.after, {{}: {}}} {
		for key := range rows {
			if after.Policy(key.namespace, key.operation).Retention < before.Policy(key.namespace, key.operation).Retention {
				return true
			}
		}
	}
	return false
}

func snapshotOf(rows map[overrideKey]Override) *Snapshot {
	return NewSnapshot(Snapshot{}, nil, slices.Collect(maps.Values(rows)))
}

// inLimits refuses a retention outside the tenant's limits.
func (p *policies) inLimits(pointer string, retention *time.Duration) error {
	if retention == nil || *retention >= p.tenant.MinRetention && *retention <= p.tenant.MaxRetention {
		return nil
	}
	return problem.Invalid(problem.Field{
		Pointer: pointer,
		Reason:  fmt.Sprintf("the tenant allows %d to %d seconds", int64(p.tenant.MinRetention/time.Second), int64(p.tenant.MaxRetention/time.Second)),
	})
}

func (o Override) empty() bool {
	return o.equal(Override{Namespace: o.Namespace, Operation: o.Operation})
}

func (o Override) equal(other Override) bool {
	return o.Namespace == other.Namespace && o.Operation == other.Operation &&
		same(o.Retention, other.Retention) && same(o.Lease, other.Lease) && same(o.OnMismatch, other.OnMismatch) &&
		same(o.MismatchStatus, other.MismatchStatus) && same(o.OnLeaseExpiry, other.OnLeaseExpiry) &&
		same(o.StoreErrors, other.StoreErrors) && same(o.StoreBody, other.StoreBody) &&
		sameList(o.StripHeaders, other.StripHeaders) && sameList(o.KeepHeaders, other.KeepHeaders) && sameList(o.IgnorePointers, other.IgnorePointers)
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

func sameList(a, b *[]string) bool {
	return a == nil && b == nil || a != nil && b != nil && slices.Equal(*a, *b)
}

// Policies are a tenant's policy as its administrators see it.
type Policies struct {
	Version  int64    // the ETag
	Defaults Policy   // what holds where no override says otherwise
	Default  Override // the tenant's own row: the members that it has set
	// Overrides are the rows of operations, by operation and namespace.
	Overrides []Override
}

// Policies reads the tenant's policy from the database.
func (s *Service) Policies(ctx context.Context, tenant auth.TenantID) (Policies, error) {
	return s.rows.Policies(ctx, tenant)
}

// PatchDefaults changes the members of the tenant's default policy that patch
// sets, and leaves the others. Kinds: invalid_request, not_found,
// precondition_required, precondition_failed, reauthenticate where a retention
// is shortened with less than the API key.
func (s *Service) PatchDefaults(ctx context.Context, tenant auth.TenantID, patch Override, pre Precondition) (Policies, error) {
	patch.Namespace, patch.Operation = auth.NamespaceID{}, ""
	patch = patch.lowered()
	if err := patch.validate(); err != nil {
		return Policies{}, err
	}
	return s.changePolicies(ctx, tenant, pre, "policy.change", func(_ context.Context, _ transaction, p *policies) error {
		row := p.after[overrideKey{}]
		row.overlay(patch)
		p.put(row)
		return p.inLimits("/retention_seconds", patch.Retention)
	})
}

// PutOperation replaces the overrides of one operation, in one namespace or in
// all; a member that is not set is left to the next wider row. Kinds as for
// PatchDefaults.
func (s *Service) PutOperation(ctx context.Context, tenant auth.TenantID, row Override, pre Precondition) (Policies, error) {
	row = row.lowered()
	var v fieldErrors
	if row.Operation == "" {
		v.add("/operation", "is required: the operation whose policy this is")
		return Policies{}, v.err()
	}
	if err := row.validate(); err != nil {
		return Policies{}, err
	}
	return s.changePolicies(ctx, tenant, pre, "policy.put_operation", func(ctx context.Context, tx transaction, p *policies) error {
		if err := p.inLimits("/retention_seconds", row.Retention); err != nil {
			return err
		}
		if err := mustHaveNamespace(ctx, tx, tenant, row.Namespace); err != nil {
			return err
		}
		p.after[overrideKey{row.Namespace, row.Operation}] = row // kept though it says nothing: it was put
		return nil
	})
}

// DeleteOperation takes away the overrides of one operation, in one namespace
// or (zero) those that hold in all. Where there are none it is
// problem.NotFound. Kinds else as for PatchDefaults.
func (s *Service) DeleteOperation(ctx context.Context, tenant auth.TenantID, namespace auth.NamespaceID, operation string, pre Precondition) (Policies, error) {
	return s.changePolicies(ctx, tenant, pre, "policy.delete_operation", func(_ context.Context, _ transaction, p *policies) error {
		key := overrideKey{namespace, operation}
		if _, has := p.after[key]; !has || operation == "" {
			return problem.New(problem.NotFound, "The tenant has no policy for this operation, in this namespace.")
		}
		delete(p.after, key)
		return nil
	})
}

// changePolicies runs change on the tenant's rows in one transaction.
func (s *Service) changePolicies(ctx context.Context, tenant auth.TenantID, pre Precondition, action string, change policyChange) (Policies, error) {
	after, err := s.rows.ChangePolicies(ctx, tenant, policyChanging{
		pre: pre, entry: s.entry(action), mayShorten: s.keyPresented, change: change,
	})
	// After a failure too: whether it took effect may not be known.
	s.snapshots.Forget(tenant)
	return after, err
}

func errReauthenticate() error {
	return problem.New(problem.Reauthenticate, "This call needs the API key itself, or a session in which it was presented within the last ten minutes. A token made from it is not enough.")
}

// overlay sets the members that patch sets.
func (o *Override) overlay(patch Override) {
	overlay(&o.Retention, patch.Retention)
	overlay(&o.Lease, patch.Lease)
	overlay(&o.OnMismatch, patch.OnMismatch)
	overlay(&o.MismatchStatus, patch.MismatchStatus)
	overlay(&o.OnLeaseExpiry, patch.OnLeaseExpiry)
	overlay(&o.StoreErrors, patch.StoreErrors)
	overlay(&o.StoreBody, patch.StoreBody)
	overlay(&o.StripHeaders, patch.StripHeaders)
	overlay(&o.KeepHeaders, patch.KeepHeaders)
	overlay(&o.IgnorePointers, patch.IgnorePointers)
}

func overlay[T any](to **T, from *T) {
	if from != nil {
		*to = from
	}
}

// lowered has header names as they are compared.
func (o Override) lowered() Override {
	o.StripHeaders, o.KeepHeaders = lowered(o.StripHeaders), lowered(o.KeepHeaders)
	return o
}
