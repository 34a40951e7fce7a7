package problem

import (
	"errors"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// PagePath is the path below which every code has its page; with the
// service's own address before it, it is the "type" of a problem.
const PagePath = "/problems/"

// From returns err as an *Error: itself, or an internal error that keeps err
// as its cause for the log.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Internal(err)
}

// RetryAfterSeconds is the value of Retry-After (RFC 9110, section 10.2.3):
// whole seconds, rounded up; 0 where the header is not sent.
func (e *Error) RetryAfterSeconds() int {
	return int(math.Ceil(e.RetryAfter.Seconds()))
}

// Document renders e as application/problem+json (RFC 9457, section 3).
// baseURL is the service's own address without a slash at its end; requestID
// is the value of the Request-Id header.
func (e *Error) Document(baseURL, requestID string) ([]byte, error) {
	entry, ok := Lookup(e.Kind)
	if !ok {
		entry, _ = Lookup(KindInternal)
	}
	members := []Member{
		{"type", baseURL + PagePath + string(entry.Kind)},
		{"title", entry.Title},
		{"status", e.HTTPStatus()},
		{"detail", e.Detail},
		{"code", string(entry.Kind)},
		{"request_id", requestID},
	}
	if e.RetryAfter > 0 {
		members = append(members, Member{"retry_after", e.RetryAfterSeconds()})
	}
	if len(e.Fields) > 0 {
		members = append(members, Member{"errors", e.Fields})
	}
	members = append(members, e.Members...)

	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := jsontext.AppendQuote(nil, m.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.Value, jsontext.AllowInvalidUTF8(true))
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}
