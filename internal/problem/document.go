package problem

import (
	"errors"
	"math"
	"strconv"

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

	out := make([]byte, 0, 512)
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = jsontext.AppendQuote(out, m.Name); err != nil {
			return nil, err
		}
		if out, err = appendValue(append(out, ':'), m.Value); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// appendValue writes what most members hold without reflection: a storm of
// refusals is when it counts.
func appendValue(out []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case string:
		// What is not UTF-8 becomes U+FFFD: the error says so, and is no reason
		// to answer nothing.
		out, _ = jsontext.AppendQuote(out, v)
		return out, nil
	case int:
		return strconv.AppendInt(out, int64(v), 10), nil
	default:
		text, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true))
		return append(out, text...), err
	}
}
