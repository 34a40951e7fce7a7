package client_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

func quickly(c *client.Config) { c.RetryFor, c.StoreTimeout = -1, 50*time.Millisecond }

// TestOutOfReach cuts the endpoint off from the service: nothing runs, unless
// the route says that it may run unprotected.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network, logs := newWire(t), new(logbook)
	c := newClient(t, w, over(network), quickly, logging(logs))
	var made charges
	e := protect(t, c, client.Middleware{Routes: map[string]client.Route{"POST /v1/pings": {AllowUnprotected: true}}}, &made)
	network.cut(func(*http.Request) fault { return neverComes })

	refused := e.charge(t, newKey())
	refused.wantProblem(t, 503, client.ErrUnavailable)
	if refused.header.Get("Retry-After") == "" || made.made.Load() != 0 {
		t.Errorf("%v after %d runs, want Retry-After and none", refused.header, made.made.Load())
	}
	key := newKey()
	for n := range 2 {
		ping := e.send(t, http.MethodPost, "/v1/pings", "payload", "Idempotency-Key", key)
		if ping.status != 201 || ping.header.Get("Onceward-Stored") != "false" || made.made.Load() != int64(n+1) {
			t.Errorf("%+v", ping)
		}
	}
	if n := len(logs.said("without protection")); n != 2 {
		t.Errorf("%d lines say that a request ran unprotected, want 2", n)
	}
	network.heal()
	eventually(t, "the breaker has closed", func() bool { return e.charge(t, newKey()).status == 201 })
}

// TestARefusalIsNotOutOfReach: a route that may run unprotected does not where
// the service has answered.
func TestARefusalIsNotOutOfReach(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	open := client.Middleware{Default: client.Route{AllowUnprotected: true, Wait: -1}}
	var made charges

	suspended := w.NewTenant(t)
	if err := w.Tenants.Suspend(t.Context(), suspended.ID, "a test"); err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{"nobody's credential": "ow_nobody", "another role": w.Tenant.Ops, "a suspended tenant": suspended.Service} {
		e := protect(t, newClient(t, w, withKey(key)), open, &made)
		answer := e.charge(t, newKey())
		answer.wantProblem(t, 503, client.ErrUnavailable)
		if made.made.Load() != 0 {
			t.Errorf("%s: it ran", name)
		}
	}
	c := newClient(t, w)
	e := protect(t, c, open, &made)
	key := newKey()
	acquire(t, c, charge(key))
	e.charge(t, key).wantProblem(t, 409, client.ErrInProgress)
	if made.made.Load() != 0 {
		t.Error("it ran beside another attempt")
	}
}

// TestTheEndUserGetsTheRealAnswerWhereItCannotBeStored cuts the network while
// the handler works.
func TestTheEndUserGetsTheRealAnswerWhereItCannotBeStored(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for name, handler := range map[string]http.HandlerFunc{
		"buffered": func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "done") },
		"streamed": func(rw http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(rw, "done")
			rw.(http.Flusher).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := newWire(t)
			c := newClient(t, w, over(network), quickly)
			e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				network.cut(func(*http.Request) fault { return neverComes })
				handler(rw, r)
			}))
			key := newKey()
			first := e.charge(t, key)
			if said := first.header.Get("Onceward-Stored") + first.trailer.Get("Onceward-Stored"); first.status != 200 || first.body != "done" || said != "false" || first.err != nil {
				t.Errorf("%+v, want the real answer, and that it is not stored", first)
			}
			network.heal()
			var again got
			eventually(t, "it is stored", func() bool {
				again = e.charge(t, key)
				return again.status == 200
			})
			if again.wantReplay(t).body != "done" || again.header.Get("Onceward-Stored") != "" {
				t.Errorf("%+v", again)
			}
		})
	}
}

// TestAnAttemptThatWasTakenOverIsAnsweredAndSaysSo loses the lease while the
// handler works: what it did is real, and may have been done twice.
func TestAnAttemptThatWasTakenOverIsAnsweredAndSaysSo(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	logs := new(logbook)
	c, other := newClient(t, w, logging(logs)), newClient(t, w)
	key := newKey()
	e := protect(t, c, client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		lease, _ := client.LeaseFrom(r.Context())
		w.Advance(t, string(lease.ID), time.Minute)
		acquire(t, other, charge(key))
		_, _ = io.WriteString(rw, "done")
	}))
	if first := e.charge(t, key); first.body != "done" || first.header.Get("Onceward-Stored") != "false" {
		t.Errorf("%+v", first)
	}
	if lines := logs.said("did not take how"); len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["status"] != 200.0 {
		t.Errorf("logged %v", lines)
	}
}

func TestABrokenAttemptOfAHandlerIsNotRunAgainUnlessItCanGoOn(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	var made charges
	e := protect(t, c, client.Middleware{Routes: map[string]client.Route{"POST /v1/resumable": {Resumable: true}}}, &made)
	breakOff := func(path string) string {
		key := newKey()
		op := charge(key)
		op.Name, op.Request.Path = "POST "+path, path
		w.Advance(t, string(acquire(t, c, op).ID), longest)
		return key
	}
	e.charge(t, breakOff("/v1/charges")).wantProblem(t, 409, client.ErrOutcomeUnknown)
	if made.made.Load() != 0 {
		t.Error("it ran")
	}
	again := e.send(t, http.MethodPost, "/v1/resumable", `{"amount":4999}`, "Idempotency-Key", breakOff("/v1/resumable"), "Content-Type", "application/json")
	if again.status != 201 || made.made.Load() != 1 {
		t.Errorf("%+v", again)
	}
}

// TestEverythingThatIsSetForARouteArrives sets all of it.
func TestEverythingThatIsSetForARouteArrives(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	var record client.Record
	e := protect(t, c, client.Middleware{
		Caller: func(*http.Request) (string, error) { return "cus_1", nil },
		Default: client.Route{
			Hold: true, Lease: 10 * time.Minute, Retention: 2 * time.Hour,
			LocalFingerprint: true, IgnorePointers: []string{"/sent_at"},
			Metadata: func(*http.Request) map[string]string { return map[string]string{"order": "42"} },
		},
	}, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		lease, _ := client.LeaseFrom(r.Context())
		record = inspect(t, c, lease.ID)
		if err := lease.SetRecoveryPoint(r.Context(), "charged", nil); err != nil {
			t.Error(err)
		}
		rw.WriteHeader(http.StatusCreated)
	}))
	key := newKey()
	send := func(body string) got {
		return e.send(t, http.MethodPost, "/v1/charges", body, "Idempotency-Key", key, "Content-Type", "application/json")
	}
	send(`{"amount":1,"sent_at":1}`)
	if record.Caller != "cus_1" || record.OnLeaseExpiry != client.OnLeaseExpiryHold || record.Metadata["order"] != "42" || record.Operation != "POST /v1/charges" {
		t.Errorf("record %+v", record)
	}
	if left := time.Until(record.LeaseExpiresAt); left < 599*time.Second || left > 601*time.Second {
		t.Errorf("the lease ends in %v", left)
	}
	send(`{"sent_at":2,"amount":1}`).wantReplay(t)
	done := inspect(t, c, record.ID)
	if kept := done.ExpiresAt.Sub(done.CompletedAt); kept != 2*time.Hour {
		t.Errorf("it is kept for %v", kept)
	}
}

// TestAPolicyOfTheTenantReachesTheEndUser answers mismatches as the tenant has
// chosen, and releases errors.
func TestAPolicyOfTheTenantReachesTheEndUser(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	status, errors, replays := 422, tenants.StoreErrorsClient, tenants.OnMismatchReplay
	w.SetPolicy(t, tenants.Override{Operation: "POST /v1/charges", MismatchStatus: &status, StoreErrors: &errors})
	w.SetPolicy(t, tenants.Override{Operation: "POST /v1/notes", OnMismatch: &replays})
	runs := 0
	e := protect(t, newClient(t, w), client.Middleware{}, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if runs++; runs == 1 {
			rw.WriteHeader(http.StatusBadGateway)
		}
	}))
	key := newKey()
	if first := e.charge(t, key); first.status != 502 || first.header.Get("Onceward-Stored") != "" {
		t.Errorf("first %+v", first)
	}
	if again := e.charge(t, key); again.status != 200 || runs != 2 {
		t.Errorf("an error that is not stored did not run again: %+v", again)
	}
	e.send(t, http.MethodPost, "/v1/charges", "other", "Idempotency-Key", key).wantProblem(t, 422, client.ErrMismatch)
	e.send(t, http.MethodPost, "/v1/notes", "one", "Idempotency-Key", key)
	e.send(t, http.MethodPost, "/v1/notes", "two", "Idempotency-Key", key).wantReplay(t)
}

// TestARevokedCredentialIsSaidAtShutdown revokes the key while an
// operation runs: what cannot be stored under it is kept for as long as the
// process lives, and said when it ends.
func TestARevokedCredentialIsSaidAtShutdown(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	credential, key, err := auth.NewCredentials(w.Pool, nil).Issue(t.Context(), w.Tenant.ID, auth.IssueParams{Name: "short-lived", Role: auth.RoleService, Namespace: w.Tenant.Live})
	if err != nil {
		t.Fatal(err)
	}
	logs := new(logbook)
	c, err := client.New(client.Config{BaseURL: w.URL, APIKey: key.Reveal(), StoreTimeout: time.Millisecond, Logger: slog.New(logs.handler())})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Do(t.Context(), charge(newKey()), func(context.Context, *client.Lease) (client.Response, error) {
		if err := auth.NewCredentials(w.Pool, nil).Revoke(t.Context(), w.Tenant.ID, credential.ID); err != nil {
			t.Error(err)
		}
		eventually(t, "the key is refused", func() bool {
			_, err := c.Contract(t.Context())
			return client.CodeOf(err) == client.ErrUnauthenticated
		})
		return created(), nil
	})
	if err != nil {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(over); err == nil || len(logs.said("given up at shutdown")) != 1 {
		t.Errorf("Close: %v, logged %s", err, logs.text())
	}
}
