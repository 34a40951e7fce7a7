package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Config is what a Client is made of.
type Config struct {
	// BaseURL is the service's address, such as https://onceward.example.
	// Required. Plain http is accepted for a loopback address only: an API key
	// would travel in the clear.
	BaseURL string
	// APIKey is the credential. Required. One of the role service begins and
	// completes in its own namespace; another may make the calls of its role.
	APIKey string

	// HTTP carries the requests. Nil: a transport of the client's own, with
	// connections kept for reuse. It is not closed, and must not follow
	// redirects or send a request again by itself.
	HTTP http.RoundTripper
	// Clock measures waits, leases and retries. Nil: the process's.
	Clock Clock
	// Logger gets replays, conflicts and what could not be delivered. Never a
	// whole key, a token or a body. Nil: slog.Default().
	Logger *slog.Logger
	// TracerProvider gets one span per call of the service. The context of the
	// span, or else of the one around the call, is sent as traceparent. Nil: no
	// spans.
	TracerProvider trace.TracerProvider
	// MeterProvider gets the counters named onceward.client.*. Nil: none.
	MeterProvider metric.MeterProvider

	// CallTimeout bounds one try of one call, beside the wait that it asks for.
	// Zero: 10 s.
	CallTimeout time.Duration
	// RetryFor is how long after its first try a call may be tried again where
	// the network failed or the service answered 429, 500, 502, 503 or 504.
	// Zero: 25 s, which is also the most, since a begin can be repeated with its
	// owner for 30 s only. Negative: every call is tried once. An endpoint whose
	// users wait may want less; but a begin whose answer was lost and that was
	// given up leaves its key in progress until the lease ends.
	RetryFor time.Duration
	// StoreTimeout is how long an operation that is done waits for its response
	// to be stored before it is answered all the same. Storing goes on in the
	// background. Zero: 5 s.
	StoreTimeout time.Duration
	// BreakerThreshold is how many tries in a row must fail, over all calls, for
	// the circuit breaker to open. Zero: 5. Negative: there is no breaker.
	BreakerThreshold int
	// BreakerPause is how long an open breaker refuses calls before it lets one
	// through to look. Zero: 3 s.
	BreakerPause time.Duration
}

const (
	defaultCallTimeout      = 10 * time.Second
	defaultStoreTimeout     = 5 * time.Second
	defaultBreakerThreshold = 5
	defaultBreakerPause     = 3 * time.Second

	// maxRetryFor keeps 5 s of the 30 s within which a begin with the same owner
	// is the same attempt (wire contract, section 3).
	maxRetryFor = 25 * time.Second
	// maxIdlePerHost is how many connections to the service are kept open.
	maxIdlePerHost = 64
)

// Clock is time as the client sees it. Both methods are called from several
// goroutines.
type Clock interface {
	Now() time.Time
	// After is a channel that gets one value once d has passed, and a function
	// that gives up what stands behind it.
	After(d time.Duration) (fired <-chan time.Time, stop func())
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() } //nolint:forbidigo // the one place

func (systemClock) After(d time.Duration) (fired <-chan time.Time, stop func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// sleep returns nil once d has passed, or the error of ctx where it ends first.
func sleep(ctx context.Context, clock Clock, d time.Duration) error {
	if ctx.Err() != nil || d <= 0 {
		return ctx.Err()
	}
	fired, stop := clock.After(d)
	defer stop()
	select {
	case <-fired:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// filled is c with its defaults, or an error that says what to mend.
func (c Config) filled() (Config, error) {
	base, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "":
		return c, errors.New("onceward: Config.BaseURL is empty; it is the address of the service, such as https://onceward.example")
	case err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http":
		return c, errors.New("onceward: Config.BaseURL must be an absolute address that begins with https://")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return c, errors.New("onceward: Config.BaseURL has a user, query or fragment; a credential goes into Config.APIKey")
	case base.Scheme == "http" && !loopback(base.Hostname()):
		return c, fmt.Errorf("onceward: Config.BaseURL is http://%s: outside this machine the API key would travel in the clear; use https", base.Host)
	case c.APIKey == "":
		return c, errors.New("onceward: Config.APIKey is empty")
	case strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }):
		return c, errors.New("onceward: Config.APIKey has a blank or a character outside printable ASCII; was it read with its line end?")
	case c.RetryFor > maxRetryFor:
		return c, fmt.Errorf("onceward: Config.RetryFor is over %v: a begin that is repeated later could meet its own lost attempt as in_progress", maxRetryFor)
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if c.Clock == nil {
		c.Clock = systemClock{}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	setDefault(&c.CallTimeout, defaultCallTimeout)
	setDefault(&c.RetryFor, maxRetryFor)
	setDefault(&c.StoreTimeout, defaultStoreTimeout)
	setDefault(&c.BreakerThreshold, defaultBreakerThreshold)
	setDefault(&c.BreakerPause, defaultBreakerPause)
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// newTransport keeps connections for reuse and adds nothing to a request of
// its own accord.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          2 * maxIdlePerHost,
		MaxIdleConnsPerHost:   maxIdlePerHost,
		IdleConnTimeout:       90 * time.Second, // the service keeps them for 2 minutes
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
	}
}
