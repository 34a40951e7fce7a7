// Package problem owns the failures that a caller may see: their kinds, the
// one table from kind to HTTP status and title, and the RFC 9457 document.
//
// It imports nothing of ours, writes to no connection and logs nothing.
// Expected answers of the service (a replay, a live lease of another holder)
// are values of the packages that decide them; they become problems only at
// the edge.
package problem

import (
	"fmt"
	"time"
)

// Error is a failure that may be told to the caller. Everything in it but the
// cause is public; the cause is logged and never sent.
type Error struct {
	Kind   Kind
	Detail string // what to do about it, in one sentence
	// Status replaces the kind's own status where a policy chooses it
	// (fingerprint_mismatch only); zero means the table's.
	Status int
	// Fields says which members or parameters are wrong (invalid_request).
	Fields []Field
	// RetryAfter is sent as the header, in whole seconds rounded up, and as
	// the member retry_after; zero sends neither.
	RetryAfter time.Duration
	// Members are added to the document under their own names.
	Members []Member

	cause error
}

// Field is one thing wrong with a request. Pointer (RFC 6901) is set for a
// member of the JSON body, Parameter for a header, query or path parameter.
type Field struct {
	Pointer   string `json:"pointer,omitempty"`
	Parameter string `json:"parameter,omitempty"`
	Reason    string `json:"reason"`
}

// Member is one additional member of a problem document (RFC 9457, section 3.2).
type Member struct {
	Name  string
	Value any
}

// New makes an Error of the kind with a detail for the caller.
func New(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}

// Invalid makes an invalid_request that names what is wrong.
func Invalid(fields ...Field) *Error {
	detail := "Mend the members or parameters named in errors and send the request again."
	if len(fields) == 1 {
		where := fields[0].Pointer
		if where == "" {
			where = fields[0].Parameter
		}
		if where != "" {
			detail = where + ": " + fields[0].Reason
		} else {
			detail = fields[0].Reason
		}
	}
	return &Error{Kind: InvalidRequest, Detail: detail, Fields: fields}
}

// Unavailable makes a 503: the cause is logged, the caller is told to repeat.
func Unavailable(cause error) *Error {
	e := New(KindUnavailable, "The service cannot reach its database right now. Repeat the same call; nothing is lost by repeating it.")
	e.RetryAfter = time.Second
	e.cause = cause
	return e
}

// Internal makes a 500: a fixed text for the caller, the cause for the log.
func Internal(cause error) *Error {
	e := New(KindInternal, "Something failed inside the service. Repeat the same call; if it goes on, report the request_id.")
	e.cause = cause
	return e
}

// WithCause returns e after keeping cause for the log.
func (e *Error) WithCause(cause error) *Error {
	e.cause = cause
	return e
}

// Error is for logs: kind, detail and cause.
func (e *Error) Error() string {
	if e.cause != nil {
		return string(e.Kind) + ": " + e.Detail + ": " + e.cause.Error()
	}
	return string(e.Kind) + ": " + e.Detail
}

// Unwrap lets errors.Is match the kind as well as the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.cause}
}

// HTTPStatus is the status of the answer that carries e.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Kind.Status()
}
