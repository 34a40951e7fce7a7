//go:build unix

// Package leak_test holds that the service gives back what it takes: no
// goroutine and no connection outlives what needed it, neither of a whole
// instance nor, in a process that goes on, of requests that were cancelled,
// refused or cut off. It is a package of its own since goroutines are counted
// for a whole test binary.
package leak_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m, "api") }

// use makes an instance do everything that could be left behind: calls of every
// kind, waits that end in every way, clients that hang up or stop half-way, and
// a batch.
func use(t *testing.T, w *apitest.World, at *apitest.Instance) {
	t.Helper()
	const rounds = 30
	c, waiter, leaver := at.Client(w.Tenant.Service), at.Client(w.Tenant.Service), at.Client(w.Tenant.Service)
	for _, client := range []*apitest.Client{c, waiter, leaver} {
		defer client.Close()
	}
	for n := range rounds {
		key := processtest.NewKey()
		held := c.Begin(t, apitest.Charge(key)).Acquired(t)
		waiting := make(chan struct{})
		go func() { // ends with the completion
			defer close(waiting)
			_, _ = processtest.Begin(t.Context(), waiter, apitest.Charge(key), "Prefer: wait=30")
		}()
		ctx, hangUp := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond)
		_, _ = processtest.Begin(ctx, leaver, apitest.Charge(key), "Prefer: wait=30")
		_, _ = processtest.Begin(ctx, leaver, apitest.Charge(processtest.NewKey()))
		hangUp()
		c.Renew(t, held, nil).Expect(t, http.StatusOK)
		c.SetRecoveryPoint(t, held, apitest.Object{"name": "n", "data": n}).Expect(t, http.StatusNoContent)
		c.Complete(t, held, processtest.Done("done")).Completion(t)
		c.Complete(t, held, processtest.Done("another")).Problem(t, http.StatusConflict, "already_completed")
		c.Begin(t, `{"key":`).Problem(t, http.StatusBadRequest, "invalid_request")
		c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": []any{apitest.Charge(key), apitest.Charge(processtest.NewKey()), 1}}).Results(t)
		stopHalfWay(t, at)
		<-waiting
	}
}

// stopHalfWay sends half a request and closes the connection.
func stopHalfWay(t *testing.T, at *apitest.Instance) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(at.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("POST /v1/keys HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// An instance that has ended leaves no goroutine and no connection behind.
func TestAnInstanceLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it counts every goroutine there is
	postgrestest.NewURL(t) // the server, and what watches over it, stay
	before := goleak.IgnoreCurrent()
	t.Run("one that was used", func(t *testing.T) {
		w := apitest.New(t)
		second := w.Start(t)
		use(t, w, w.Instance)
		use(t, w, second)
		for _, instance := range []*apitest.Instance{w.Instance, second} {
			if err := instance.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
			instance.Keys.(interface{ Close() }).Close() //nolint:forcetypeassert // the real service
		}
		processtest.Eventually(t, "no connection is used", func() bool { return w.Pool.Stat().AcquiredConns() == 0 })
		w.Pool.Reset()
		processtest.Eventually(t, "only the test is connected", func() bool {
			var others int
			const statement = `select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
			return w.Pool.QueryRow(t.Context(), statement).Scan(&others) == nil && others == 0
		})
	})
	// It looks again and again, for a while: ends take a moment.
	if err := goleak.Find(before, goleak.IgnoreTopFunction("testing.(*T).Run")); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// A process that goes on comes back to the goroutines and connections that it
// had, and leaves no connection when it ends.
func TestAProcessComesBackToWhatItHad(t *testing.T) { //nolint:paralleltest // beside the other it would be counted there
	w := processtest.New(t)
	process := w.API(t)
	use(t, w.World, process.Instance)
	goroutines := func() float64 { return process.Metric(t, "go_goroutines") }
	before := goroutines() // with what the first use has brought about for good
	for range 3 {
		use(t, w.World, process.Instance)
	}
	processtest.Eventually(t, "the goroutines are as many as before", func() bool { return goroutines() <= before+slack })
	const most = 6 + 4 // the pool and the batchers
	if got := w.Connections(t); got > most {
		t.Errorf("%d connections to the database, want at most %d", got, most)
	}
	process.Terminate(t)
	if code := process.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	processtest.Eventually(t, "no connection is left", func() bool { return w.Connections(t) == 0 })
}

// slack is for what comes and goes by itself; a goroutine left by one kind of
// request would be there ninety times.
const slack = 10
