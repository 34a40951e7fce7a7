package tenants

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

const (
	// previewLife is how long a preview can be acted on.
	previewLife = 10 * time.Minute
	// maxOperations bounds one setting of all operations.
	maxOperations = 1000
)

// Records is what retention needs of the records, which are another package's.
type Records interface {
	// PreviewRetention counts what a plan would do to the tenant's records.
	PreviewRetention(ctx context.Context, tenant auth.TenantID, plan Plan) (Affected, error)
	// ApplyRetention moves expires_at of the next most records after the given
	// id, which is the zero UUID at first. exact moves it earlier too; else it
	// only moves later. Records in progress, lapsed or unknown are left. It may
	// be repeated.
	ApplyRetention(ctx context.Context, tenant auth.TenantID, plan Plan, exact bool, after uuid.UUID, most int) (Step, error)
}

// Plan is how long records are to be kept, whole: what a change of retention
// applies to those that exist.
type Plan struct {
	Default time.Duration
	// Operations are those with a retention of their own, in one namespace or
	// (zero) in all; the first that fits, the narrower before the wider, decides.
	Operations []PlanOperation
}

// PlanOperation is the retention of one operation.
type PlanOperation struct {
	Namespace auth.NamespaceID
	Operation string
	Retention time.Duration
}

// Affected is what a plan would do to the records that exist.
type Affected struct {
	Shortened int64 // records that would end earlier than now promised
	Gone      int64 // those of them that would end at once
	GoneBytes int64 // bytes of their stored bodies
	// LostReplays of Replays replays seen in the past had an age above the new
	// retention of their operation: each would have run the operation again.
	LostReplays int64
	Replays     int64
}

// Step is one batch of an application.
type Step struct {
	Last    uuid.UUID // the last record that was looked at
	Seen    int       // 0: there are no more
	Changed int
}

// Retention is how long a tenant's records are kept.
type Retention struct {
	Version    int64 // the ETag, the policy's
	Default    time.Duration
	Operations map[string]time.Duration // those that hold in all namespaces
	Min, Max   time.Duration
	Grace      time.Duration
	Change     *RetentionChange // the last change of existing records; nil: none
}

// ChangeState is how far a change of existing records is.
type ChangeState string

// The states of a change of existing records.
const (
	ChangePending    ChangeState = "pending"    // within its grace: it can be cancelled
	ChangeRunning    ChangeState = "running"    // records are being moved
	ChangeDone       ChangeState = "done"       // all of them were
	ChangeCancelled  ChangeState = "cancelled"  // none was
	ChangeSuperseded ChangeState = "superseded" // another change took its place
)

// RetentionChange is the application of a retention to records that exist.
type RetentionChange struct {
	ID             uuid.UUID
	State          ChangeState
	Exact          bool // records may end earlier too
	Reason         string
	AskedAt        time.Time
	StartsAt       time.Time
	FinishedAt     time.Time // zero until then
	RecordsSeen    int64
	RecordsChanged int64
}

// RetentionParams is a setting of all retentions at once.
type RetentionParams struct {
	Default *time.Duration // required
	// Operations are those with one of their own, in all namespaces; nil leaves
	// them as they are. Overrides that name a namespace are never touched.
	Operations map[string]time.Duration
	// ApplyToExisting moves the records that exist too: later at once, without a
	// preview; or, with PreviewID and Reason, to exactly what is set here, after
	// the tenant's grace.
	ApplyToExisting bool
	PreviewID       *uuid.UUID
	Reason          string
}

func (p RetentionParams) validate() error {
	var v fieldErrors
	whole := func(pointer string, d time.Duration) {
		if !wholeSeconds(d) || d < time.Second || d > longestRetention {
			v.add(pointer, "whole seconds within the tenant's limits")
		}
	}
	if p.Default == nil {
		v.add("/default_seconds", "is required: how long a record is kept after it was completed, in whole seconds")
	} else {
		whole("/default_seconds", *p.Default)
	}
	if len(p.Operations) > maxOperations {
		v.add("/operations", "at most %d operations", maxOperations)
	}
	for _, operation := range slices.Sorted(maps.Keys(p.Operations)) {
		pointer := operationPointer(operation)
		if operation == "" || len(operation) > maxOperationLength || !printableASCII(operation) {
			v.add("/operations", "the name of an operation is 1 to %d printable ASCII characters", maxOperationLength)
			continue
		}
		whole(pointer, p.Operations[operation])
	}
	if p.PreviewID != nil && !p.ApplyToExisting {
		v.add("/preview_id", "goes with apply_to_existing only")
	}
	if p.PreviewID != nil && checkReason(p.Reason) != nil {
		v.add("/reason", "is required where existing records are shortened: %d to %d characters of UTF-8 without controls", minReasonLength, maxReasonLength)
	} else if p.Reason != "" && checkReason(p.Reason) != nil {
		v.add("/reason", "%d to %d characters of UTF-8 without controls", minReasonLength, maxReasonLength)
	}
	return v.err()
}

// operationPointer is where an operation stands in the body (RFC 6901).
func operationPointer(operation string) string {
	escaped := ""
	for _, r := range operation {
		switch r {
		case '~':
			escaped += "~0"
		case '/':
			escaped += "~1"
		default:
			escaped += string(r)
		}
	}
	return "/operations/" + escaped
}

// set edits the rows to what is asked for.
func (p RetentionParams) set(rows *policies) error {
	if err := rows.inLimits("/default_seconds", p.Default); err != nil {
		return err
	}
	row := rows.after[overrideKey{}]
	row.Retention = p.Default
	rows.put(row)
	if p.Operations == nil {
		return nil
	}
	for key, row := range rows.after {
		if _, kept := p.Operations[key.operation]; !kept && key.operation != "" && key.namespace == (auth.NamespaceID{}) && row.Retention != nil {
			row.Retention = nil
			rows.put(row)
		}
	}
	for _, operation := range slices.Sorted(maps.Keys(p.Operations)) {
		retention := p.Operations[operation]
		if err := rows.inLimits(operationPointer(operation), &retention); err != nil {
			return err
		}
		row := rows.after[overrideKey{operation: operation}]
		row.Operation, row.Retention = operation, &retention
		rows.put(row)
	}
	return nil
}

// plan is what the rows say of retention, the narrower before the wider.
func (p *policies) plan() Plan {
	plan := Plan{Default: snapshotOf(p.after).Policy(auth.NamespaceID{}, "").Retention}
	for key, row := range p.after {
		if key.operation != "" && row.Retention != nil {
			plan.Operations = append(plan.Operations, PlanOperation{key.namespace, key.operation, *row.Retention})
		}
	}
	slices.SortFunc(plan.Operations, func(a, b PlanOperation) int {
		return -compare(a.Operation+"\x00"+a.Namespace.String(), b.Operation+"\x00"+b.Namespace.String())
	})
	return plan
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (p *policies) retention(change *RetentionChange) Retention {
	r := Retention{
		Version: p.tenant.PolicyVersion, Default: snapshotOf(p.after).Policy(auth.NamespaceID{}, "").Retention,
		Operations: make(map[string]time.Duration), Min: p.tenant.MinRetention, Max: p.tenant.MaxRetention, Grace: p.tenant.Grace, Change: change,
	}
	for key, row := range p.after {
		if key.operation != "" && key.namespace == (auth.NamespaceID{}) && row.Retention != nil {
			r.Operations[key.operation] = *row.Retention
		}
	}
	return r
}

// Retention reads how long the tenant's records are kept.
func (s *Service) Retention(ctx context.Context, tenant auth.TenantID) (Retention, error) {
	return s.rows.Retention(ctx, tenant)
}

// PreviewRetention says what a setting with apply_to_existing would do to the
// records that exist, and keeps it for 10 minutes under the id that it returns.
// Kinds: invalid_request, not_found, unavailable.
func (s *Service) PreviewRetention(ctx context.Context, tenant auth.TenantID, params RetentionParams, records Records) (id uuid.UUID, expiresAt time.Time, affected Affected, err error) {
	params.ApplyToExisting, params.PreviewID, params.Reason = true, nil, ""
	if err := params.validate(); err != nil {
		return uuid.UUID{}, time.Time{}, Affected{}, err
	}
	plan, err := s.rows.PlanOf(ctx, tenant, params)
	if err != nil {
		return uuid.UUID{}, time.Time{}, Affected{}, err
	}
	if affected, err = records.PreviewRetention(ctx, tenant, plan); err != nil {
		return uuid.UUID{}, time.Time{}, Affected{}, err
	}
	if affected.LostReplays, affected.Replays, err = s.rows.LostReplays(ctx, tenant, plan); err != nil {
		return uuid.UUID{}, time.Time{}, Affected{}, err
	}
	if id, err = uuid.NewRandomFromReader(s.random); err != nil {
		return uuid.UUID{}, time.Time{}, Affected{}, problem.Internal(fmt.Errorf("make a preview id: %w", err))
	}
	expiresAt, err = s.rows.InsertPreview(ctx, tenant, id, plan)
	return id, expiresAt, affected, err
}

// SetRetention sets all retentions at once, for records to come, and where
// asked for the records that exist. Kinds: invalid_request (a preview that is
// missing, too old or of something else included), not_found,
// precondition_required, precondition_failed, reauthenticate.
func (s *Service) SetRetention(ctx context.Context, tenant auth.TenantID, params RetentionParams, pre Precondition) (Retention, error) {
	if err := params.validate(); err != nil {
		return Retention{}, err
	}
	id, err := uuid.NewRandomFromReader(s.random)
	if err != nil {
		return Retention{}, problem.Internal(fmt.Errorf("make a change id: %w", err))
	}
	entry := s.entry("retention.change")
	entry.Reason = params.Reason
	after, err := s.rows.SetRetention(ctx, tenant, params, id, policyChanging{
		pre: pre, entry: entry, mayShorten: s.keyPresented,
		change: func(_ context.Context, _ transaction, p *policies) error { return params.set(p) },
	})
	s.snapshots.Forget(tenant)
	return after, err
}

// CancelRetention takes back the change of existing records that waits for its
// grace to end; the setting for records to come stays. Kinds: not_found where
// nothing waits, precondition_required, precondition_failed.
func (s *Service) CancelRetention(ctx context.Context, tenant auth.TenantID, pre Precondition) (version int64, err error) {
	return s.rows.CancelRetention(ctx, tenant, pre, s.entry("retention.cancel"))
}

func previewNeeded(grace time.Duration) error {
	return problem.Invalid(problem.Field{
		Pointer: "/preview_id",
		Reason: "is required: some operation would keep its records for less time. Ask POST /v1/retention/preview what that would prune, and send its preview_id and a reason; the change starts after " +
			strconv.Itoa(int(grace.Seconds())) + " s and can be cancelled until then",
	})
}
