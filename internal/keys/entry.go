package keys

import (
	"math"
	"math/rand/v2" //nolint:depguard // spreads retries; nothing secret depends on it

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/client/fingerprint"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// entry is one valid begin on its way to an outcome, with everything that the
// store needs, so that entries of many callers can share a statement.
type entry struct {
	snapshot *tenants.Snapshot
	policy   tenants.Policy
	by       auth.Caller

	ref
	scope     tenants.KeyScope
	caller    string
	operation string
	key       string

	payload *fingerprint.Request // nil where the caller sent only a digest
	print   keyedPrint

	ownerDigest [digestSize]byte
	ownerMinted bool // the caller sent none: only this process knows it

	leaseSeconds     int
	retentionSeconds int
	hold             bool
	metadata         []byte // JSON object, or nil

	jitter   float64 // 0 to 1, for Retry-After
	refusal  error   // why it may make no new record; nil: it may
	noResume bool    // an earlier entry of the same batch holds the record
}

// newEntry validates req (400, 413) and derives identity, fingerprint and
// owner. It reads nothing from the database.
func newEntry(caller auth.Caller, snapshot *tenants.Snapshot, req BeginRequest, newOwner func() string) (*entry, error) {
	if req.Request != nil && len(req.Request.Body) > snapshot.BodyLimit {
		return nil, bodyTooLarge("request.body", len(req.Request.Body), snapshot.BodyLimit)
	}
	if err := validateKey(req.Key); err != nil {
		return nil, err
	}
	namespace, ok := snapshot.Namespace(caller.Namespace)
	if !ok {
		return nil, problem.New(problem.Forbidden, "This credential has no namespace; only a credential with the role service begins.")
	}
	v := newValidation(req.Faults...)
	operation := v.operation(req)
	policy := snapshot.Policy(namespace.ID, operation)
	e := &entry{
		snapshot: snapshot, policy: policy, by: caller,
		ref:   ref{tenant: caller.Tenant, namespace: namespace.ID},
		scope: namespace.KeyScope, caller: v.caller(req.Caller), operation: operation, key: *req.Key,
		leaseSeconds:     v.seconds("/lease_seconds", req.LeaseSeconds, 1, MaxLeaseSeconds, int(policy.Lease.Seconds())),
		retentionSeconds: v.retention(req.RetentionSeconds, snapshot, policy),
		hold:             v.hold(req.OnLeaseExpiry, policy),
		jitter:           rand.Float64(), //nolint:gosec // spreads retries; nothing secret depends on it
	}
	v.payload(req)
	v.owner(req.Owner, e.hold)
	v.metadata(req.Metadata)
	if err := v.problem(); err != nil {
		return nil, err
	}
	if err := e.derive(req, newOwner); err != nil {
		return nil, problem.Internal(err)
	}
	return e, nil
}

// derive computes what is stored instead of what was sent: identity, fingerprint,
// owner and metadata.
func (e *entry) derive(req BeginRequest, newOwner func() string) (err error) {
	k := borrow(e.snapshot)
	defer k.giveBack()
	e.id = identity{e.namespace, e.scope, e.caller, e.operation, e.key}.id(k)
	if req.Fingerprint != nil {
		e.print, err = printOfDigest(k, *req.Fingerprint)
	} else {
		r := req.Request
		e.payload = &fingerprint.Request{
			Method: text(r.Method), Path: text(r.Path), Query: text(r.Query), ContentType: text(r.ContentType),
			Body: r.Body, IgnorePointers: e.policy.IgnorePointers,
		}
		e.print, err = printOfRequest(k, *e.payload)
	}
	if err != nil {
		return err
	}
	owner := text(req.Owner)
	if req.Owner == nil {
		owner, e.ownerMinted = newOwner(), true
	}
	e.ownerDigest = k.start(ownerDomain).bytes(e.id[:]).text(owner).stored()
	if len(req.Metadata) > 0 {
		e.metadata, err = json.Marshal(req.Metadata, json.Deterministic(true))
	}
	return err
}

// printUnder is the fingerprint of e made under the pointers of a stored one.
// A digest is what it is: the caller made it.
func (e *entry) printUnder(pointers string) keyedPrint {
	if e.payload == nil || pointers == e.print.pointers {
		return e.print
	}
	r := *e.payload
	var err error
	if r.IgnorePointers, err = pointersOf(pointers); err != nil {
		return e.print // a mismatch: never a replay that cannot be proved
	}
	k := borrow(e.snapshot)
	defer k.giveBack()
	under, err := printOfRequest(k, r)
	if err != nil {
		return e.print
	}
	return under
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func bodyTooLarge(what string, size, limit int) error {
	return problem.New(problem.BodyTooLarge, "%s has %d bytes; the tenant's limit is %d bytes.", what, size, limit)
}

// clampSeconds keeps a policy's retention inside limits that were narrowed
// after it was set.
func clampSeconds(seconds, least, most float64) int {
	return int(math.Min(math.Max(seconds, least), most))
}
