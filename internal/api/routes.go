package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/telemetry"
)

// Listener is one of the two addresses that a process listens on.
type Listener string

// The listeners (wire contract, section 10).
const (
	Public   Listener = "public"
	Operator Listener = "operator"
)

// route is one row of the table: all that is known of a call before its
// handler runs. Exactly one of call and page is set.
type route struct {
	method   string
	pattern  string
	listener Listener

	// roles may make the call. allow, where set, refuses what only some of
	// them may ask for in the query.
	roles []auth.Role
	allow func(role auth.Role, query url.Values) error
	// whileSuspended keeps the call open to a suspended tenant, so that it can
	// finish what it holds.
	whileSuspended bool
	// admin is a call of administration: its refusals are audited. needsKey is
	// one that a token does not open: the API key itself has to be presented.
	admin    bool
	needsKey bool
	body     bodyRule
	query    []string // the parameters that the call knows

	// call is a call of the API: it runs after every check of section 1.
	call func(context.Context, *exchange) error
	// page is open to everybody and checks nothing.
	page func(*API) http.Handler

	// Set by the router that serves the row.
	name    string                  // method and pattern
	figures *telemetry.RouteMetrics // nil: nobody counts
}

// table is every route of both listeners. GET routes answer HEAD too.
func table() []route {
	service := []auth.Role{auth.RoleService}
	everyRole := []auth.Role{auth.RoleService, auth.RoleOps, auth.RoleResolver, auth.RoleAdmin}

	return slices.Concat([]route{
		// Section 3: begin.
		{method: http.MethodPost, pattern: "/v1/keys", listener: Public, roles: service, body: jsonBody, call: call((*API).begin)},

		// Section 4: the lease.
		{method: http.MethodPut, pattern: "/v1/keys/{id}/response", listener: Public, roles: service, whileSuspended: true, body: completionBody, call: call((*API).complete)},
		{method: http.MethodPatch, pattern: "/v1/keys/{id}/lease", listener: Public, roles: service, whileSuspended: true, body: optionalJSONBody, call: call((*API).renew)},
		{method: http.MethodDelete, pattern: "/v1/keys/{id}/lease", listener: Public, roles: service, whileSuspended: true, call: call((*API).release)},
		{method: http.MethodPost, pattern: "/v1/keys/{id}/unknown", listener: Public, roles: service, whileSuspended: true, call: call((*API).declareUnknown)},
		{method: http.MethodPut, pattern: "/v1/keys/{id}/recovery-point", listener: Public, roles: service, whileSuspended: true, body: jsonBody, call: call((*API).setRecoveryPoint)},

		// Section 5: many at once, and looking.
		{method: http.MethodPost, pattern: "/v1/keys/batch", listener: Public, roles: service, body: batchBody, call: call((*API).beginBatch)},
		{method: http.MethodPost, pattern: "/v1/responses/batch", listener: Public, roles: service, whileSuspended: true, body: batchBody, call: call((*API).completeBatch)},
		{method: http.MethodGet, pattern: "/v1/contract", listener: Public, roles: service, call: call((*API).contract)},
		{method: http.MethodGet, pattern: "/v1/keys/{id}", listener: Public, roles: everyRole, allow: allowInclude, query: []string{"include"}, call: call((*API).inspect)},

		// Section 10: beside the API.
		{method: http.MethodGet, pattern: "/healthz", listener: Public, page: healthz},
		{method: http.MethodGet, pattern: "/readyz", listener: Public, page: readyz},
		{method: http.MethodGet, pattern: "/openapi.json", listener: Public, page: func(a *API) http.Handler { return a.pages.OpenAPIJSON() }},
		{method: http.MethodGet, pattern: "/openapi.yaml", listener: Public, page: func(a *API) http.Handler { return a.pages.OpenAPIYAML() }},
		{method: http.MethodGet, pattern: "/docs", listener: Public, page: func(a *API) http.Handler { return a.pages.Docs() }},
		{method: http.MethodGet, pattern: "/docs/{page}", listener: Public, page: func(a *API) http.Handler { return a.pages.Guide() }},
		{method: http.MethodGet, pattern: "/problems/{code}", listener: Public, page: func(a *API) http.Handler { return a.pages.Problem() }},
		{method: http.MethodGet, pattern: "/readyz", listener: Operator, page: readyzWithReasons},
		{method: http.MethodGet, pattern: "/metrics", listener: Operator, page: func(a *API) http.Handler { return a.metrics }},
	}, adminTable(), operatorTable(), tokenTable(), analyticsTable(), pruneTable(), jobsTable(), dashboardTable(), clockTable())
}

// Route is what the table says of one route, for the test that holds the
// OpenAPI document against it.
type Route struct {
	Method   string
	Pattern  string // a chi pattern, which is an OpenAPI path too
	Listener Listener
	Roles    []auth.Role // nil: open to everybody
	Query    []string
	HasBody  bool
	Admin    bool // a call of administration
	// WhileSuspended stays open to a suspended tenant.
	WhileSuspended bool
}

// Routes lists the table.
func Routes() []Route {
	var routes []Route
	for _, r := range table() {
		routes = append(routes, Route{r.method, r.pattern, r.listener, r.roles, r.query, r.body != noBody, r.admin, r.whileSuspended})
	}
	return routes
}
