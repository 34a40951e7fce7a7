package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// The actions of administration on one record.
const (
	ActionComplete = "complete"
	ActionRetry    = "retry"

	actionForget = "forget"
)

// MaxResolutions is how many resolutions one batch may have.
const MaxResolutions = 200

// ForgetRequest asks to remove a record.
type ForgetRequest struct {
	ID     string
	Fence  *int64 // as inspect showed it
	Reason string // 3 to 500 characters, audited
	Force  bool   // also while its lease is live
}

// ResolveRequest decides a record whose outcome is unknown.
type ResolveRequest struct {
	ID       string
	Fence    *int64
	Reason   string    // 3 to 500 characters, audited
	Action   string    // ActionComplete or ActionRetry
	Response *Response // of ActionComplete
	// Faults are what the decoder of Response found wrong with its values; told
	// after the size of its body, with their pointers below /response.
	Faults []problem.Field
}

// Forget removes all that is stored of a record. What stays until pruning is an
// expired row with nothing in it but a fence that has risen: a begin that was
// waiting for the row cannot come to a smaller one. It returns once no process
// serves the old answer any more. The same call again is answered as the first
// time as long as no begin has acquired the record since.
//
// Kinds: invalid_request, not_found (another tenant's too), record_changed,
// lease_live, unavailable, internal.
func (s *Service) Forget(ctx context.Context, caller auth.Caller, req ForgetRequest) error {
	v := newValidation()
	v.decision(req.Fence, req.Reason)
	if err := v.problem(); err != nil {
		return err
	}
	id, ok := ParseID(req.ID)
	if !ok {
		return errNotFound()
	}
	at := ref{tenant: caller.Tenant, id: id}
	for range maxRounds {
		seen, err := s.admin().Decidable(ctx, at.tenant, id)
		if err != nil {
			return translate(err)
		}
		repeated, err := seen.mayForget(req)
		if repeated {
			return s.untilNobodyServes(ctx)
		}
		if err != nil {
			return err
		}
		entry := audit.Entry{Actor: caller.Actor(), Action: "record.forget", Reason: req.Reason, Before: seen.audited()}
		forgotten, err := s.admin().Forget(ctx, at.tenant, id, *req.Fence, req.Force, entry)
		if err != nil {
			return translate(err)
		}
		if forgotten {
			s.waits.wake(ref{caller.Tenant, seen.namespace, id})
			return s.untilNobodyServes(ctx)
		}
	}
	return errStorm()
}

// untilNobodyServes waits until no process serves what was invalidated by a
// transaction that has committed.
func (s *Service) untilNobodyServes(ctx context.Context) error {
	timer := time.NewTimer(InvalidationDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return translate(ctx.Err())
	}
}

// Resolve decides a record whose outcome is unknown: completed with the given
// response (the rules of a completion hold, store_errors does not), or open
// with its fingerprint bound. A resolver decides in the namespaces that it
// names. The same call again is answered as the first time as long as no begin
// has acquired the record since.
//
// Kinds: invalid_request, body_too_large, not_found, forbidden, record_changed,
// not_unknown, unavailable, internal.
func (s *Service) Resolve(ctx context.Context, caller auth.Caller, req ResolveRequest) (Record, error) {
	snapshot, err := s.tenants.Snapshot(ctx, caller.Tenant, auth.NamespaceID{})
	if err != nil {
		return Record{}, err
	}
	if err := req.validate(snapshot.BodyLimit); err != nil {
		return Record{}, err
	}
	id, ok := ParseID(req.ID)
	if !ok {
		return Record{}, errNotFound()
	}
	for range maxRounds {
		seen, err := s.admin().Decidable(ctx, caller.Tenant, id)
		if err != nil {
			return Record{}, translate(err)
		}
		repeated, err := seen.mayResolve(caller, req)
		if err != nil {
			return Record{}, err
		}
		if !repeated {
			c := &completion{held: held{ref: ref{caller.Tenant, seen.namespace, id}, fence: *req.Fence, by: caller, snapshot: snapshot}}
			if req.Response != nil {
				c.sent = *req.Response
				c.digest = digestOf(snapshot, id, c.sent)
				c.prepare(snapshot.Policy(seen.namespace, seen.operation))
			}
			entry := audit.Entry{Actor: caller.Actor(), Action: "record.resolve", Reason: req.Reason, Before: seen.audited(), After: req.audited()}
			resolved, err := s.admin().Resolve(ctx, c, req.Action, entry)
			if err != nil {
				return Record{}, translate(err)
			}
			if !resolved {
				continue
			}
			s.touched(c.ref)
		}
		record, err := s.Inspect(ctx, caller, req.ID, Include{})
		if !repeated { // a record that is gone by now was resolved all the same
			s.observeEnd(caller, EndObservation{How: EndResolved, ID: id, Namespace: seen.namespace, Operation: seen.operation, Caller: record.Caller, Key: record.Key})
		}
		return record, err
	}
	return Record{}, errStorm()
}

func (r ResolveRequest) validate(bodyLimit int) error {
	v := newValidation()
	v.decision(r.Fence, r.Reason)
	switch {
	case r.Action != ActionComplete && r.Action != ActionRetry:
		v.fail("/action", "must be complete or retry")
	case r.Action == ActionComplete && r.Response == nil:
		v.fail("/response", "is required: what retries of this key are to be answered with")
	case r.Action == ActionRetry && r.Response != nil:
		v.fail("/response", "goes with the action complete only")
	}
	if err := v.problem(); err != nil {
		return err
	}
	if r.Response == nil {
		return nil
	}
	return within("/response", validateResponse(*r.Response, r.Faults, bodyLimit))
}

// within puts a pointer before those of an invalid_request.
func within(pointer string, err error) error {
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Kind != problem.InvalidRequest {
		return err
	}
	moved := slices.Clone(p.Fields)
	for i := range moved {
		moved[i].Pointer = pointer + moved[i].Pointer
	}
	return problem.Invalid(moved...)
}

// decision checks what every decision about a record carries.
func (v *validation) decision(fence *int64, reason string) {
	if fence == nil {
		v.fail("/fence", "is required: the fence that the record showed, so that what has changed meanwhile is not decided unseen")
	}
	if !auth.IsReason(reason) {
		v.fail("/reason", "is required: 3 to 500 characters without controls; it is kept in the audit trail")
	}
}

// decidable is a record as a decision about it needs it.
type decidable struct {
	exists    bool // a row is there, expired or not
	namespace auth.NamespaceID
	operation string
	fence     int64
	attempt   int
	state     State // by the clock
	live      bool  // in progress with a live lease
	expired   bool

	adminFence  int64
	adminResult int64
	adminAction string // empty: none
}

// repeats says whether the decision has been made already and nobody has
// acquired the record since.
func (d *decidable) repeats(action string, fence int64) bool {
	return d.exists && d.adminAction == action && d.adminFence == fence && d.adminResult == d.fence
}

func (d *decidable) mayForget(req ForgetRequest) (repeated bool, err error) {
	switch {
	case d.repeats(actionForget, *req.Fence):
		return true, nil
	case !d.exists || d.expired:
		return false, errNotFound()
	case d.fence != *req.Fence:
		return false, errRecordChanged()
	case d.live && !req.Force:
		return false, problem.New(problem.LeaseLive, "An attempt holds this record's lease: what it does would be forgotten while it runs. Wait until the lease has ended, or send force.")
	}
	return false, nil
}

func (d *decidable) mayResolve(caller auth.Caller, req ResolveRequest) (repeated bool, err error) {
	switch {
	case !d.exists || d.expired:
		return false, errNotFound()
	case !caller.Decides(d.namespace):
		return false, problem.New(problem.Forbidden, "This credential resolves records in the namespaces that it names; this record is in another.")
	case d.repeats(req.Action, *req.Fence):
		return true, nil
	case d.fence != *req.Fence:
		return false, errRecordChanged()
	case d.state != StateUnknown:
		return false, problem.New(problem.NotUnknown, "The record is %s. Only a record whose outcome is unknown can be resolved.", d.state)
	}
	return false, nil
}

func errRecordChanged() error {
	return problem.New(problem.RecordChanged, "The record's fence is not the one that you name: an attempt has acquired it since. Inspect it again and decide anew.")
}

// auditedRecord is what the trail keeps of a record: nothing of its content.
type auditedRecord struct {
	Namespace string `json:"namespace"`
	State     State  `json:"state"`
	Attempt   int    `json:"attempt"`
	Fence     int64  `json:"fence"`
}

func (d *decidable) audited() auditedRecord {
	return auditedRecord{d.namespace.String(), d.state, d.attempt, d.fence}
}

func (r ResolveRequest) audited() map[string]any {
	after := map[string]any{"action": r.Action}
	if r.Response != nil {
		after["status"], after["body_bytes"] = r.Response.Status, len(r.Response.Body)
	}
	return after
}

func (s *Service) admin() *adminStore { return &adminStore{pool: s.store.pool} }

// touched lets everybody hear of a record that has changed: who waits for it,
// and search.
func (s *Service) touched(at ref) {
	s.waits.wake(at)
	s.feed.note(at)
}
