package client

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// refusalError is what the middleware itself refuses a request for.
type refusalError struct {
	code   Code
	status int
	detail string
	cause  error // logged, never sent; nil where the request says it all
}

func (r refusalError) Error() string { return "onceward: " + string(r.code) + ": " + r.detail }

// said is what an end user is told of a code: what it means for their request,
// where the service's own words speak to whoever calls the service.
type said struct{ title, detail string }

func saidOf(code Code) said {
	switch code {
	case ErrMissingKey:
		return said{"The idempotency key is missing", "Send the header " + keyHeader + " with a key that is new for every new operation and the same for every retry of it."}
	case ErrInvalidKey:
		return said{"The idempotency key is not valid", ""}
	case ErrInProgress:
		return said{"Another attempt is in progress", "A request with this key is being worked on. Send it again after Retry-After, as it is and with the same key."}
	case ErrOutcomeUnknown:
		return said{"The outcome of an earlier attempt is unknown", "An earlier request with this key may or may not have been done, and it has not been decided yet. Do not send it under a new key before you know: it may be done twice."}
	case ErrMismatch:
		return said{"The key was used for another request", "This key belongs to another request. Use a new key for a new request; never change what is sent under an old one."}
	case ErrRateLimited:
		return said{"Too many requests", "Send the same request again after Retry-After, with the same key."}
	case ErrBodyTooLarge, ErrRequestTooLarge:
		return said{"The request is too large", "The body of this request is over the limit."}
	case ErrInvalidRequest:
		return said{"The request is not valid", ""}
	case ErrForbidden:
		return said{"The caller is not known", ""}
	case ErrInternal:
		return said{"Internal error", "The request was not run."}
	default:
		return said{"Temporarily unavailable", "The request was not run, since it cannot be checked at the moment whether it has been done before. Send it again after Retry-After, as it is and with the same key."}
	}
}

// document is the problem document that an end user gets (RFC 9457).
type document struct {
	Type           string    `json:"type"`
	Title          string    `json:"title"`
	Status         int       `json:"status"`
	Detail         string    `json:"detail"`
	Code           Code      `json:"code"`
	RetryAfter     int       `json:"retry_after,omitzero"`
	Differs        []string  `json:"differs,omitzero"`
	Attempt        int       `json:"attempt,omitzero"`
	LeaseExpiresAt time.Time `json:"lease_expires_at,omitzero"`
}

// defaultRetryAfter is what an end user is told to wait where nothing else is known.
const defaultRetryAfter = 2 * time.Second

// refuse answers a request that does not run.
func (p *protector) refuse(w http.ResponseWriter, r *http.Request, err error) {
	d := documentOf(err)
	d.Type = p.config.ProblemBaseURL + "/" + string(d.Code)
	if d.Status >= http.StatusInternalServerError || d.Status == http.StatusForbidden {
		p.client.logger.ErrorContext(r.Context(), "onceward: a request was refused without having run",
			slog.Int("status", d.Status), slog.String("error", causeText(err)))
	}
	body, err := json.Marshal(d)
	if err != nil { // its texts are all UTF-8
		http.Error(w, d.Title, d.Status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if d.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(d.RetryAfter))
	}
	w.WriteHeader(d.Status)
	_, _ = w.Write(body) //nolint:gosec // JSON, under its media type and nosniff
}

func documentOf(err error) document {
	var d document
	if own, ok := errors.AsType[refusalError](err); ok {
		words := saidOf(own.code)
		return document{Title: words.title, Status: own.status, Detail: own.detail, Code: own.code}
	}
	e, ok := errors.AsType[*Error](err)
	if !ok { // of the request's own context, most likely
		e = &Error{Code: ErrUnavailable}
	}
	d.Code, d.Status, d.RetryAfter = e.Code, e.Status, int(math.Ceil(e.RetryAfter.Seconds()))
	switch e.Code {
	case ErrInvalidKey:
		d.Detail = e.Detail
	case ErrMissingKey, ErrOutcomeUnknown, ErrRateLimited, ErrBodyTooLarge, ErrRequestTooLarge:
	case ErrMismatch:
		d.Differs = e.Differs
	case ErrInProgress:
		d.Attempt, d.LeaseExpiresAt = e.Attempt, e.LeaseExpiresAt
	case ErrInvalidRequest, ErrUnexpectedAnswer:
		d.Code, d.Status, d.RetryAfter = ErrInternal, http.StatusInternalServerError, 0
	default:
		d.Code, d.Status = ErrUnavailable, http.StatusServiceUnavailable
		d.RetryAfter = max(d.RetryAfter, int(defaultRetryAfter.Seconds()))
	}
	words := saidOf(d.Code)
	d.Title = words.title
	if d.Detail == "" {
		d.Detail = words.detail
	}
	return d
}

func causeText(err error) string {
	if own, ok := errors.AsType[refusalError](err); ok && own.cause != nil {
		return own.Error() + ": " + own.cause.Error()
	}
	return err.Error()
}
