package problem

import "net/http"

// Kind is the stable code of a failure: the member "code" of every problem
// document, and the label of metrics and spans. A Kind is an error itself, so
// that errors.Is(err, problem.NotFound) works.
type Kind string

// The kinds, as the wire contract lists them (section 8).
const (
	InvalidRequest       Kind = "invalid_request"
	InvalidKey           Kind = "invalid_key"
	MissingKey           Kind = "missing_key"
	Unauthenticated      Kind = "unauthenticated"
	Forbidden            Kind = "forbidden"
	Suspended            Kind = "suspended"
	Reauthenticate       Kind = "reauthenticate"
	NotFound             Kind = "not_found"
	MethodNotAllowed     Kind = "method_not_allowed"
	InProgress           Kind = "in_progress"
	OutcomeUnknown       Kind = "outcome_unknown"
	FingerprintMismatch  Kind = "fingerprint_mismatch"
	AlreadyCompleted     Kind = "already_completed"
	LeaseLost            Kind = "lease_lost"
	LeaseLive            Kind = "lease_live"
	RecordChanged        Kind = "record_changed"
	NotUnknown           Kind = "not_unknown"
	Immutable            Kind = "immutable"
	NameTaken            Kind = "name_taken"
	LastAdmin            Kind = "last_admin"
	NotSuspended         Kind = "not_suspended"
	PreconditionFailed   Kind = "precondition_failed"
	PreconditionRequired Kind = "precondition_required"
	BodyTooLarge         Kind = "body_too_large"
	RequestTooLarge      Kind = "request_too_large"
	UnsupportedMediaType Kind = "unsupported_media_type"
	RateLimited          Kind = "rate_limited"
	QuotaExceeded        Kind = "quota_exceeded"
	KindInternal         Kind = "internal"
	KindUnavailable      Kind = "unavailable"
)

// Entry is one row of the table from kind to HTTP.
type Entry struct {
	Kind   Kind
	Status int
	Title  string
	// Meaning explains the kind on its own page (the address in "type").
	Meaning string
}

// Table is the one table from kind to HTTP, in the contract's order.
func Table() []Entry { return table[:] }

//nolint:gochecknoglobals // the table is a constant that Go cannot declare as one
var table = [...]Entry{
	{InvalidRequest, http.StatusBadRequest, "The request is not valid", "A member, header or parameter is missing, unknown, repeated or out of range. The member errors names each with a JSON pointer or a parameter name and says what is expected. Nothing was stored."},
	{InvalidKey, http.StatusBadRequest, "The idempotency key is not valid", "A key is 8 to 255 printable ASCII characters (0x20 to 0x7E) with no space first or last. It is compared byte for byte; it is never trimmed or folded."},
	{MissingKey, http.StatusBadRequest, "The idempotency key is missing", "Every begin names its key in the member key. The service never makes one up: a key made by the server would be new for each retry and protect nothing."},
	{Unauthenticated, http.StatusUnauthorized, "The credential is missing or not valid", "Send one header Authorization: Bearer with an API key of your tenant. A key that is malformed, unknown, expired or revoked gets this same answer."},
	{Forbidden, http.StatusForbidden, "The role may not do this", "The credential is valid but its role does not allow this call. The detail names the role needed and the role held."},
	{Suspended, http.StatusForbidden, "The tenant is suspended", "The operator suspended the tenant. Leases that are already held can still be completed, renewed and released; nothing new begins until the tenant is active again."},
	{Reauthenticate, http.StatusForbidden, "The API key itself is needed", "This call needs the API key itself, or a dashboard session in which it was presented within the last ten minutes."},
	{NotFound, http.StatusNotFound, "Not found", "There is no such address, or no such record for this credential. A record of another namespace or tenant, an expired one and one that never existed are the same answer."},
	{MethodNotAllowed, http.StatusMethodNotAllowed, "The method is not allowed here", "The address exists but not for this method. The header Allow lists the methods that it has."},
	{InProgress, http.StatusConflict, "Another attempt is in progress", "Another attempt holds the lease. Do not run the operation. Ask again after Retry-After, or begin with Prefer: wait=N."},
	{OutcomeUnknown, http.StatusConflict, "The outcome of an earlier attempt is unknown", "An earlier attempt may or may not have done the work, and the policy is to hold. Do not run the operation. Somebody with the role resolver or admin decides; the holder of the lease token can still complete or release."},
	{FingerprintMismatch, http.StatusConflict, "The key was used for another request", "The key is bound to a request with another fingerprint. The member differs says which part is not the same. Use a new key for a new operation; never change the payload under an old key."},
	{AlreadyCompleted, http.StatusConflict, "The record is already completed", "A response is stored already and a stored response never changes. If what you sent differs from it, the work may have been done twice."},
	{LeaseLost, http.StatusConflict, "The lease is not yours any more", "The token belongs to an earlier attempt, the record was released, or the token was never issued for this record. Stop writing under this lease."},
	{LeaseLive, http.StatusConflict, "The lease is still live", "The record is in progress and its lease has not ended. Wait for it to end, or force."},
	{RecordChanged, http.StatusConflict, "The record has changed", "The fence is not the one that was shown. Inspect the record again and decide anew."},
	{NotUnknown, http.StatusConflict, "The record is not unknown", "Only a record whose outcome is unknown can be resolved."},
	{Immutable, http.StatusConflict, "This cannot be changed", "The value is chosen once, when the object is made, and never changes."},
	{NameTaken, http.StatusConflict, "The name is taken", "Another object of the tenant has this name. Choose another."},
	{LastAdmin, http.StatusConflict, "The last admin credential stays", "A tenant always keeps one admin credential. Issue another before you revoke this one."},
	{NotSuspended, http.StatusConflict, "The tenant is not suspended", "Only a suspended tenant can be deleted. Suspend it first."},
	{PreconditionFailed, http.StatusPreconditionFailed, "The resource has changed", "If-Match names an older version. Read the resource again and send its ETag."},
	{PreconditionRequired, http.StatusPreconditionRequired, "If-Match is required", "Send the ETag that you read in If-Match, so that two administrators cannot overwrite each other."},
	{BodyTooLarge, http.StatusRequestEntityTooLarge, "The body is over the tenant's limit", "Nothing was stored and a lease stays held. A response that is too large can be completed with body_omitted."},
	{RequestTooLarge, http.StatusRequestEntityTooLarge, "The request is too large", "The HTTP request is larger than any valid one of this kind."},
	{UnsupportedMediaType, http.StatusUnsupportedMediaType, "The media type is not supported", "Send JSON as application/json, a completion also as application/http, and no Content-Encoding."},
	{RateLimited, http.StatusTooManyRequests, "Too many requests", "The rate of the tenant, namespace or caller is used up. Repeat the same call after Retry-After."},
	{QuotaExceeded, http.StatusTooManyRequests, "A quota is used up", "The tenant has as many live records or stored bytes as it may. Replays and lease calls go on; new records need room."},
	{KindInternal, http.StatusInternalServerError, "Internal error", "Something failed inside the service. Every call of the API is itself idempotent: repeat it as it was. If it goes on, report the request_id."},
	{KindUnavailable, http.StatusServiceUnavailable, "Temporarily unavailable", "The service cannot decide right now and will not guess. Repeat the same call after Retry-After; with the same owner a begin is safe to repeat."},
}

// Error makes a Kind usable with errors.Is.
func (k Kind) Error() string { return string(k) }

// Lookup returns the row of k; ok is false for a code that no kind has.
func Lookup(k Kind) (entry Entry, ok bool) {
	for _, e := range table {
		if e.Kind == k {
			return e, true
		}
	}
	return Entry{}, false
}

// Status is the HTTP status of k; 500 for a code that no kind has.
func (k Kind) Status() int {
	if e, ok := Lookup(k); ok {
		return e.Status
	}
	return http.StatusInternalServerError
}
