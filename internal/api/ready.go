package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// Check is one thing without which the process must get no traffic.
type Check struct {
	Name string // such as database; shown to the operator
	// Advisory is for what is only said: another process would do no better, and
	// this one still answers a part of the calls.
	Advisory bool
	// Run returns why it is not so, or nil. It is given checkTimeout.
	Run func(ctx context.Context) error
}

const (
	checkTimeout = 2 * time.Second
	// checkMaxAge is how long a result is shown again: /readyz is open to
	// everybody, and must not be a way to keep the database busy.
	checkMaxAge = 500 * time.Millisecond
)

// readiness is the answer to /readyz. It is used by many goroutines.
type readiness struct {
	checks  []Check
	nowFunc func() time.Time

	mu       sync.Mutex // guards what follows
	draining bool
	at       time.Time // of results; zero before the first
	results  []checkResult
}

type checkResult struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`

	advisory bool
}

func newReadiness(checks []Check) *readiness {
	return &readiness{checks: checks, nowFunc: time.Now}
}

func (r *readiness) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// look runs the checks, or repeats what they said a moment ago.
func (r *readiness) look(ctx context.Context) (ready bool, results []checkResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.nowFunc(); r.at.IsZero() || now.Sub(r.at) >= checkMaxAge {
		r.results, r.at = runChecks(ctx, r.checks), now
	}
	draining := checkResult{Name: "serving", OK: !r.draining}
	if r.draining {
		draining.Reason = "the process is shutting down"
	}
	results = append([]checkResult{draining}, r.results...)
	ready = true
	for _, result := range results {
		ready = ready && (result.OK || result.advisory)
	}
	return ready, results
}

func runChecks(ctx context.Context, checks []Check) []checkResult {
	// One caller's result is shown to others: it must not fail because that
	// caller left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	results := make([]checkResult, len(checks))
	for i, check := range checks {
		results[i] = checkResult{Name: check.Name, OK: true, advisory: check.Advisory}
		if err := check.Run(ctx); err != nil {
			results[i].OK, results[i].Reason = false, err.Error()
			if ctx.Err() != nil {
				results[i].Reason = fmt.Sprintf("no answer within %s: %s", checkTimeout, err)
			}
		}
	}
	return results
}

// healthz says that the process lives, and looks at nothing.
func healthz(*API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		exchangeOf(w).write(http.StatusOK, mediaJSON, []byte(`{"alive":true}`))
	})
}

// readyz says yes or no.
func readyz(a *API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ready, _ := a.ready.look(r.Context())
		exchangeOf(w).writeReady(ready, nil)
	})
}

// readyzWithReasons says why, to the operator.
func readyzWithReasons(a *API) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		exchangeOf(w).writeReady(a.ready.look(r.Context()))
	})
}

func (x *exchange) writeReady(ready bool, results []checkResult) {
	status := http.StatusOK
	if !ready {
		status = http.StatusServiceUnavailable
	}
	body, err := json.Marshal(struct {
		Ready  bool          `json:"ready"`
		Checks []checkResult `json:"checks,omitempty"`
	}{ready, results})
	if err != nil {
		x.fail(err)
		return
	}
	x.write(status, mediaJSON, body)
}
