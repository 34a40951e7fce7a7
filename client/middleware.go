package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Caller tells whose request it is, from authenticated identity: the customer
// or account, 1 to 255 printable ASCII characters. Never from a header that an
// end user can choose. An error refuses the request.
type Caller func(r *http.Request) (string, error)

// SingleCaller says that every key comes from your own code, so that all
// requests are one caller's. Behind an endpoint that customers reach, it would
// let one of them be answered with the response of another.
func SingleCaller() Caller { return singleCaller }

func singleCaller(*http.Request) (string, error) { return "", errSingleCaller }

// errSingleCaller is how singleCaller says that it means the empty caller,
// which a Caller of the user's can only return by mistake.
var errSingleCaller = errors.New("onceward: there is a single caller")

// Middleware is how requests are protected: see Client.Protect. Caller is
// required; the zero value of all else protects POST and PATCH.
type Middleware struct {
	// Caller is whose request it is, or SingleCaller().
	Caller Caller
	// Methods are those whose requests are protected. Nil: POST and PATCH.
	Methods []string
	// Routes are settings for single routes, by a pattern of net/http.ServeMux,
	// such as "POST /v1/charges/{id}/refund"; a request that matches one is
	// protected whatever its method. A route that is named here has these
	// settings and nothing of Default.
	Routes map[string]Route
	// Default is for the protected requests that match none of Routes.
	Default Route
	// Operation names the operation of a request, where patterns do not: the
	// route, never the path. Nil, or empty: the pattern of Routes that matches,
	// else the one by which the router came here (Request.Pattern, as
	// net/http.ServeMux and chi set it), else method and path. It must stay the
	// same for a request and its retries, over releases of your program too.
	Operation func(r *http.Request) string
	// ProblemBaseURL is where your clients read what a code means: the type of a
	// problem is this address and the code. Empty: the service's own pages.
	ProblemBaseURL string
	// OnlyIdempotentReplay leaves out Idempotent-Replayed, the name of
	// Idempotent-Replay that older clients look for.
	OnlyIdempotentReplay bool
}

// Route is how the requests of a route are protected.
type Route struct {
	// Unprotected lets every request through as if there were no middleware.
	Unprotected bool
	// KeyOptional lets a request without a key through, unprotected. Else it is
	// refused: a key is never made up, since a retry would get another.
	KeyOptional bool
	// AllowUnprotected runs the handler without protection while Onceward is out
	// of reach; such requests are counted and logged. Else they are answered with
	// 503, and the handler does not run. Either happens after Config.RetryFor, or
	// at once while the circuit breaker is open.
	AllowUnprotected bool
	// Resumable, Hold, Lease and Retention are those of Operation.
	Resumable bool
	Hold      bool
	Lease     time.Duration
	Retention time.Duration
	// Wait is how long a request waits for another attempt's response, before
	// 409. Zero: 10 s. Negative: it does not wait.
	Wait time.Duration
	// LocalFingerprint computes the fingerprint here, so that no payload leaves.
	// IgnorePointers are then the JSON pointers that do not count: the policy's
	// own cannot be applied to a digest.
	LocalFingerprint bool
	IgnorePointers   []string
	// MaxBodyBytes is the largest body of a request. Zero: 1 MiB, as the service.
	MaxBodyBytes int64
	// MaxStoredBytes is the largest body of a response that is stored; of a larger
	// one, status and headers are. Zero: 1 MiB, as the service.
	MaxStoredBytes int
	// Metadata is that of Operation. Nil: none.
	Metadata func(r *http.Request) map[string]string
}

const (
	defaultMiddlewareWait = 10 * time.Second
	defaultMaxBytes       = 1 << 20
)

// Protect makes a middleware for net/http, and so for chi and every router
// that takes one: around a single handler, or around a whole router. Each
// protected request runs once over all its retries; every other retry gets the
// stored response. It refuses a configuration that would not protect.
//
//	protect, err := onceward.Protect(client.Middleware{Caller: accountOf})
//	router.Use(protect)
func (c *Client) Protect(m Middleware) (func(http.Handler) http.Handler, error) {
	p := &protector{client: c, config: m, patterns: http.NewServeMux()}
	if m.Caller == nil {
		return nil, errors.New("onceward: Middleware.Caller is missing: say whose request it is, or SingleCaller() where every key comes from your own code")
	}
	if m.Methods == nil {
		p.config.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if m.ProblemBaseURL == "" {
		p.config.ProblemBaseURL = c.config.BaseURL + "/problems"
	}
	p.config.Routes = make(map[string]Route, len(m.Routes))
	for pattern, route := range m.Routes {
		if err := addPattern(p.patterns, pattern); err != nil {
			return nil, fmt.Errorf("onceward: Middleware.Routes: %w", err)
		}
		if err := route.check(); err != nil {
			return nil, fmt.Errorf("onceward: Middleware.Routes[%q]: %w", pattern, err)
		}
		p.config.Routes[pattern] = route.filled()
	}
	if err := m.Default.check(); err != nil {
		return nil, fmt.Errorf("onceward: Middleware.Default: %w", err)
	}
	p.config.Default = m.Default.filled()
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, next) })
	}, nil
}

func addPattern(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if said := recover(); said != nil { // a bad pattern, or two that conflict
			err = fmt.Errorf("%v", said)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

func (r Route) check() error {
	for name, d := range map[string]time.Duration{"Lease": r.Lease, "Retention": r.Retention} {
		if d < 0 || d%time.Second != 0 {
			return fmt.Errorf("%s is %v; it must be whole seconds", name, d)
		}
	}
	if r.MaxBodyBytes < 0 || r.MaxStoredBytes < 0 {
		return errors.New("a size is negative")
	}
	if len(r.IgnorePointers) > 0 && !r.LocalFingerprint {
		return errors.New("IgnorePointers are for LocalFingerprint; for the service they are part of its policy")
	}
	return nil
}

func (r Route) filled() Route {
	setDefault(&r.Wait, defaultMiddlewareWait)
	setDefault(&r.MaxBodyBytes, defaultMaxBytes)
	setDefault(&r.MaxStoredBytes, defaultMaxBytes)
	return r
}

// protector is a Middleware at work.
type protector struct {
	client   *Client
	config   Middleware
	patterns *http.ServeMux // of config.Routes, to find the one that matches
}

// routeOf says how a request is protected, if it is, and what its operation
// is called.
func (p *protector) routeOf(r *http.Request) (route Route, operation string, protected bool) {
	_, pattern := p.patterns.Handler(r)
	if route, protected = p.config.Routes[pattern]; !protected {
		pattern = r.Pattern
		if route, protected = p.config.Routes[pattern]; !protected {
			route, protected = p.config.Default, slices.Contains(p.config.Methods, r.Method)
		}
	}
	if !protected || route.Unprotected {
		return route, "", false
	}
	if p.config.Operation != nil {
		operation = p.config.Operation(r)
	}
	switch {
	case operation != "":
	case pattern == "":
		path, _ := targetOf(r)
		operation = r.Method + " " + path
	case !strings.Contains(pattern, " "): // one for every method
		operation = r.Method + " " + pattern
	default:
		operation = pattern
	}
	return route, operation, true
}

func (p *protector) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	route, operation, protected := p.routeOf(r)
	if !protected {
		next.ServeHTTP(w, r)
		return
	}
	key, refused := keyOf(r.Header)
	switch {
	case refused != nil && refused.Code == ErrMissingKey && route.KeyOptional:
		next.ServeHTTP(w, r)
		return
	case refused != nil:
		p.refuse(w, r, refused)
		return
	}
	caller, err := p.callerOf(r)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	payload, err := readPayload(r, route.MaxBodyBytes)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	op := Operation{
		Key: key, Name: operation, Caller: caller,
		Lease: route.Lease, Retention: route.Retention, Hold: route.Hold, Wait: route.Wait, Resumable: route.Resumable,
	}
	if op.Request = payload.request(route.MaxBodyBytes); route.LocalFingerprint {
		op.Fingerprint, op.Request = op.Request.Fingerprint(route.IgnorePointers...), nil
	}
	if route.Metadata != nil {
		op.Metadata = route.Metadata(r)
	}
	p.once(w, r, next, route, op, payload)
}

// callerOf is the caller of a request. An empty one would make all customers
// one, so it must have been meant.
func (p *protector) callerOf(r *http.Request) (string, error) {
	caller, err := p.config.Caller(r)
	switch {
	case err == errSingleCaller: //nolint:errorlint // a value of this package's own, never wrapped
		return "", nil
	case err != nil:
		return "", refusalError{code: ErrForbidden, status: http.StatusForbidden, detail: "It is not known whose request this is, so its key cannot be told from another's.", cause: err}
	case caller == "":
		return "", refusalError{code: ErrInternal, status: http.StatusInternalServerError, detail: "This endpoint cannot tell whose request this is.", cause: errors.New("Middleware.Caller returned an empty caller and no error")}
	}
	return caller, nil
}

// once runs the handler, or replays, or refuses.
func (p *protector) once(w http.ResponseWriter, r *http.Request, next http.Handler, route Route, op Operation, payload *payload) {
	c := p.client
	outcome, err := c.begin(r.Context(), op, op.waitOr(0))
	if err != nil {
		if route.AllowUnprotected && OutOfReach(err) {
			c.telemetry.unprotected.Add(r.Context(), 1)
			c.logger.WarnContext(r.Context(), "onceward: out of reach; the request runs without protection", slog.String("operation", op.name()), keyPrefix(op.Key))
			w.Header().Set(storedHeader, "false")
			next.ServeHTTP(w, payload.restore(r))
			return
		}
		p.refuse(w, r, err)
		return
	}
	switch o := outcome.(type) {
	case *Replay:
		p.replay(w, r, o)
	case *Acquired:
		p.handle(w, r, next, route, op, o, payload)
	}
}

// What NotDoneHere and UnknownHere leave for handle to see.
var (
	errHandlerNotDone = errors.New("the handler said that nothing happened")
	errHandlerUnknown = errors.New("the handler said that the outcome is unknown")
)

// handle runs the handler under its lease. The caller's going away does not
// stop it: what was begun is ended, and stored for the retry.
func (p *protector) handle(w http.ResponseWriter, r *http.Request, next http.Handler, route Route, op Operation, a *Acquired, payload *payload) {
	captured := newCapture(w, r, route.MaxStoredBytes)
	ran := false
	result, err := p.client.run(context.WithoutCancel(r.Context()), op, a, func(ctx context.Context, lease *Lease) (Response, error) {
		ran = true
		next.ServeHTTP(captured.writer(), payload.restore(r.WithContext(ctx)))
		response := captured.response()
		if lease.said == errHandlerNotDone { //nolint:errorlint // a value of this package's own, never wrapped
			return response, NotDone(errHandlerNotDone)
		}
		return response, lease.said
	})
	if !ran {
		p.refuse(w, r, err)
		return
	}
	captured.finish(result.delivered || errors.Is(err, errHandlerNotDone) || errors.Is(err, errHandlerUnknown))
}

// NotDoneHere says, in a handler behind Middleware, that nothing happened: the
// response goes out as it is, but is not stored, and the key is free at once.
// Only for what certainly did not happen, such as where a provider refused the
// connection. It reports false where nothing protects ctx.
func NotDoneHere(ctx context.Context) bool {
	lease, ok := LeaseFrom(ctx)
	if ok && lease.said == nil {
		lease.said = errHandlerNotDone
	}
	return ok
}

// UnknownHere says, in a handler behind Middleware, that nobody knows whether
// the work was done, such as after a time-out at a provider: the response goes
// out as it is (a 504, say), but is not stored, and retries are answered with
// 409 outcome_unknown until a person decides. It outweighs NotDoneHere. It
// reports false where nothing protects ctx.
func UnknownHere(ctx context.Context) bool {
	lease, ok := LeaseFrom(ctx)
	if ok {
		lease.said = errHandlerUnknown
	}
	return ok
}
