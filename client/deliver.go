package client

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// delivery tells the service how an operation ended, over and over until it
// knows or never can, and keeps the lease alive meanwhile: if it lapsed,
// another attempt would do again what is done.
type delivery struct {
	lease    *Lease
	held     Held
	response *Response // of a completion; nil: a release or an unknown
	status   int       // of the response; 0: none
	request  request

	// Set before done is closed.
	completion Completion
	err        error
	done       chan struct{}
}

// errUndelivered says that the service does not know yet how the operation
// ended; the delivery goes on.
const errUndelivered = Code("undelivered")

func (l *Lease) completion(response Response) *delivery {
	return &delivery{lease: l, response: &response, status: response.Status, request: completeRequest(l.held, response)}
}

func (l *Lease) release() *delivery { return &delivery{lease: l, request: releaseRequest(l.held)} }
func (l *Lease) unknown() *delivery { return &delivery{lease: l, request: unknownRequest(l.held)} }

// settle delivers d. It waits for StoreTimeout; after that it returns
// errUndelivered and the delivery goes on in the background, until it is done
// or the client is closed. Nothing of ctx but its values counts: what is done
// is done.
func (c *Client) settle(ctx context.Context, d *delivery) (Completion, error) {
	d.held, d.done = d.lease.held, make(chan struct{})
	c.mu.Lock()
	c.pending[d] = struct{}{}
	c.mu.Unlock()
	if !c.background(ctx, func(ctx context.Context) { c.deliver(ctx, d) }) {
		// The client is closed: one try, here and now; Close has said its last.
		c.tryDelivery(context.WithoutCancel(ctx), d)
		c.forgetDelivery(d)
		if d.err != nil {
			c.logGivenUp(ctx, d)
		}
		return d.completion, d.err
	}
	late, stop := c.clock.After(c.config.StoreTimeout)
	defer stop()
	select {
	case <-d.done:
		return d.completion, d.err
	case <-late:
	}
	c.telemetry.undelivered.Add(ctx, 1, metric.WithAttributes(callAttr(d.request.call)))
	c.logger.WarnContext(ctx, "onceward: the operation ended, but its record cannot be told so yet; this goes on in the background",
		slog.String("id", string(d.held.ID)), slog.String("call", d.request.call), slog.Int("status", d.status))
	return Completion{}, errUndelivered
}

// deliver tries until d is done or ctx ends; d stays pending in the latter case.
func (c *Client) deliver(ctx context.Context, d *delivery) {
	length, _, _ := d.lease.terms()
	renewAt := c.clock.Now().Add(length / 3)
	for n := 1; ; n++ {
		if c.tryDelivery(ctx, d) {
			break
		}
		if ctx.Err() != nil {
			return
		}
		pause := max(backoff(n, c.jitterFunc), min(retryAfter(d.err), 30*time.Second))
		if untilRenewal := renewAt.Sub(c.clock.Now()); untilRenewal < pause {
			if sleep(ctx, c.clock, untilRenewal) != nil {
				return
			}
			pause -= max(untilRenewal, 0)
			// Whatever comes of it: the delivery itself decides.
			_ = d.lease.renewOnce(ctx)
			renewAt = c.clock.Now().Add(length / 3)
		}
		if sleep(ctx, c.clock, pause) != nil {
			return
		}
	}
	c.forgetDelivery(d)
	if d.err != nil {
		c.logGivenUp(ctx, d)
	}
	close(d.done)
}

func (c *Client) forgetDelivery(d *delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, d)
}

func (c *Client) logGivenUp(ctx context.Context, d *delivery) {
	c.logger.ErrorContext(ctx, "onceward: the operation ended, but its record did not take how",
		slog.String("id", string(d.held.ID)), slog.String("call", d.request.call), slog.Int("status", d.status), slog.String("error", d.err.Error()))
}

// tryDelivery makes one try and reports whether d is decided: d.err is then
// nil, or says why it never can be. What the service refuses to store as it is
// is made smaller until it is taken: that the work is done must be known, if
// nothing else can be.
func (c *Client) tryDelivery(ctx context.Context, d *delivery) (decided bool) {
	var a answer
	for {
		a, _, d.err = c.do(ctx, d.request, 0)
		smaller, ok := d.smaller()
		if !ok {
			break
		}
		c.logger.WarnContext(ctx, "onceward: the response cannot be stored as it is; its body is left out",
			slog.String("id", string(d.held.ID)), slog.Int("status", d.status), slog.String("code", string(CodeOf(d.err))))
		d.response, d.request = &smaller, completeRequest(d.held, smaller)
	}
	if d.err == nil && d.response != nil {
		d.completion, d.err = decodeCompletion(d.request.call, a)
	}
	return d.err == nil || isFinal(d.err) || CodeOf(d.err) == ErrInvalidRequest
}

// smaller is what to store in place of a response that was refused for itself:
// first without its body, then its status alone.
func (d *delivery) smaller() (Response, bool) {
	if d.response == nil || d.err == nil {
		return Response{}, false
	}
	r := *d.response
	switch code := CodeOf(d.err); {
	case (code == ErrBodyTooLarge || code == ErrRequestTooLarge || code == ErrInvalidRequest) && !r.BodyOmitted:
		r.Body, r.BodyOmitted = nil, true
	case code == ErrInvalidRequest && (len(r.Headers) > 0 || r.BodyRef != "" || r.Status != storable(r.Status)):
		r = Response{Status: storable(r.Status), BodyOmitted: true}
	default:
		return Response{}, false
	}
	return r, true
}

// storable is the nearest status that can be stored.
func storable(status int) int {
	return min(max(status, http.StatusOK), 599)
}
