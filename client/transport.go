package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const keyHeader = "Idempotency-Key"

// The two ways in which an outbound call can fail to give an answer. Which one
// it is decides what a protected operation says of itself: NotDone, or nothing.
const (
	// ErrNotSent says that the request certainly did not reach the provider.
	ErrNotSent Code = "not_sent"
	// ErrCallUnknown says that the provider may have done what it was asked.
	ErrCallUnknown Code = "call_unknown"
)

// Transport carries the calls of an operation to a provider, such as a payment
// service: each with the Idempotency-Key of WithKey, and never twice by
// accident. Use it as the Transport of an http.Client, or of a
// httputil.ReverseProxy.
//
// net/http sends a POST with that header again by itself where a kept
// connection dies and the body can be rewound. Transport forbids it: a request
// that may have arrived is sent again only if it is safe (GET, HEAD, OPTIONS),
// or if HonoursKey says that the provider does a key once.
//
// A request that changes something and has no key is refused (ErrNotSent).
type Transport struct {
	// Base carries the requests. Nil: http.DefaultTransport.
	Base http.RoundTripper
	// HonoursKey says that the provider promises to do a request once per key,
	// and to answer a repeat as it answered the first. Only then is a request
	// sent again that may have arrived: after a broken connection, 409, 425, 429,
	// 500, 502, 503 and 504.
	HonoursKey bool
	// MaxTries is how often a request is sent at the most. Zero: 3.
	MaxTries int
	// MaxPause is the longest pause that a Retry-After can ask for; an answer that
	// asks for more is returned. Zero: 10 s.
	MaxPause time.Duration
	// Clock measures the pauses. Nil: the process's.
	Clock Clock
}

type callKey struct{}

// WithKey gives the requests under ctx their Idempotency-Key: one from Key or
// DownstreamKey, for one step at one provider. It is for one request (and its
// repeats): two different requests under one key are a mistake.
func WithKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, callKey{}, key)
}

// RoundTrip sends req, and sends it again where that is safe. Its errors have
// the code ErrNotSent or ErrCallUnknown.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	safe := req.Method == "" || req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions
	key, ok := req.Context().Value(callKey{}).(string)
	if !ok {
		key = req.Header.Get(keyHeader)
	}
	if key == "" && !safe {
		closeBody(req.Body)
		return nil, &Error{Code: ErrNotSent, call: req.Method, Detail: "the request has no idempotency key; give it one with client.WithKey"}
	}
	clock := t.Clock
	if clock == nil {
		clock = systemClock{}
	}
	repeatable := safe || t.HonoursKey
	for n := 1; ; n++ {
		resp, err := t.send(req, key, safe, n)
		pause, again := t.again(resp, err, repeatable)
		if !again || n >= orDefault(t.MaxTries, 3) || !rewindable(req) {
			return resp, err
		}
		if resp != nil {
			drain(resp)
		}
		if pause == 0 {
			pause = backoff(n, jitter)
		}
		if slept := sleep(req.Context(), clock, pause); slept != nil {
			return nil, callError(req, err, slept)
		}
	}
}

// send sends req once, and keeps net/http from sending it twice.
func (t *Transport) send(req *http.Request, key string, safe bool, n int) (*http.Response, error) {
	out := req.Clone(req.Context())
	if n > 1 && out.GetBody != nil {
		var err error
		if out.Body, err = out.GetBody(); err != nil {
			return nil, &Error{Code: ErrNotSent, call: req.Method, Detail: "the body cannot be read again", cause: err}
		}
	}
	if !safe {
		out.Header.Del(keyHeader)
		if out.Body == nil || out.Body == http.NoBody {
			// With no body at all, only a name that net/http does not look for
			// keeps it from repeating the request. Names of headers are the same
			// in any letter case (RFC 9110, section 5.1).
			out.Header[strings.ToLower(keyHeader)] = []string{key}
		} else {
			out.Header.Set(keyHeader, key)
			out.Body, out.GetBody = oneWay{out.Body}, nil
		}
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(out)
	if err != nil {
		return nil, callError(req, err, nil)
	}
	return resp, nil
}

// oneWay hides what kind of body it is, so that nobody can rewind it.
type oneWay struct{ io.ReadCloser }

// callError says whether the request may have arrived. Only what proves that
// no connection was ever there counts as not sent.
func callError(req *http.Request, err, ctxErr error) error {
	code, detail := ErrCallUnknown, "the provider may have received the request; its outcome is unknown"
	if neverConnected(err) {
		code, detail = ErrNotSent, "no connection to the provider was made"
	}
	return &Error{Code: code, call: req.Method, Detail: detail, cause: errors.Join(err, ctxErr)}
}

func neverConnected(err error) bool {
	if CodeOf(err) == ErrNotSent {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// again says whether to send the request once more, and after what pause (0:
// the transport's own).
func (t *Transport) again(resp *http.Response, err error, repeatable bool) (pause time.Duration, again bool) {
	if err != nil {
		return 0, neverConnected(err) || repeatable
	}
	if !repeatable {
		return 0, false
	}
	switch resp.StatusCode {
	case http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return 0, false
	}
	pause = retryAfterOf(resp.Header)
	return pause, pause <= orDefault(t.MaxPause, 10*time.Second)
}

func orDefault[T comparable](value, fallback T) T {
	setDefault(&value, fallback)
	return value
}

func rewindable(req *http.Request) bool {
	return req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
}

func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close()
	}
}

// drain reads what is left of an answer that nobody wants, so that its
// connection can be used again; not for ever.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

// Verdict is what an answer of a provider says about the work.
type Verdict string

// The verdicts.
const (
	VerdictDone    Verdict = "done"    // 2xx
	VerdictRefused Verdict = "refused" // it certainly did not happen
	VerdictUnknown Verdict = "unknown" // it may have happened
)

// VerdictOf tells a definite refusal from an unknown outcome: call it with what
// an http.Client with a Transport returned. Refused are errors of the code
// ErrNotSent and every 4xx but 408 and 409; all else that is no success is
// unknown.
func VerdictOf(resp *http.Response, err error) Verdict {
	switch {
	case err != nil && neverConnected(err):
		return VerdictRefused
	case err != nil || resp == nil:
		return VerdictUnknown
	case resp.StatusCode/100 == 2:
		return VerdictDone
	case resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusRequestTimeout && resp.StatusCode != http.StatusConflict:
		return VerdictRefused
	default:
		return VerdictUnknown
	}
}

// AfterCall is the error for a Func to return where a provider did not do the
// work: NotDone after a definite refusal, else one that leaves the outcome
// unknown; nil where it is done. A refusal that is itself the answer of the
// operation (a declined card) is better returned as a Response.
func AfterCall(resp *http.Response, err error) error {
	verdict := VerdictOf(resp, err)
	switch {
	case err != nil:
	case resp != nil:
		err = fmt.Errorf("onceward: the provider answered %s", resp.Status)
	default:
		err = errors.New("onceward: the call gave neither an answer nor an error")
	}
	switch verdict {
	case VerdictDone:
		return nil
	case VerdictRefused:
		return NotDone(err)
	default:
		return err
	}
}
