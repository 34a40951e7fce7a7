package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// router serves the rows of one listener. Every request becomes an exchange,
// and the exchange is the ResponseWriter that the rows are handed.
type router struct {
	api *API
	mux *chi.Mux
}

func newRouter(a *API, listener Listener) *router {
	r := &router{api: a, mux: chi.NewMux()}
	for _, row := range table() {
		if row.listener != listener {
			continue
		}
		row.name = row.method + " " + row.pattern
		if a.requests != nil {
			row.figures = a.requests.Route(row.name)
		}
		h := row.handler(a)
		r.mux.Method(row.method, row.pattern, h)
		if row.method == http.MethodGet {
			r.mux.Method(http.MethodHead, row.pattern, h) // RFC 9110, section 9.1; net/http leaves out the body
		}
	}
	r.mux.NotFound(r.notFound)
	r.mux.MethodNotAllowed(r.methodNotAllowed)
	return r
}

// ServeHTTP is the whole life of a request: counted, answered, logged.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	x := newExchange(r.api, w, req)
	defer x.end() //nolint:contextcheck // it has the request's
	defer x.giveBackBodyRoom()
	r.mux.ServeHTTP(x, req)
}

func (row *route) handler(a *API) http.Handler {
	if row.page != nil {
		page := row.page(a)
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			x := exchangeOf(w)
			x.enter(req, row) //nolint:contextcheck // it has the request's
			page.ServeHTTP(w, x.request)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := exchangeOf(w)
		x.enter(req, row) //nolint:contextcheck // it has the request's
		err := x.admit()  //nolint:contextcheck // it has the request's
		if err == nil {
			err = row.call(x.request.Context(), x) //nolint:contextcheck // the request's, with its span
		}
		if err != nil {
			x.noteRefusal(err) //nolint:contextcheck // the audit entry outlives a client that has gone
			x.fail(err)
		}
	})
}

// call makes a handler of the domain's shape into one of the table's: the
// request decodes itself from the exchange, the answer sends itself into it.
func call[Req any, P interface {
	*Req
	decode(*exchange) error
}, Resp answer](do func(*API, context.Context, auth.Caller, Req) (Resp, error)) func(context.Context, *exchange) error {
	return func(ctx context.Context, x *exchange) error {
		var req Req
		if err := P(&req).decode(x); err != nil {
			return err
		}
		resp, err := do(x.api, ctx, x.caller, req)
		if err != nil {
			return err
		}
		return resp.send(x)
	}
}

func (r *router) notFound(w http.ResponseWriter, _ *http.Request) {
	exchangeOf(w).fail(problem.New(problem.NotFound, "There is nothing at this address. The calls of the API are listed at %s/docs.", r.api.baseURL))
}

// methodNotAllowed answers for an address that has other methods, and names
// them (RFC 9110, section 15.5.6).
func (r *router) methodNotAllowed(w http.ResponseWriter, req *http.Request) {
	path := req.URL.RawPath
	if path == "" {
		path = req.URL.Path
	}
	var allowed []string
	for _, row := range table() {
		if r.mux.Match(chi.NewRouteContext(), row.method, path) && !slices.Contains(allowed, row.method) {
			allowed = append(allowed, row.method)
			if row.method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
		}
	}
	if len(allowed) == 0 { // a method that the router does not know, at no address of ours
		r.notFound(w, req)
		return
	}
	slices.Sort(allowed)
	x := exchangeOf(w)
	x.Header().Set("Allow", strings.Join(allowed, ", "))
	x.fail(problem.New(problem.MethodNotAllowed, "This address has the methods %s.", strings.Join(allowed, ", ")))
}
