package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

const (
	sessionPath = dashboardPath + "/session"

	// dashboardHeader is on every call that the cookie may open. A page of
	// another origin cannot send it without asking first, and nobody answers.
	dashboardHeader = "Onceward-Dashboard"

	sessionCookie       = "onceward_session"
	secureSessionCookie = "__Host-onceward_session" // where we are reached by https

	maxSessionBodyBytes = 4 << 10
)

// Sessions are those of the dashboard: *auth.Sessions. Every error of it is a
// *problem.Error.
type Sessions interface {
	Start(ctx context.Context, caller auth.Caller) (cookie string, err error)
	StartByLink(ctx context.Context, secret, requestID, address string) (cookie string, err error)
	Authenticate(ctx context.Context, cookie string) (auth.Session, error)
	Renew(ctx context.Context, cookie string) (auth.Session, error)
	End(ctx context.Context, cookie string, by auth.Caller) error
}

// sessionPage is a call on the session itself: from the dashboard alone.
func sessionPage(do func(context.Context, *exchange) error) func(*API) http.Handler {
	return func(*API) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchangeOf(w)
			err := x.fromDashboard()
			if err == nil && x.api.sessions == nil {
				err = problem.New(problem.NotFound, "This service has no dashboard sessions.")
			}
			if err == nil {
				err = do(r.Context(), x)
			}
			if err != nil {
				x.fail(err)
			}
		})
	}
}

// fromDashboard refuses what did not come from our own page. Browsers send no
// Origin with a GET to the same origin; there Sec-Fetch-Site says it.
func (x *exchange) fromDashboard() error {
	h := x.request.Header
	own := h.Get(dashboardHeader) == "1"
	if origins := h.Values("Origin"); len(origins) > 0 {
		own = own && len(origins) == 1 && x.isOwnOrigin(origins[0])
	} else {
		safe := x.request.Method == http.MethodGet || x.request.Method == http.MethodHead
		own = own && safe && h.Get("Sec-Fetch-Site") == "same-origin"
	}
	if !own {
		return problem.New(problem.Forbidden, "A session of the dashboard opens this only for the dashboard itself: with %s: 1 and from its own origin. Send an API key in Authorization instead.", dashboardHeader)
	}
	return nil
}

// isOwnOrigin takes the configured address, and the one under which the request
// reached us: a cookie never goes to a host that it was not set for.
func (x *exchange) isOwnOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	if x.hasTLS() && u.Scheme != "https" {
		return false
	}
	base, err := url.Parse(x.api.baseURL)
	return strings.EqualFold(u.Host, x.request.Host) || err == nil && strings.EqualFold(u.Host, base.Host)
}

// hasTLS says whether browsers reach us by https.
func (x *exchange) hasTLS() bool { return strings.HasPrefix(x.api.baseURL, "https://") }

func (x *exchange) sessionCookieName() string {
	if x.hasTLS() {
		return secureSessionCookie
	}
	return sessionCookie
}

// sessionToken is the cookie of a request that has exactly one.
func (x *exchange) sessionToken() (token string, ok bool) {
	for _, cookie := range x.request.CookiesNamed(x.sessionCookieName()) {
		if ok {
			return "", false
		}
		token, ok = cookie.Value, true
	}
	return token, ok
}

// bySession authenticates a call of /v1 by the cookie. used is false where the
// request has none, or has an Authorization header, which then decides alone.
func (x *exchange) bySession() (caller auth.Caller, used bool, err error) {
	token, ok := x.sessionToken()
	if !ok || x.api.sessions == nil || x.route.listener != Public || len(x.request.Header.Values("Authorization")) > 0 {
		return auth.Caller{}, false, nil
	}
	if err := x.fromDashboard(); err != nil {
		return auth.Caller{}, true, err
	}
	session, err := x.api.sessions.Authenticate(x.request.Context(), token)
	return session.Caller, true, err
}

func (x *exchange) setSessionCookie(value string, maxAge int) {
	//nolint:gosec // G124: Secure is set wherever we are reached by https; loopback has none
	http.SetCookie(x.ResponseWriter, &http.Cookie{
		Name: x.sessionCookieName(), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: x.hasTLS(), SameSite: http.SameSiteStrictMode,
	})
}

// sessionBody is what the page knows of its session.
type sessionBody struct {
	Tenant     sessionTenant     `json:"tenant"`
	Credential sessionCredential `json:"credential"`
	Role       auth.Role         `json:"role"`
	Namespaces *[]string         `json:"namespaces"` // of a resolver; null: all
	StartedAt  instant           `json:"started_at"`
	EndsAt     instant           `json:"ends_at"`
	LastsUntil instant           `json:"lasts_until"`
	KeyUntil   instant           `json:"key_until"` // null: the API key has to be presented for what needs it
}

type sessionTenant struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type sessionCredential struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (x *exchange) sendSession(s auth.Session) error {
	if s.Caller.Suspended != nil {
		return problem.New(problem.Suspended, "The tenant is suspended: %s. Nobody signs in until it is active again.", *s.Caller.Suspended)
	}
	body := sessionBody{
		Tenant: sessionTenant{s.Caller.Tenant.String(), s.TenantName}, Credential: sessionCredential{s.Caller.Credential.String(), s.CredentialName},
		Role: s.Caller.Role, StartedAt: instant(s.StartedAt), EndsAt: instant(s.EndsAt), LastsUntil: instant(s.LastsUntil),
	}
	if s.Caller.KeyPresented {
		body.KeyUntil = instant(s.KeyUntil)
	}
	if s.Caller.Namespaces != nil {
		ids := make([]string, 0, len(*s.Caller.Namespaces))
		for _, id := range *s.Caller.Namespaces {
			ids = append(ids, id.String())
		}
		body.Namespaces = &ids
	}
	return ok(body).send(x)
}

func readSession(ctx context.Context, x *exchange) error {
	token, _ := x.sessionToken()
	session, err := x.api.sessions.Authenticate(ctx, token)
	if err != nil {
		return err
	}
	return x.sendSession(session)
}

func renewSession(ctx context.Context, x *exchange) error {
	token, _ := x.sessionToken()
	session, err := x.api.sessions.Renew(ctx, token)
	if err != nil {
		return err
	}
	return x.sendSession(session)
}

// startSession signs in with a credential that was pasted, or with a link. A
// session that the browser already has ends.
func startSession(ctx context.Context, x *exchange) error {
	var b struct {
		Credential *string `json:"credential"`
		Link       *string `json:"link"`
	}
	body, err := readAll(http.MaxBytesReader(x.ResponseWriter, x.request.Body, maxSessionBodyBytes), x.request.ContentLength)
	if err != nil {
		return requestTooLarge(maxSessionBodyBytes)
	}
	if err := decodeJSON(body, &b); err != nil {
		return err
	}
	var cookie string
	switch {
	case (b.Credential == nil) == (b.Link == nil):
		return problem.Invalid(problem.Field{Reason: "send either credential or link"})
	case b.Credential != nil:
		cookie, err = x.startByCredential(ctx, strings.TrimSpace(*b.Credential))
	default:
		cookie, err = x.api.sessions.StartByLink(ctx, *b.Link, x.requestID, x.api.proxies.client(x.request))
	}
	if err != nil {
		return err
	}
	session, err := x.api.sessions.Authenticate(ctx, cookie)
	if err != nil {
		return err
	}
	if before, ok := x.sessionToken(); ok {
		if err := x.api.sessions.End(ctx, before, session.Caller); err != nil {
			return err
		}
	}
	x.setSessionCookie(cookie, int(auth.SessionLife.Seconds()))
	return x.sendSession(session)
}

func (x *exchange) startByCredential(ctx context.Context, credential string) (cookie string, err error) {
	caller, err := x.api.auth.Authenticate(ctx, credential)
	if err != nil {
		if errors.Is(err, problem.Unauthenticated) {
			err = problem.New(problem.Unauthenticated, "No credential is known by this text. It is mistyped, revoked or expired, or of another service.")
			return "", x.api.signIns.answer(err, x.api.proxies.client(x.request))
		}
		return "", err
	}
	caller.RequestID, caller.Address = x.requestID, x.api.proxies.client(x.request)
	x.caller = caller
	switch {
	case !caller.KeyPresented:
		err = problem.New(problem.Unauthenticated, "Sign in with the API key itself, not with a token made from it.")
	case caller.Role == auth.RoleService:
		err = problem.New(problem.Forbidden, "This is a service credential: it begins and completes operations for your code, and may see neither analytics, policy nor other credentials. Sign in with one of the role ops, resolver or admin.")
	case caller.Suspended != nil:
		err = problem.New(problem.Suspended, "The tenant is suspended: %s. Nobody signs in until it is active again.", *caller.Suspended)
	default:
		return x.api.sessions.Start(ctx, caller)
	}
	x.noteRefusedSignIn(ctx, err)
	return "", err
}

// noteRefusedSignIn writes a refused sign-in of a known credential to the audit
// trail; where that fails the refusal stands all the same.
func (x *exchange) noteRefusedSignIn(ctx context.Context, refusal error) {
	if x.api.admin.Audit == nil {
		return
	}
	entry := audit.Entry{
		Tenant: uuid.UUID(x.caller.Tenant), Actor: x.caller.Actor(), Action: "session.refuse",
		Object: audit.Object{Kind: "session"}, After: map[string]string{"code": string(asProblem(refusal).Kind)},
	}
	if err := x.api.admin.Audit.Add(context.WithoutCancel(ctx), entry); err != nil {
		x.noteFailure(err)
	}
}

func endSession(ctx context.Context, x *exchange) error {
	if token, ok := x.sessionToken(); ok {
		// Whoever has the cookie may end it, whatever has become of its tenant.
		session, err := x.api.sessions.Authenticate(ctx, token)
		switch {
		case err == nil:
			by := session.Caller
			by.RequestID, by.Address = x.requestID, x.api.proxies.client(x.request)
			if err := x.api.sessions.End(ctx, token, by); err != nil {
				return err
			}
		case !errors.Is(err, problem.Unauthenticated):
			return err
		}
	}
	x.setSessionCookie("", -1)
	return noContent{}.send(x)
}
