package client

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
)

// Client speaks to one Onceward service with one credential. It is safe for
// use by any number of goroutines; make one per process and Close it at the
// end.
type Client struct {
	config    Config
	http      http.RoundTripper
	own       *http.Transport // http, where the client made it
	clock     Clock
	logger    *slog.Logger
	telemetry *telemetry
	breaker   *breaker

	jitterFunc func() float64 // 0 to 1

	// What goes on beside the calls: responses that are still to be stored.
	life    context.Context //nolint:containedctx // the client's own life, which ends with Close
	end     context.CancelFunc
	mu      sync.Mutex // guards what follows
	closed  bool
	running sync.WaitGroup // Add only under mu and before closed
	pending map[*delivery]struct{}
}

// New makes a client. It makes no request; its error says what in the
// configuration to mend.
func New(config Config) (*Client, error) {
	config, err := config.filled()
	if err != nil {
		return nil, err
	}
	c := &Client{
		config: config, http: config.HTTP, clock: config.Clock, logger: config.Logger,
		breaker:    newBreaker(config.Clock, config.BreakerThreshold, config.BreakerPause),
		jitterFunc: jitter,
		pending:    make(map[*delivery]struct{}),
	}
	if c.http == nil {
		c.own = newTransport()
		c.http = c.own
	}
	if c.telemetry, err = newTelemetry(config.TracerProvider, config.MeterProvider); err != nil {
		return nil, fmt.Errorf("onceward: make the counters: %w", err)
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c, nil
}

// Close waits until every response that is still being stored in the
// background is stored, or until ctx ends. What is left then is given up: each
// is logged with the id of its record and its status, and the error says how
// many. Stop what makes calls before, such as the HTTP server; a begin after
// Close is refused with ErrClosed.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()

	idle := make(chan struct{})
	go func() {
		c.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	c.end()
	<-idle // every goroutine ends with c.life
	if c.own != nil {
		c.own.CloseIdleConnections()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for d := range c.pending {
		c.logger.ErrorContext(ctx, "onceward: given up at shutdown: the record does not know how this operation ended",
			slog.String("id", string(d.held.ID)), slog.String("call", d.request.call), slog.Int("status", d.status))
	}
	if n := len(c.pending); n > 0 {
		return fmt.Errorf("onceward: %d operations ended, but their records could not be told so before the client was closed", n)
	}
	return nil
}

// background runs f until it returns; its context ends when the client is
// given up. It reports false where the client is closed, and f does not run.
func (c *Client) background(ctx context.Context, f func(ctx context.Context)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.life, cancel) //nolint:contextcheck // it ends with either
	c.running.Go(func() {
		defer cancel()
		defer stop()
		f(ctx)
	})
	return true
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}
