package tenants

import (
	"sync"
	"time"

	"github.com/onceward/onceward/internal/auth"
)

// Snapshot is everything of a tenant under which its calls are decided, read
// in one statement. It is shared by goroutines and never changed;
// NewSnapshot makes it.
type Snapshot struct {
	Tenant        auth.TenantID
	Secret        [32]byte // HMAC key; never logged, never leaves the process
	BodyLimit     int      // bytes
	MinRetention  time.Duration
	MaxRetention  time.Duration
	PolicyVersion int64
	Limits        Limits
	// Keyers is for whoever makes digests under Secret: what was set up for one
	// call, for the next one.
	Keyers *sync.Pool

	namespaces map[auth.NamespaceID]Namespace
	overrides  map[overrideKey]Override
	// operations is how many overrides name an operation: where it is zero the
	// policy is the same for every operation and a completion need not read
	// its record first.
	operations int
}

// Namespace is a dedupe scope inside a tenant.
type Namespace struct {
	ID       auth.NamespaceID
	Name     string
	KeyScope KeyScope
}

type overrideKey struct {
	namespace auth.NamespaceID
	operation string
}

// NewSnapshot makes a snapshot of base with its namespaces and policy rows.
func NewSnapshot(base Snapshot, namespaces []Namespace, rows []Override) *Snapshot {
	s := base
	s.Keyers = new(sync.Pool)
	s.namespaces = make(map[auth.NamespaceID]Namespace, len(namespaces))
	for _, n := range namespaces {
		s.namespaces[n.ID] = n
	}
	s.overrides = make(map[overrideKey]Override, len(rows))
	s.operations = 0
	for _, r := range rows {
		s.overrides[overrideKey{r.Namespace, r.Operation}] = r
		if r.Operation != "" {
			s.operations++
		}
	}
	return &s
}

// Namespace returns the namespace of that id; ok is false where the tenant has none such.
func (s *Snapshot) Namespace(id auth.NamespaceID) (n Namespace, ok bool) {
	n, ok = s.namespaces[id]
	return n, ok
}

// PerOperation says whether any policy row names an operation.
func (s *Snapshot) PerOperation() bool { return s.operations > 0 }

// Overrides returns the policy rows that hold in the namespace, in no order:
// the tenant's default, and the operations' with and without that namespace.
func (s *Snapshot) Overrides(namespace auth.NamespaceID) []Override {
	rows := make([]Override, 0, len(s.overrides))
	for key, row := range s.overrides {
		if key.namespace == (auth.NamespaceID{}) || key.namespace == namespace {
			rows = append(rows, row)
		}
	}
	return rows
}

// Policy is what is in force for the operation in the namespace: each member
// by itself from the operation in the namespace, then the operation, then the
// tenant's default, then the contract's.
func (s *Snapshot) Policy(namespace auth.NamespaceID, operation string) Policy {
	p := DefaultPolicy()
	for _, key := range [...]overrideKey{{}, {operation: operation}, {namespace: namespace, operation: operation}} {
		if row, ok := s.overrides[key]; ok {
			row.apply(&p)
		}
	}
	return p
}

func (o Override) apply(p *Policy) {
	set(&p.Retention, o.Retention)
	set(&p.Lease, o.Lease)
	set(&p.OnMismatch, o.OnMismatch)
	set(&p.MismatchStatus, o.MismatchStatus)
	set(&p.OnLeaseExpiry, o.OnLeaseExpiry)
	set(&p.StoreErrors, o.StoreErrors)
	set(&p.StoreBody, o.StoreBody)
	set(&p.StripHeaders, o.StripHeaders)
	set(&p.KeepHeaders, o.KeepHeaders)
	set(&p.IgnorePointers, o.IgnorePointers)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}
