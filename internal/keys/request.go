package keys

import "github.com/onceward/onceward/internal/problem"

// BeginRequest is a begin as its sender wrote it: decoded, not yet validated.
// Pointers are nil for what was absent.
type BeginRequest struct {
	Key              *string
	Operation        *string
	Caller           *string
	Request          *RequestPayload
	Fingerprint      *string // 64 lower-case hex digits
	Owner            *string
	LeaseSeconds     *int64
	RetentionSeconds *int64
	OnLeaseExpiry    *string
	Metadata         map[string]string
	// Faults are what its decoder found wrong with its values and had no member
	// to pass on in. They are told with the others, after the size of the body
	// and the key.
	Faults []problem.Field
}

// RequestPayload is the request of the caller's own client, to be
// fingerprinted by the service. Absent members count as empty.
type RequestPayload struct {
	Method      *string
	Path        *string
	Query       *string
	ContentType *string
	Body        []byte // decoded
}

// CompleteRequest is one completion. ID and Token are as sent.
type CompleteRequest struct {
	ID       string
	Token    string
	Response Response
	// Faults are as in BeginRequest, told after the size of the body.
	Faults []problem.Field
}
