package api

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// exchange is one request and its answer. It is the ResponseWriter that every
// handler of this package gets; nothing may be put between, or exchangeOf fails.
type exchange struct {
	http.ResponseWriter
	api       *API
	requestID string
	started   time.Time

	request *http.Request
	route   *route // nil where none matched

	// Set by admit, each by the check of that name.
	caller    auth.Caller // zero until authenticated
	query     url.Values
	body      []byte
	bodyRoom  func()          // gives back what body takes of api.bodies; nil: nothing
	isMessage bool            // the body is application/http
	limits    tenants.Limits  // zero where no rate is kept
	rate      limits.Decision // what the answer's RateLimit tells of

	// What the request event says at the end.
	status    int           // 0 until the header is sent
	outcome   string        // acquired, replay, a problem's code; empty where the status says it all
	operation *string       // as a begin named it; nil where none did
	replayAge time.Duration // of what was replayed
	failure   error         // what a 5xx was about; logged, never sent

	databaseNanos atomic.Int64 // what the request waited for the database, where known
	span          trace.Span   // nil: not traced
}

// Values that answers share. They have no room to append to, and whoever sets
// another puts it into a slice of its own.
//
//nolint:gochecknoglobals // constants
var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
	// What is no page is to be shown, framed and run nowhere; pages of ours say
	// what they need.
	noContentAllowed = []string{"default-src 'none'; frame-ancestors 'none'"}
	noReferrer       = []string{"no-referrer"}
	oneYear          = []string{"max-age=31536000"}
	asJSON           = []string{mediaJSON}
)

func newExchange(a *API, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{ResponseWriter: w, api: a, requestID: rand.Text(), started: a.nowFunc(), request: r}
	h := w.Header()
	h["Cache-Control"] = noStore
	h["X-Content-Type-Options"] = noSniff
	h["Content-Security-Policy"] = noContentAllowed
	h["Referrer-Policy"] = noReferrer
	if x.hasTLS() {
		h["Strict-Transport-Security"] = oneYear
	}
	h.Set("Request-Id", x.requestID)
	return x
}

// exchangeOf returns the exchange that a handler was given as its writer.
func exchangeOf(w http.ResponseWriter) *exchange {
	return w.(*exchange) //nolint:forcetypeassert // router.ServeHTTP passes nothing else
}

// enter takes the row that matched, and the request with what the router found
// in its path.
func (x *exchange) enter(r *http.Request, row *route) {
	x.request, x.route = r, row
	x.startSpan(row.name)
}

// admit makes the checks of the wire contract, section 1, in its order, from
// the credential to the size of the body. What is left to the call itself is
// the JSON, the values and the record.
func (x *exchange) admit() error {
	if err := x.authenticate(); err != nil {
		return err
	}
	if x.caller.Suspended != nil && !x.route.whileSuspended {
		return problem.New(problem.Suspended, "The tenant is suspended: %s. Leases that are held can still be completed, renewed and released.", *x.caller.Suspended)
	}
	var queryErr error
	if raw := x.request.URL.RawQuery; raw != "" {
		x.query, queryErr = url.ParseQuery(raw)
	}
	if err := x.authorize(); err != nil {
		return err
	}
	if err := x.limit(1); err != nil {
		return err
	}
	if err := x.checkMediaType(); err != nil {
		return err
	}
	if err := x.readBody(); err != nil {
		return err
	}
	return x.checkQuery(queryErr)
}

// authenticate reads the one credential and the trace of the request.
func (x *exchange) authenticate() error {
	caller, used, err := x.bySession()
	if !used {
		caller, err = x.byToken()
	}
	if err != nil {
		if m, ok := errors.AsType[*auth.MisfitError](err); ok {
			x.noteMisfit(m)
		}
		return x.api.signIns.answer(err, x.api.proxies.client(x.request))
	}
	caller.TraceID, caller.RequestID, caller.Address = x.traceID(), x.requestID, x.api.proxies.client(x.request)
	caller.DatabaseNanos = &x.databaseNanos
	x.caller = caller
	return nil
}

// byToken authenticates by the Authorization header.
func (x *exchange) byToken() (auth.Caller, error) {
	token, ok := bearerToken(x.request.Header)
	switch {
	case !ok:
		return auth.Caller{}, problem.New(problem.Unauthenticated, "Send exactly one header Authorization: Bearer <API key>, and nothing else in it.")
	case x.route.listener == Operator:
		return x.api.admin.Operators.Authenticate(token)
	default:
		return x.api.auth.Authenticate(x.request.Context(), token)
	}
}

func (x *exchange) authorize() error {
	if !slices.Contains(x.route.roles, x.caller.Role) {
		return forbidden("This call", x.route.roles, x.caller.Role)
	}
	if x.route.allow != nil {
		if err := x.route.allow(x.caller.Role, x.query); err != nil {
			return err
		}
	}
	if x.route.needsKey && !x.caller.KeyPresented {
		return problem.New(problem.Reauthenticate, "This call needs the API key itself, or a session in which it was presented within the last ten minutes. A token made from it is not enough.")
	}
	return nil
}

// forbidden names the role that is needed and the one that is held.
func forbidden(what string, needed []auth.Role, held auth.Role) error {
	names := make([]string, len(needed))
	for i, role := range needed {
		names[i] = string(role)
	}
	return problem.New(problem.Forbidden, "%s needs a credential with the role %s; this one has the role %s.", what, strings.Join(names, " or "), held)
}

// checkQuery refuses what the call does not know, and what is given twice.
func (x *exchange) checkQuery(parseErr error) error {
	if x.request.URL.RawQuery == "" {
		return nil
	}
	if parseErr != nil {
		return problem.Invalid(problem.Field{Reason: "the query string is not well-formed: every % is followed by two hexadecimal digits, and parameters are separated by &"})
	}
	var fields []problem.Field
	for name, values := range x.query {
		switch {
		case !slices.Contains(x.route.query, name):
			fields = append(fields, problem.Field{Parameter: shortened(name), Reason: "this call has no such query parameter"})
		case len(values) > 1:
			fields = append(fields, problem.Field{Parameter: name, Reason: "is given more than once"})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	slices.SortFunc(fields, func(a, b problem.Field) int { return strings.Compare(a.Parameter, b.Parameter) })
	return problem.Invalid(fields[:min(len(fields), maxNamedFaults)]...)
}

// pathValue is a part of the path that the pattern names. The router sees the
// path as it was sent; %2D and - are one character (RFC 3986, section 6.2.2.2).
func (x *exchange) pathValue(name string) string {
	value := chi.URLParam(x.request, name)
	if decoded, err := url.PathUnescape(value); err == nil {
		return decoded
	}
	return value
}

// leaseHeader is the token that the calls of section 4 are made with.
func (x *exchange) leaseHeader() (token string, faults []problem.Field) {
	const name = "Onceward-Lease"
	switch values := x.request.Header.Values(name); {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", []problem.Field{{Parameter: name, Reason: "this header is required: the token of the lease, as begin answered it in lease.token"}}
	case len(values) > 1:
		return "", []problem.Field{{Parameter: name, Reason: "this header is given more than once"}}
	default:
		return values[0], nil
	}
}

// WriteHeader notes the status for the request event.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK && x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write sends the header first where nobody has.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(b) //nolint:gosec // G705: this is no HTML, and X-Content-Type-Options keeps browsers from thinking so
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// fail answers with a problem document. Anything that is no *problem.Error is
// a 500 with a fixed text; so is a document that cannot be written.
func (x *exchange) fail(err error) {
	e := asProblem(err)
	document, docErr := e.Document(x.api.baseURL, x.requestID)
	if docErr != nil {
		e = problem.Internal(errors.Join(docErr, err))
		document, _ = e.Document(x.api.baseURL, x.requestID) // of fixed texts alone
	}
	x.outcome = string(e.Kind)
	if e.HTTPStatus() >= http.StatusInternalServerError {
		x.noteFailure(e)
	}
	h := x.Header()
	if e.Kind == problem.Unauthenticated {
		h.Set("WWW-Authenticate", `Bearer realm="onceward"`)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(e.RetryAfterSeconds()))
	}
	x.write(e.HTTPStatus(), "application/problem+json", document)
}

// noteFailure keeps what a failure was about for the request event. A caller
// that left is no failure of the service.
func (x *exchange) noteFailure(err error) {
	if x.request.Context().Err() == nil {
		x.failure = err
	}
}

// asProblem also takes the end of a request's context for what it is: the
// caller is gone, or the process is going.
func asProblem(err error) *problem.Error {
	var e *problem.Error
	if !errors.As(err, &e) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return problem.Unavailable(err)
	}
	return problem.From(err)
}

// write sends a whole answer, in as many parts as it lies in memory.
func (x *exchange) write(status int, contentType string, parts ...[]byte) {
	length := 0
	for _, part := range parts {
		length += len(part)
	}
	h := x.Header()
	if contentType == mediaJSON {
		h["Content-Type"] = asJSON
	} else {
		h.Set("Content-Type", contentType)
	}
	h.Set("Content-Length", strconv.Itoa(length))
	x.WriteHeader(status)
	for _, part := range parts {
		if _, err := x.Write(part); err != nil {
			return // the caller is gone; what was decided stays decided
		}
	}
}
