package client

import (
	"errors"
	"strings"
	"time"
)

// Code says why a call was refused. It is an error itself, so that
// errors.Is(err, client.ErrInProgress) works through any wrapping, and even
// where err was made by another copy of this package: codes are compared, not
// types and not texts.
type Code string

// The codes of the service (wire contract, section 8).
const (
	ErrInvalidRequest       Code = "invalid_request"
	ErrInvalidKey           Code = "invalid_key"
	ErrMissingKey           Code = "missing_key"
	ErrUnauthenticated      Code = "unauthenticated"
	ErrForbidden            Code = "forbidden"
	ErrSuspended            Code = "suspended"
	ErrReauthenticate       Code = "reauthenticate"
	ErrNotFound             Code = "not_found"
	ErrMethodNotAllowed     Code = "method_not_allowed"
	ErrInProgress           Code = "in_progress"
	ErrOutcomeUnknown       Code = "outcome_unknown"
	ErrMismatch             Code = "fingerprint_mismatch"
	ErrAlreadyCompleted     Code = "already_completed"
	ErrLeaseLost            Code = "lease_lost"
	ErrLeaseLive            Code = "lease_live"
	ErrRecordChanged        Code = "record_changed"
	ErrNotUnknown           Code = "not_unknown"
	ErrImmutable            Code = "immutable"
	ErrNameTaken            Code = "name_taken"
	ErrLastAdmin            Code = "last_admin"
	ErrNotSuspended         Code = "not_suspended"
	ErrPreconditionFailed   Code = "precondition_failed"
	ErrPreconditionRequired Code = "precondition_required"
	ErrBodyTooLarge         Code = "body_too_large"
	ErrRequestTooLarge      Code = "request_too_large"
	ErrUnsupportedMediaType Code = "unsupported_media_type"
	ErrRateLimited          Code = "rate_limited"
	ErrQuotaExceeded        Code = "quota_exceeded"
	ErrInternal             Code = "internal"
	ErrUnavailable          Code = "unavailable"
)

// The codes that this package makes where the service gave none.
const (
	// ErrUnreachable says that no answer came: the network failed until the
	// retries were used up, or the circuit breaker is open.
	ErrUnreachable Code = "unreachable"
	// ErrUnexpectedAnswer says that an answer came which this version does not
	// understand, such as an outcome or a code that it does not know, or the
	// error page of a proxy. The operation must not be run.
	ErrUnexpectedAnswer Code = "unexpected_answer"
	// ErrClosed says that the client was closed before the call.
	ErrClosed Code = "client_closed"
)

// Error is the code.
func (c Code) Error() string { return "onceward: " + string(c) }

// OncewardCode is the code. It is how two copies of this package in one
// program tell each other's errors: by a method, not by a type.
func (c Code) OncewardCode() string { return string(c) }

// Is compares codes, also with those of another copy of this package.
func (c Code) Is(target error) bool { return sameCode(string(c), target) }

// Error is a refusal or a failure with everything that was said about it. It
// holds no key, no token and no body.
type Error struct {
	Code   Code
	Status int    // of the answer; 0 where none came
	Type   string // the address of the code's page; empty where no answer came
	Title  string
	Detail string // what to do about it, in a sentence

	// RequestID names the request in the service's log; empty where no answer came.
	RequestID string
	// RetryAfter is how long the service asks to wait before the same call is
	// made again; 0 where it says nothing. ErrOutcomeUnknown never has one:
	// waiting does not decide it.
	RetryAfter time.Duration
	// Differs says in which parts the request is not the one that the key is
	// bound to: operation, method, path, query, body, or fingerprint where only
	// a digest is known (ErrMismatch).
	Differs []string
	// Attempt and LeaseExpiresAt are those of the attempt in progress
	// (ErrInProgress).
	Attempt        int
	LeaseExpiresAt time.Time
	// Faults name what is wrong with a request (ErrInvalidRequest).
	Faults []Fault

	call  string // the verb of the call, for the text
	cause error
}

// Fault is one thing wrong with a request: Pointer (RFC 6901) for a member of
// the JSON body, Parameter for a header, query or path parameter.
type Fault struct {
	Pointer   string `json:"pointer,omitzero"`
	Parameter string `json:"parameter,omitzero"`
	Reason    string `json:"reason"`
}

// Error is for logs.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("onceward: ")
	if e.call != "" {
		b.WriteString(e.call + ": ")
	}
	b.WriteString(string(e.Code))
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if len(e.Differs) > 0 {
		b.WriteString(" (differs in " + strings.Join(e.Differs, ", ") + ")")
	}
	if e.RequestID != "" {
		b.WriteString(" (request " + e.RequestID + ")")
	}
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	return b.String()
}

// Unwrap is what lies behind: an error of the network, or of the function that ran.
func (e *Error) Unwrap() error { return e.cause }

// OncewardCode is the code, as Code.OncewardCode.
func (e *Error) OncewardCode() string { return string(e.Code) }

// Is compares codes, so that errors.Is(err, client.ErrMismatch) works.
func (e *Error) Is(target error) bool { return sameCode(string(e.Code), target) }

// coded is what every error of this package, and of every other copy of it, is.
type coded interface{ OncewardCode() string }

// sameCode looks at target alone: errors.Is walks the chain of the other side.
func sameCode(code string, target error) bool {
	t, ok := target.(coded)
	return ok && t.OncewardCode() == code
}

// CodeOf is the code of err, found through any wrapping and in errors of any
// copy of this package; empty where err has none.
func CodeOf(err error) Code {
	var c interface {
		error
		coded
	}
	if errors.As(err, &c) {
		return Code(c.OncewardCode())
	}
	return ""
}

// OutOfReach reports whether err says that Onceward could not be asked, or
// could not decide: nothing is known of the key, and the same call may succeed
// later. A refusal is not out of reach.
func OutOfReach(err error) bool {
	switch CodeOf(err) {
	case ErrUnreachable, ErrUnavailable, ErrInternal:
		return true
	default:
		return false
	}
}
