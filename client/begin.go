package client

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// The verbs of the calls: names of spans, labels of counters.
const (
	callBegin         = "begin"
	callComplete      = "complete"
	callRenew         = "renew"
	callRelease       = "release"
	callUnknown       = "declare_unknown"
	callRecoveryPoint = "set_recovery_point"
	callBeginBatch    = "begin_batch"
	callCompleteBatch = "complete_batch"
	callContract      = "contract"
	callInspect       = "inspect"
	callSearch        = "search"
	callForget        = "forget"
	callResolve       = "resolve"
	callResolveBatch  = "resolve_batch"
)

// Begin asks whether the operation may run: POST /v1/keys. It answers
// *Acquired (run it, then Complete, Release or DeclareUnknown) or *Replay (do
// not). Every refusal is an error: ErrInProgress after Operation.Wait,
// ErrMismatch, ErrOutcomeUnknown, and the others of the wire contract; where
// OutOfReach reports true of it, nothing is known of the key. Where ctx ends, it
// is ctx's error, and has no code.
//
// Begin makes the owner of the attempt, so that its own retries cannot meet
// their own lost answer. Where ctx ends before the answer is there, what the
// begin may have acquired is given back in the background.
//
// Do is Begin with everything that has to follow, and harder to get wrong.
func (c *Client) Begin(ctx context.Context, op Operation) (Outcome, error) {
	return c.begin(ctx, op, op.waitOr(0))
}

func (c *Client) begin(ctx context.Context, op Operation, wait time.Duration) (Outcome, error) {
	if c.isClosed() {
		return nil, &Error{Code: ErrClosed, call: callBegin, Detail: "the client was closed"}
	}
	wire, err := op.wire(rand.Text())
	if err != nil {
		return nil, err
	}
	body, err := encode(callBegin, wire)
	if err != nil {
		return nil, err
	}
	r := request{call: callBegin, method: http.MethodPost, path: "/v1/keys", body: body, contentType: mediaJSON}
	deadline := c.clock.Now().Add(wait)
	for {
		asked := c.clock.Now()
		r.wait = max(0, min(deadline.Sub(asked), maxRetryFor)).Truncate(time.Second)
		a, sent, err := c.do(ctx, r, c.config.RetryFor)
		if err == nil {
			return c.outcome(ctx, op, a)
		}
		if ctx.Err() != nil && sent {
			c.abandon(ctx, op, r, asked)
		}
		left := deadline.Sub(c.clock.Now())
		if CodeOf(err) != ErrInProgress || left <= 0 {
			c.noteConflict(ctx, op, err)
			return nil, err
		}
		// The service has waited as long as it was asked to. Where it could not
		// (it has too many waiters, or is ending), its Retry-After is what to wait.
		pause := min(retryAfter(err), left) - c.clock.Now().Sub(asked)
		if sleep(ctx, c.clock, pause) != nil {
			return nil, canceled(ctx, callBegin)
		}
	}
}

func (c *Client) outcome(ctx context.Context, op Operation, a answer) (Outcome, error) {
	var w outcomeWire
	if err := a.decode(callBegin, &w); err != nil {
		return nil, err
	}
	outcome, err := w.result(callBegin, a.status, op.Lease, a)
	if err != nil {
		return nil, err
	}
	if replay, ok := outcome.(*Replay); ok {
		c.noteReplay(ctx, op, replay)
	}
	return outcome, nil
}

// abandon gives back what a begin may have acquired whose caller is gone: only
// this client knows the owner, so nobody else could.
func (c *Client) abandon(ctx context.Context, op Operation, r request, asked time.Time) {
	c.background(ctx, func(ctx context.Context) {
		r.wait = 0
		a, _, err := c.do(ctx, r, min(c.config.RetryFor, maxRetryFor-c.clock.Now().Sub(asked)))
		if err != nil {
			return // it has acquired nothing, or its lease will end by itself
		}
		var w outcomeWire
		if a.decode(callBegin, &w) != nil {
			return
		}
		if outcome, err := w.result(callBegin, a.status, op.Lease, a); err == nil {
			if acquired, ok := outcome.(*Acquired); ok {
				_ = c.Release(ctx, acquired.Held()) // or the lease will end by itself
			}
		}
	})
}

// keyPrefixBytes is how much of a key a log may show: enough to find it by,
// not enough to use it.
const keyPrefixBytes = 4

func keyPrefix(key string) slog.Attr {
	return slog.String("key_prefix", key[:min(keyPrefixBytes, len(key))])
}

// noteReplay counts and logs a replay.
func (c *Client) noteReplay(ctx context.Context, op Operation, r *Replay) {
	c.telemetry.replays.Add(ctx, 1)
	c.logger.InfoContext(ctx, "idempotency.replay",
		slog.String("operation", op.name()), keyPrefix(op.Key), slog.String("id", string(r.ID)),
		slog.Duration("age", r.Age), slog.Int("original_status", r.Response.Status), slog.Int("attempt", r.Attempt))
}

// noteConflict counts and logs a begin that was refused over its key.
func (c *Client) noteConflict(ctx context.Context, op Operation, err error) {
	code := CodeOf(err)
	if code != ErrInProgress && code != ErrMismatch && code != ErrOutcomeUnknown {
		return
	}
	c.telemetry.conflicts.Add(ctx, 1, metric.WithAttributes(codeAttr(err)))
	attrs := []any{slog.String("code", string(code)), slog.String("operation", op.name()), keyPrefix(op.Key)}
	if e, ok := errors.AsType[*Error](err); ok {
		attrs = append(attrs, slog.Int("status", e.Status), slog.String("request_id", e.RequestID))
		if code == ErrInProgress {
			attrs = append(attrs, slog.Int("attempt", e.Attempt), slog.Time("lease_expires_at", e.LeaseExpiresAt))
		}
		if code == ErrMismatch {
			attrs = append(attrs, slog.Any("differs", e.Differs))
		}
	}
	c.logger.WarnContext(ctx, "idempotency.conflict", attrs...)
}

// name is the operation as logs show it.
func (op Operation) name() string {
	if op.Name == "" && op.Request != nil {
		return op.Request.Method // the path is the end user's own text
	}
	return op.Name
}
