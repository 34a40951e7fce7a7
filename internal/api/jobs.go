package api

import (
	"net/http"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// jobsPath is where the operator's listener shows the jobs.
const jobsPath = "/ops/river"

// jobsTable is the pages of the worker's jobs. They can cancel and delete them,
// so they ask for an operator token; a browser sends it as the password of HTTP
// Basic (RFC 7617), with any user.
func jobsTable() []route {
	rows := []route{{method: http.MethodGet, pattern: jobsPath, listener: Operator, page: jobsHome}}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		rows = append(rows, route{method: method, pattern: jobsPath + "/*", listener: Operator, page: jobs})
	}
	return rows
}

func jobsHome(*API) http.Handler {
	return http.RedirectHandler(jobsPath+"/", http.StatusPermanentRedirect)
}

func jobs(a *API) http.Handler {
	// The browser keeps the password and sends it with whatever another site
	// makes it ask: what changes anything must come from our own pages.
	ownOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(w)
		if a.jobs == nil {
			x.fail(problem.New(problem.NotFound, "This process shows no jobs."))
			return
		}
		if _, err := a.operatorOf(r); err != nil {
			w.Header().Set("WWW-Authenticate", `Basic realm="onceward operator", charset="UTF-8"`)
			x.fail(err)
			return
		}
		if err := ownOrigin.Check(r); err != nil {
			x.fail(problem.New(problem.Forbidden, "This request comes from another site. Open the page itself."))
			return
		}
		w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'") // its pages load scripts of their own
		a.jobs.ServeHTTP(w, r)
	})
}

// operatorOf reads the operator's token, as a bearer token or as a password.
func (a *API) operatorOf(r *http.Request) (auth.Caller, error) {
	token, ok := bearerToken(r.Header)
	if !ok {
		_, token, _ = r.BasicAuth()
	}
	return a.admin.Operators.Authenticate(token)
}
