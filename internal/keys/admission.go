package keys

import (
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// Admission says whether a new record may be made. It is asked on the path of
// every begin, so it must never block. A begin that is refused is answered all
// the same where its record exists: it is looked for before it is refused.
type Admission interface {
	// Reserve takes one new record of the caller; its error (*problem.Error)
	// says why there can be none.
	Reserve(tenant auth.TenantID, limits tenants.Limits, namespace auth.NamespaceID, caller string) error
	// Settle says of what was reserved whether a record was made.
	Settle(tenant auth.TenantID, namespace auth.NamespaceID, caller string, made bool)
	// Refused counts a begin that got what Reserve said.
	Refused(tenant auth.TenantID)
	// Stored counts the bytes of a response that was stored.
	Stored(tenant auth.TenantID, bytes int)
}

// admitAll is the Admission of a Service that was given none.
type admitAll struct{}

func (admitAll) Reserve(auth.TenantID, tenants.Limits, auth.NamespaceID, string) error { return nil }
func (admitAll) Settle(auth.TenantID, auth.NamespaceID, string, bool)                  {}
func (admitAll) Refused(auth.TenantID)                                                 {}
func (admitAll) Stored(auth.TenantID, int)                                             {}

// admit asks for the record that the entry may make.
func (s *Service) admit(e *entry) {
	e.refusal = s.admission.Reserve(e.tenant, e.snapshot.Limits, e.namespace, e.caller)
}

// settleAdmission gives back what was reserved and not used.
func (s *Service) settleAdmission(e *entry, outcome Outcome) {
	if e.refusal != nil {
		return
	}
	a, acquired := outcome.(Acquired)
	s.admission.Settle(e.tenant, e.namespace, e.caller, acquired && a.Attempt == 1 && !a.Resumed)
}
