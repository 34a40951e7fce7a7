package keys

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// held is a record together with the fence that its caller's token proves.
type held struct {
	ref
	fence    int64
	by       auth.Caller
	snapshot *tenants.Snapshot
}

// Renew makes the lease end leaseSeconds from now (nil: the policy's), also
// where it has lapsed or the record is unknown, as long as nobody else has
// acquired it. Kinds: invalid_request, not_found, lease_lost,
// already_completed, unavailable, internal.
func (s *Service) Renew(ctx context.Context, caller auth.Caller, id, token string, leaseSeconds *int64) (Lease, error) {
	v := newValidation()
	seconds := v.seconds("/lease_seconds", leaseSeconds, 1, MaxLeaseSeconds, 0)
	if err := v.problem(); err != nil {
		return Lease{}, err
	}
	h, err := s.holdFor(ctx, caller, id, token)
	if err != nil {
		return Lease{}, err
	}
	if leaseSeconds == nil {
		policy, err := s.policyOf(ctx, h)
		if err != nil {
			return Lease{}, err
		}
		seconds = int(policy.Lease.Seconds())
	}
	after, err := s.change(ctx, renewal(h, seconds), errLeaseLost)
	r := row{fence: h.fence, leaseExpiresAt: after.leaseExpiresAt, hold: after.hold}
	return r.lease(h.snapshot, h.id), err
}

// Release says that the work did not happen and may be tried again at once.
// A record that is already open stays as it is. Kinds as for Renew.
func (s *Service) Release(ctx context.Context, caller auth.Caller, id, token string) error {
	h, err := s.holdFor(ctx, caller, id, token)
	if err != nil {
		return err
	}
	after, err := s.change(ctx, releasing(h), func() error { return nil })
	s.observeLeased(h, EndReleased, after)
	return err
}

// DeclareUnknown says that the outcome is not known and ends the lease: the
// record holds, whatever its policy. Kinds as for Renew.
func (s *Service) DeclareUnknown(ctx context.Context, caller auth.Caller, id, token string) error {
	h, err := s.holdFor(ctx, caller, id, token)
	if err != nil {
		return err
	}
	after, err := s.change(ctx, declaringUnknown(h), errLeaseLost)
	s.observeLeased(h, EndDeclaredUnknown, after)
	return err
}

// SetRecoveryPoint remembers how far this attempt came, for the one that takes
// over. data is kept as sent. Kinds as for Renew.
func (s *Service) SetRecoveryPoint(ctx context.Context, caller auth.Caller, id, token string, name *string, data jsontext.Value) error {
	v := newValidation()
	if !made(text(name), 1, MaxRecoveryNameBytes, isPrintable) {
		v.fail("/name", "is required: 1 to %d printable ASCII characters", MaxRecoveryNameBytes)
	}
	if len(data) == 0 {
		v.fail("/data", "is required: any JSON value, null included")
	}
	if len(data) > MaxRecoveryDataBytes {
		v.fail("/data", "has %d bytes; at most %d", len(data), MaxRecoveryDataBytes)
	}
	if err := v.problem(); err != nil {
		return err
	}
	h, err := s.holdFor(ctx, caller, id, token)
	if err != nil {
		return err
	}
	_, err = s.change(ctx, settingRecoveryPoint(h, *name, data), errLeaseLost)
	return err
}

// holdFor is hold under a snapshot of its own.
func (s *Service) holdFor(ctx context.Context, caller auth.Caller, id, token string) (held, error) {
	snapshot, err := s.tenants.Snapshot(ctx, caller.Tenant, caller.Namespace)
	if err != nil {
		return held{}, err
	}
	return s.hold(ctx, caller, snapshot, id, LeaseToken(token))
}

// hold reads id and token. A token that was never issued for the id is
// lease_lost where the record exists and not_found where it does not.
func (s *Service) hold(ctx context.Context, caller auth.Caller, snapshot *tenants.Snapshot, idText string, token LeaseToken) (held, error) {
	id, ok := ParseID(idText)
	if !ok {
		return held{}, errNotFound()
	}
	h := held{ref: ref{tenant: caller.Tenant, namespace: caller.Namespace, id: id}, by: caller, snapshot: snapshot}
	if h.fence, ok = token.fenceOf(snapshot, id); ok {
		return h, nil
	}
	if _, err := s.look(ctx, h.ref); err != nil {
		return held{}, err
	}
	return held{}, errLeaseLost()
}

// look reads a record that must exist: not_found where it is absent, expired,
// or another namespace's or tenant's.
func (s *Service) look(ctx context.Context, at ref) (*row, error) {
	r, err := s.reads.do(ctx, at)
	if err != nil {
		return nil, translate(err)
	}
	if r == nil || r.expired() {
		return nil, errNotFound()
	}
	return r, nil
}

// policyOf is the policy of the record's operation. Only where the tenant has
// policies per operation does the operation have to be read.
func (s *Service) policyOf(ctx context.Context, h held) (tenants.Policy, error) {
	if !h.snapshot.PerOperation() {
		return h.snapshot.Policy(h.namespace, ""), nil
	}
	r, err := s.look(ctx, h.ref)
	if err != nil {
		return tenants.Policy{}, err
	}
	return h.snapshot.Policy(h.namespace, r.operation), nil
}

// change runs a lease call by its batch. Where it changes no row, the row says
// why: the table of the wire contract, section 4. whereOpen is the answer of
// this call on an open record; everywhere else all lease calls answer alike.
func (s *Service) change(ctx context.Context, call *leaseCall, whereOpen func() error) (leased, error) {
	for range maxRounds {
		after, err := ask(ctx, s, s.leases, call, call.by.DatabaseNanos)
		if err != nil {
			return leased{}, translate(err)
		}
		if after.changed {
			s.touched(call.ref)
			return after, nil
		}
		r, err := s.look(ctx, call.ref)
		switch {
		case err != nil:
			return leased{}, err
		case r.fence != call.fence:
			return leased{}, errLeaseLost()
		case r.state == storedCompleted:
			return leased{}, errAlreadyCompleted()
		case r.state == storedOpen:
			return leased{}, whereOpen()
		}
	}
	return leased{}, errStorm()
}

// observeLeased tells of an attempt that a lease call ended; one that changed
// nothing ended none.
func (s *Service) observeLeased(h held, how End, after leased) {
	if after.changed {
		s.observeEnd(h.by, EndObservation{How: how, ID: h.id, Namespace: h.namespace, Operation: after.operation, Caller: after.caller, Key: after.key})
	}
}

// errNotFound is the one answer for every record that the caller cannot see.
func errNotFound() error {
	return problem.New(problem.NotFound, "There is no such record for this credential: it never existed, its retention has ended, or it belongs elsewhere.")
}
