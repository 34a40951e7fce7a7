package client

import (
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/client/fingerprint"
)

// Operation names what must not be done twice, and says under which terms.
type Operation struct {
	// Key is the idempotency key: 8 to 255 printable ASCII characters, no space
	// first or last, the same for every retry of the operation and new for
	// every new operation. Required; nothing ever makes one up. Key derives one.
	Key string
	// Name is the operation's own name, such as "POST /v1/charges/{id}/refund"
	// (the route, not the path) or "kafka:payments": 1 to 512 printable ASCII
	// characters. It is part of the identity. Empty: method and path of Request.
	Name string
	// Caller is whose key it is: the customer or account, from authenticated
	// identity, 1 to 255 printable ASCII characters. Keys of two callers never
	// meet. Empty where every key comes from your own code.
	Caller string

	// Request is what the key is bound to: the same key with another request is
	// refused (ErrMismatch). The service computes its fingerprint. Either Request
	// or Fingerprint is required; an empty Request binds the key to nothing.
	Request *Request
	// Fingerprint is in place of Request where no payload may leave: 64
	// lower-case hexadecimal digits, such as Request.Fingerprint computes. Name
	// is then required.
	Fingerprint string

	// Lease is how long the attempt may take before another may be made or the
	// outcome counts as unknown: whole seconds, to 1 h. Do renews it. Zero: the
	// policy's.
	Lease time.Duration
	// Retention is how long a response is replayed: whole seconds within the
	// tenant's limits. Zero: the policy's.
	Retention time.Duration
	// Hold asks that a lease that ends without a response leaves the outcome
	// unknown, for a person to decide, instead of open to another attempt. For
	// money. The policy may ask for it anyway.
	Hold bool
	// Metadata is found by search: at most 16 pairs. No secrets, no personal data.
	Metadata map[string]string

	// Wait is how long to wait while another attempt holds the lease, before
	// ErrInProgress. Zero: Do and Batch wait 30 s, Begin does not wait.
	// Negative: no wait.
	Wait time.Duration
	// Resumable says that the function can take over where an attempt broke off
	// that may have done any part of the work: that it looks at
	// Lease.RecoveryPoint, or uses keys of Lease.DownstreamKey throughout. Do
	// and Batch hand a lease that was taken over to such a function only; for
	// any other the outcome is then unknown (ErrOutcomeUnknown).
	Resumable bool
}

// Request is the request that a key is bound to, as it was received. Members
// that are empty count as empty.
type Request struct {
	Method      string
	Path        string // neither decoded nor normalised; without a query
	Query       string // without the question mark
	ContentType string
	Body        []byte // with any content coding removed; only read
}

// Fingerprint computes what the service would, in this process: for
// Operation.Fingerprint. ignorePointers are the JSON pointers (RFC 6901) whose
// members do not count, such as those of the policy (see Contract): the service
// cannot apply them to a digest.
func (r Request) Fingerprint(ignorePointers ...string) string {
	return fingerprint.Compute(fingerprint.Request{
		Method: r.Method, Path: r.Path, Query: r.Query, ContentType: r.ContentType, Body: r.Body, IgnorePointers: ignorePointers,
	}).Hex()
}

// defaultWait is how long Do and Batch wait for another attempt's response.
const defaultWait = 30 * time.Second

// waitOr is the wait asked for, or fallback where nothing is said.
func (op Operation) waitOr(fallback time.Duration) time.Duration {
	if op.Wait == 0 {
		return fallback
	}
	return max(op.Wait, 0)
}

const minKeyBytes, maxKeyBytes = 8, 255

// checkKey is the service's own check, made before a request is.
func checkKey(key string) *Error {
	refuse := func(code Code, title, format string, args ...any) *Error {
		return &Error{Code: code, Status: 400, Title: title, Detail: fmt.Sprintf(format, args...), call: callBegin}
	}
	const missing, invalid = "The idempotency key is missing", "The idempotency key is not valid"
	switch n := len(key); {
	case n == 0:
		return refuse(ErrMissingKey, missing, "Send the idempotency key of the operation: %d to %d printable ASCII characters that stay the same over all retries.", minKeyBytes, maxKeyBytes)
	case n < minKeyBytes || n > maxKeyBytes:
		return refuse(ErrInvalidKey, invalid, "The key has %d bytes; a key has %d to %d printable ASCII characters.", n, minKeyBytes, maxKeyBytes)
	case !printableASCII(key):
		return refuse(ErrInvalidKey, invalid, "The key has a character outside printable ASCII (0x20 to 0x7E). Encode it, for example as base64url or hex.")
	case key[0] == ' ' || key[n-1] == ' ':
		return refuse(ErrInvalidKey, invalid, "The key begins or ends with a space. Keys are compared byte for byte and never trimmed; remove the space where the key is made.")
	}
	return nil
}

func printableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// beginWire is a begin as JSON.
type beginWire struct {
	Key              string            `json:"key"`
	Operation        string            `json:"operation,omitzero"`
	Caller           string            `json:"caller,omitzero"`
	Request          *requestWire      `json:"request,omitzero"`
	Fingerprint      string            `json:"fingerprint,omitzero"`
	Owner            string            `json:"owner"`
	LeaseSeconds     int64             `json:"lease_seconds,omitzero"`
	RetentionSeconds int64             `json:"retention_seconds,omitzero"`
	OnLeaseExpiry    string            `json:"on_lease_expiry,omitzero"`
	Metadata         map[string]string `json:"metadata,omitempty"`
}

type requestWire struct {
	Method      string  `json:"method,omitzero"`
	Path        string  `json:"path,omitzero"`
	Query       string  `json:"query,omitzero"`
	ContentType string  `json:"content_type,omitzero"`
	Body        *string `json:"body,omitzero"`
	BodyBase64  []byte  `json:"body_base64,omitzero"`
}

// wire makes the begin of op by an owner.
func (op Operation) wire(owner string) (beginWire, error) {
	if e := checkKey(op.Key); e != nil {
		return beginWire{}, e
	}
	w := beginWire{
		Key: op.Key, Operation: op.Name, Caller: op.Caller, Fingerprint: op.Fingerprint, Owner: owner, Metadata: op.Metadata,
	}
	var err error
	if w.LeaseSeconds, err = wholeSeconds("Lease", op.Lease); err != nil {
		return beginWire{}, err
	}
	if w.RetentionSeconds, err = wholeSeconds("Retention", op.Retention); err != nil {
		return beginWire{}, err
	}
	if op.Hold {
		w.OnLeaseExpiry = string(OnLeaseExpiryHold)
	}
	if r := op.Request; r != nil {
		w.Request = &requestWire{Method: r.Method, Path: r.Path, Query: r.Query, ContentType: r.ContentType}
		w.Request.Body, w.Request.BodyBase64 = bodyWire(r.Body)
	}
	return w, nil
}

// bodyWire sends text as text and anything else in base64: the bytes that
// arrive are the same. No body is neither.
func bodyWire(body []byte) (text *string, binary []byte) {
	switch {
	case len(body) == 0:
		return nil, nil
	case utf8.Valid(body):
		s := string(body)
		return &s, nil
	default:
		return nil, body
	}
}

// wholeSeconds refuses what the wire has no way to say, instead of rounding it.
func wholeSeconds(field string, d time.Duration) (int64, error) {
	if d < 0 || d%time.Second != 0 {
		return 0, &Error{Code: ErrInvalidRequest, Status: 400, call: callBegin, Detail: fmt.Sprintf("%s is %v; it must be whole seconds", field, d)}
	}
	return int64(d / time.Second), nil
}

// encode is v as JSON. What cannot be written is text that is not UTF-8.
func encode(call string, v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, &Error{Code: ErrInvalidRequest, Status: 400, call: call, Detail: "a member cannot be written as JSON in UTF-8", cause: err}
	}
	return body, nil
}
