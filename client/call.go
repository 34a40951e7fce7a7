package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	mediaJSON    = "application/json"
	mediaMessage = "application/http"

	leaseHeader = "Onceward-Lease"
	userAgent   = "onceward-go"

	// maxAnswerBytes is what is read of an answer: more than any stored body.
	maxAnswerBytes = 64 << 20
)

// request is one call of the service; every try of it is the same.
type request struct {
	call        string // the verb, as in the wire contract
	method      string
	path        string // with its query
	body        []byte // nil: none
	contentType string
	token       LeaseToken    // empty: not a call of a lease holder
	wait        time.Duration // whole seconds; a begin's Prefer: wait
	header      [][2]string
	maxBytes    int64 // 0: maxAnswerBytes
}

// answer is what came back with a status of 2xx.
type answer struct {
	status int
	header http.Header
	body   []byte
	since  time.Time // by the client's clock: what the answer tells of happened no earlier
}

// do makes a call, again and again within budget where nothing definite comes
// back. sent says whether any try may have reached the service. Its error is
// an *Error, or that of ctx.
func (c *Client) do(ctx context.Context, r request, budget time.Duration) (a answer, sent bool, err error) {
	ctx, span := c.telemetry.start(ctx, r.call)
	tries := 0
	defer func() { c.telemetry.finish(ctx, span, r.call, tries, statusOf(a, err), err) }()

	began := c.clock.Now()
	for {
		elapsed := c.clock.Now().Sub(began)
		var tried bool
		a, tried, err = c.try(ctx, r, maxRetryFor-elapsed)
		if tried {
			tries++
		}
		sent = sent || tried
		if err == nil || ctx.Err() != nil || !worthRepeating(err) || !sent {
			return a, sent, err
		}
		pause := max(backoff(max(tries, 1), c.jitterFunc), retryAfter(err))
		if c.clock.Now().Sub(began)+pause > budget {
			return a, sent, err
		}
		if sleep(ctx, c.clock, pause) != nil {
			return a, sent, canceled(ctx, r.call)
		}
	}
}

// try makes one try of a call. room is what is left of the time in which a
// begin can be repeated; the try is over by then. tried is false where the
// breaker refused it.
func (c *Client) try(ctx context.Context, r request, room time.Duration) (a answer, tried bool, err error) {
	if ctx.Err() != nil {
		return answer{}, false, canceled(ctx, r.call)
	}
	report := c.breaker.note
	if r.token == "" {
		ok, wait := c.breaker.allow()
		if !ok {
			return answer{}, false, &Error{
				Code: ErrUnreachable, call: r.call, RetryAfter: wait,
				Detail: "the service has not answered for a while and is not asked for the moment",
			}
		}
		report = c.breaker.report
	}
	r.wait = min(r.wait, max(room-maxRetryFor/5, 0).Truncate(time.Second))
	timeout := c.config.CallTimeout + r.wait
	if r.call == callBegin || r.call == callBeginBatch {
		timeout = min(timeout, max(room, time.Second))
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	a, err = c.roundTrip(bounded, r)
	if ctx.Err() != nil && err != nil {
		report(undecided)
		return a, true, canceled(ctx, r.call)
	}
	if report(healthOf(err)) {
		c.telemetry.breaks.Add(ctx, 1)
		c.logger.WarnContext(ctx, "onceward: the service does not answer; calls are refused at once until it does", slog.String("call", r.call))
	}
	return a, true, err
}

// once is a body that can be read once. http.Transport may send a request
// again whose body it can rewind, or that has none, and that carries
// Idempotency-Key; a body of a type it does not know, and no GetBody, forbid it.
type once struct{ *bytes.Reader }

func (once) Close() error { return nil }

func (c *Client) roundTrip(ctx context.Context, r request) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, c.config.BaseURL+r.path, http.NoBody)
	if err != nil {
		return answer{}, &Error{Code: ErrInvalidRequest, call: r.call, Detail: "no request can be made of it", cause: err}
	}
	if r.body != nil {
		req.Body, req.ContentLength = once{bytes.NewReader(r.body)}, int64(len(r.body))
		req.Header.Set("Content-Type", r.contentType)
	}
	req.Header.Set("Authorization", "Bearer "+c.config.APIKey)
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", mediaJSON)
	if r.token != "" {
		req.Header.Set(leaseHeader, string(r.token))
	}
	if r.wait > 0 {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(int(r.wait/time.Second)))
	}
	for _, h := range r.header {
		req.Header.Set(h[0], h[1])
	}
	propagate(ctx, req.Header)
	for name := range req.Header {
		if !printableASCII(req.Header.Get(name)) { // net/http would call it a failure of the network
			return answer{}, &Error{Code: ErrInvalidRequest, Status: http.StatusBadRequest, call: r.call, Detail: name + " has a character outside printable ASCII"}
		}
	}

	sentAt := c.clock.Now()
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return answer{}, unreachable(r.call, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end, or is given up
	most := r.maxBytes
	if most == 0 {
		most = maxAnswerBytes
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return answer{}, unreachable(r.call, fmt.Errorf("read the answer: %w", err))
	case int64(len(body)) > most:
		return answer{}, unexpected(r.call, resp.StatusCode, "the answer is longer than any that the service gives", nil)
	case resp.StatusCode/100 != 2:
		return answer{}, refusalOf(r.call, resp, body)
	}
	since := sentAt
	if r.wait > 0 { // it was decided at the end of the wait: a second ago, with a slow network
		since = laterOf(sentAt, c.clock.Now().Add(-time.Second))
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body, since: since}, nil
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// problem is a problem document (RFC 9457) of the service.
type problem struct {
	Type           string    `json:"type"`
	Title          string    `json:"title"`
	Status         int       `json:"status"`
	Detail         string    `json:"detail"`
	Code           Code      `json:"code"`
	RequestID      string    `json:"request_id"`
	RetryAfter     float64   `json:"retry_after"`
	Differs        []string  `json:"differs"`
	Attempt        int       `json:"attempt"`
	LeaseExpiresAt time.Time `json:"lease_expires_at"`
	Errors         []Fault   `json:"errors"`
}

func (p problem) failure(call string, status int) *Error {
	return &Error{
		Code: p.Code, Status: status, Type: p.Type, Title: p.Title, Detail: p.Detail, RequestID: p.RequestID,
		RetryAfter: time.Duration(p.RetryAfter * float64(time.Second)),
		Differs:    p.Differs, Attempt: p.Attempt, LeaseExpiresAt: p.LeaseExpiresAt, Faults: p.Errors, call: call,
	}
}

// refusalOf reads an answer that is not 2xx. One without a code comes from
// something between the service and here: only what its status says is taken.
func refusalOf(call string, resp *http.Response, body []byte) *Error {
	var p problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		p = problem{}
		switch resp.StatusCode {
		case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			p.Code, p.Detail = ErrUnavailable, "something before the service answered in its place"
		case http.StatusTooManyRequests:
			p.Code, p.Detail = ErrRateLimited, "something before the service limits the rate"
		default:
			return unexpected(call, resp.StatusCode, fmt.Sprintf("the answer has status %d and is no problem document of the service; is BaseURL right?", resp.StatusCode), err)
		}
	}
	e := p.failure(call, resp.StatusCode)
	if e.RetryAfter == 0 {
		e.RetryAfter = retryAfterOf(resp.Header)
	}
	return e
}

// retryAfterOf is the Retry-After of an answer (RFC 9110, section 10.2.3), an
// hour at the most; 0 where there is none. Where it is a date, the answer's own
// Date is what it is counted from: the clocks need not agree.
func retryAfterOf(h http.Header) time.Duration {
	after := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(after); err == nil {
		return time.Duration(min(max(seconds, 0), 3600)) * time.Second
	}
	at, err := http.ParseTime(after)
	if err != nil {
		return 0
	}
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	return min(max(at.Sub(date), 0), time.Hour)
}

func unreachable(call string, cause error) *Error {
	return &Error{Code: ErrUnreachable, call: call, Detail: "no answer came from the service", cause: cause}
}

func unexpected(call string, status int, detail string, cause error) *Error {
	return &Error{Code: ErrUnexpectedAnswer, Status: status, call: call, Detail: detail, cause: cause}
}

func canceled(ctx context.Context, call string) error {
	return fmt.Errorf("onceward: %s: %w", call, ctx.Err())
}

// worthRepeating says whether the same call may succeed a moment later.
func worthRepeating(err error) bool {
	switch CodeOf(err) {
	case ErrUnreachable, ErrUnavailable, ErrInternal, ErrRateLimited:
		return true
	default:
		return false
	}
}

func healthOf(err error) health {
	if OutOfReach(err) {
		return failing
	}
	return healthy
}

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

func statusOf(a answer, err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return a.status
}

// decode reads the body of an answer.
func (a answer) decode(call string, into any) error {
	if err := json.Unmarshal(a.body, into); err != nil {
		return unexpected(call, a.status, "the answer is not the JSON that this version understands", err)
	}
	return nil
}
