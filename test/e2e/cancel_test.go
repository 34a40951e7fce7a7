//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// B071: half of the clients hang up in the middle of their calls, at moments
// that differ from call to call; nobody of the other half notices.
func TestClientsThatHangUpHarmNobodyElse(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	process := w.API(t)
	const workers, rounds = 16, 100
	var hungUp atomic.Int32
	callers := clients([]*processtest.API{process}, w.Tenant.Service, workers)
	processtest.AtOnce(workers, func(worker int) {
		patient := worker%2 == 1
		for n := range rounds {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if !patient {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(n*60)*time.Microsecond)
			}
			key := processtest.NewKey()
			a, err := processtest.Begin(ctx, callers[worker], apitest.Charge(key))
			if err == nil && a.Status == http.StatusCreated {
				var held apitest.Acquired
				if held, err = processtest.Decode[apitest.Acquired](a); err == nil {
					a, err = processtest.Complete(ctx, callers[worker], held, processtest.Done(key))
				}
			}
			cancel()
			switch {
			case patient && (err != nil || a.Status != http.StatusOK):
				t.Errorf("who never hangs up got %s", processtest.Say(a, err))
			case !patient && err != nil:
				hungUp.Add(1)
			case !patient && a.Status != http.StatusOK:
				t.Errorf("who was answered before it hung up got %s", processtest.Say(a, err))
			}
		}
	})
	if hungUp.Load() < workers {
		t.Errorf("only %d calls were hung up on: the test tests nothing", hungUp.Load())
	}
}

// B057: five megabytes of brackets, by every way in, are refused, and neither
// the process nor another tenant notices.
func TestFiveMegabytesOfBracketsHarmNobodyElse(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	process := w.API(t)
	pid := process.PID()
	other := w.NewTenant(t)
	brackets := bytes.Repeat([]byte("["), 5<<20)
	around := func(before string) []byte { return append([]byte(before), brackets...) }
	held := process.Client(w.Tenant.Service).Begin(t, apitest.Charge(processtest.NewKey())).Acquired(t)

	stop, stopped := make(chan struct{}), make(chan struct{})
	served := 0
	go func() { // another tenant goes on, as long as the brackets come
		defer close(stopped)
		c := process.Client(other.Service)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := processtest.Acquire(t.Context(), c, apitest.Charge(processtest.NewKey())); err != nil {
				t.Errorf("another tenant's %v", err)
				return
			}
			served++
		}
	}()
	c := process.Client(w.Tenant.Service)
	for name, call := range map[string]struct {
		method, path string
		body         []byte
		status       int
		code         string
	}{
		"a begin":               {"POST", "/v1/keys", brackets, 400, "invalid_request"},
		"the body of a request": {"POST", "/v1/keys", around(`{"key":"12345678","request":{"body":`), 400, "invalid_request"},
		"metadata":              {"POST", "/v1/keys", around(`{"key":"12345678","metadata":`), 400, "invalid_request"},
		"a batch":               {"POST", "/v1/keys/batch", around(`{"operations":[`), 400, "invalid_request"},
		"a batch of responses":  {"POST", "/v1/responses/batch", around(`{"responses":[`), 400, "invalid_request"},
		"a completion":          {"PUT", "/v1/keys/" + held.ID + "/response", around(`{"status":200,"headers":`), 400, "invalid_request"},
		"a recovery point":      {"PUT", "/v1/keys/" + held.ID + "/recovery-point", around(`{"name":"n","data":`), 400, "invalid_request"},
	} {
		a := c.Do(t, call.method, call.path, call.body, processtest.Lease(held))
		if p := a.Problem(t, call.status, call.code); p.Detail == "" {
			t.Errorf("%s: no detail", name)
		}
	}
	c.Do(t, http.MethodPost, "/v1/keys", brackets, "Content-Encoding: gzip").Problem(t, http.StatusUnsupportedMediaType, "unsupported_media_type")
	close(stop)
	<-stopped
	if process.Ended() || process.PID() != pid || served == 0 {
		t.Errorf("the process ended: %v; another tenant was served %d times meanwhile", process.Ended(), served)
	}
	c.Complete(t, held, processtest.Done("still held")).Completion(t)

	// As fingerprint input brackets are a payload like any other: too large
	// for the tenant at 5 MB, and text (kind raw) where they fit.
	c.Begin(t, processtest.Charging(processtest.NewKey(), string(brackets))).Problem(t, http.StatusRequestEntityTooLarge, "body_too_large")
	key, fits := processtest.NewKey(), string(brackets[:1<<20])
	c.Begin(t, processtest.Charging(key, fits)).Acquired(t)
	c.Begin(t, processtest.Charging(key, fits)).Problem(t, http.StatusConflict, "in_progress")
	c.Begin(t, processtest.Charging(key, fits[1:])).Problem(t, http.StatusConflict, "fingerprint_mismatch")
}
