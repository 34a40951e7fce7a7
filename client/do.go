package client

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Func does the operation once. ctx ends when the caller's does, and when the
// lease is lost (its cause then has the code ErrLeaseLost).
//
// What it returns decides what is stored:
//
//   - a Response: it is stored, whatever its status, and every retry gets it.
//   - NotDone(err): nothing happened; the key is free at once.
//   - StoreFailure(response, err): it failed for good; every retry gets response.
//   - any other error, and a panic: nobody knows whether it happened. The record
//     is unknown, and nothing runs again until a person decides.
type Func func(ctx context.Context, lease *Lease) (Response, error)

// Result is how an operation ended: now, or in an earlier attempt.
type Result struct {
	ID       RecordID
	Attempt  int // that gave the response
	Response Response
	// Replay says that nothing ran now: the response is an earlier attempt's.
	// Age is then the time since the record was first created.
	Replay bool
	Age    time.Duration
	// Stored says that the record has the response. It is false where the
	// service could not be reached for as long as Config.StoreTimeout, in which
	// case storing goes on in the background, and where the policy does not
	// store this status.
	Stored bool

	delivered bool // the record knows how the operation ended
}

// NotDone says that nothing happened: the operation certainly did not run, such
// as after a refused connection. The key is free at once, for a changed request
// too if no attempt has set a recovery point. Never wrap a time-out in it.
func NotDone(err error) error { return &verdictError{cause: err, notDone: true} }

// StoreFailure says that the operation failed for good and that response is its
// answer: it is stored, and every retry gets it. Do returns both, response and err.
func StoreFailure(response Response, err error) error {
	return &verdictError{cause: err, response: &response}
}

// verdictError is what a Func says about its error.
type verdictError struct {
	cause    error
	notDone  bool
	response *Response
}

func (e *verdictError) Error() string {
	switch {
	case e.cause != nil:
		return e.cause.Error()
	case e.notDone:
		return "onceward: not done"
	default:
		return "onceward: failed"
	}
}

func (e *verdictError) Unwrap() error { return e.cause }

// Do runs the operation once over all its retries: it begins, waits for
// another attempt's response (Operation.Wait) or replays it, else runs do,
// renews the lease while it runs, and stores what it returns.
//
// The error of a function that ran is found in Do's by errors.Is and
// errors.As. Beside it, the errors of Begin; ErrOutcomeUnknown where nobody
// knows whether the work was done, now or earlier; and ErrLeaseLost, with the
// Result, where the work was done but another attempt may have done it too.
func (c *Client) Do(ctx context.Context, op Operation, do Func) (Result, error) {
	outcome, err := c.begin(ctx, op, op.waitOr(defaultWait))
	if err != nil {
		return Result{}, err
	}
	switch o := outcome.(type) {
	case *Replay:
		return o.result(), nil
	case *Acquired:
		return c.run(ctx, op, o, do)
	default:
		return Result{}, unexpected(callBegin, 0, "the outcome is not one that this version knows; the operation must not run", nil)
	}
}

func (r *Replay) result() Result {
	return Result{ID: r.ID, Attempt: r.Attempt, Response: r.Response, Replay: true, Age: r.Age, Stored: true}
}

// run does an operation whose lease is held, and settles its record.
func (c *Client) run(ctx context.Context, op Operation, a *Acquired, do Func) (Result, error) {
	lease := c.newLease(op, a)
	if a.TakenOver && !op.Resumable {
		return Result{}, c.refuseTakeover(ctx, lease)
	}
	if ctx.Err() != nil { // the caller has gone; nothing has happened yet
		_, _ = c.settle(ctx, lease.release())
		return Result{}, canceled(ctx, callBegin)
	}
	response, err := c.attempt(ctx, lease, do)
	return c.conclude(ctx, lease, response, err)
}

// attempt runs the function under the lease. A panic, and runtime.Goexit,
// leave the outcome unknown and go on.
func (c *Client) attempt(ctx context.Context, lease *Lease, do Func) (Response, error) {
	work, cancel := context.WithCancelCause(context.WithValue(ctx, leaseKey{}, lease))
	keeper := lease.keep(ctx, cancel)
	returned := false
	defer func() {
		keeper.end()
		cancel(nil)
		if !returned {
			_, _ = c.settle(ctx, lease.unknown())
		}
	}()
	response, err := do(work, lease)
	returned = true
	return response, err
}

// conclude settles the record by what the function returned.
func (c *Client) conclude(ctx context.Context, lease *Lease, response Response, err error) (Result, error) {
	result := Result{ID: lease.ID, Attempt: lease.Attempt, Response: response}
	verdict, _ := errors.AsType[*verdictError](err)
	switch {
	case verdict != nil && verdict.notDone:
		// Where the release cannot be delivered the lease ends by itself.
		_, _ = c.settle(ctx, lease.release())
		return result, err
	case verdict != nil:
		result.Response = *verdict.response
	case err != nil:
		_, settled := c.settle(ctx, lease.unknown())
		return Result{ID: lease.ID, Attempt: lease.Attempt}, lease.unknownError(err, settled)
	}
	completion, settled := c.settle(ctx, lease.completion(result.Response))
	switch {
	case settled == nil:
		result.Stored, result.delivered = !completion.Released, true
	case CodeOf(settled) == errUndelivered: // not an error: the work is done
	default:
		return result, errors.Join(settled, err)
	}
	return result, err
}

// unknownError is ErrOutcomeUnknown over the function's own error; or that the
// lease was lost, where another attempt may be at it.
func (l *Lease) unknownError(cause, settled error) error {
	if CodeOf(settled) == ErrLeaseLost {
		return &Error{Code: ErrLeaseLost, call: callUnknown, Detail: "the lease was lost while the operation ran; another attempt may run it", cause: cause}
	}
	return &Error{Code: ErrOutcomeUnknown, call: callUnknown, Detail: "the operation failed without saying that nothing happened; nothing runs until a resolver decides", cause: cause}
}

// refuseTakeover gives up a lease that was taken over by an operation that
// cannot go on from a broken attempt.
func (c *Client) refuseTakeover(ctx context.Context, lease *Lease) error {
	c.logger.WarnContext(ctx, "onceward: an earlier attempt broke off and this operation is not resumable; the outcome is unknown",
		slog.String("id", string(lease.ID)), slog.String("operation", lease.Operation), slog.Int("attempt", lease.Attempt))
	_, _ = c.settle(ctx, lease.unknown())
	return &Error{
		Code: ErrOutcomeUnknown, Status: 409, Title: "The outcome of an earlier attempt is unknown", call: callBegin,
		Detail: "An earlier attempt may or may not have done the work. Do not run the operation: somebody with the role resolver or admin decides.",
	}
}
