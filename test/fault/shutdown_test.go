//go:build unix

package fault_test

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// B101: SIGTERM while 200 completions are held up in the database and twenty
// begins wait. Those who wait are told to come back, nobody new is let in, the
// completions are answered with 200 and stored, and the process ends with 0.
func TestSIGTERMDuringCompletesAndWaitsCutsNothingOff(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	const completions, waits = 200, 20
	const grace = 30 * time.Second // more than the default, for a busy machine
	process, other := w.API(t, "ONCEWARD_SHUTDOWN_TIMEOUT="+grace.String()), w.API(t)
	setUp := other.Client(w.Tenant.Service)
	keys, held := acquireMany(t, setUp, completions)
	waitedFor := processtest.NewKey()
	setUp.Begin(t, apitest.Charge(waitedFor)).Acquired(t)

	var calls sync.WaitGroup
	var waiting, completing atomic.Int64 // that have come to the process
	waited, completed := make([]string, waits), make([]string, completions)
	for i := range waits {
		c := process.Client(w.Tenant.Service)
		calls.Go(func() {
			a, err := processtest.Begin(processtest.Arriving(t.Context(), &waiting), c, apitest.Charge(waitedFor), "Prefer: wait=30", processtest.Expecting)
			if err != nil || a.Status != http.StatusConflict || a.Header.Get("Retry-After") == "" {
				waited[i] = processtest.Say(a, err)
			}
		})
	}
	processtest.Eventually(t, "the begins wait", func() bool { return waiting.Load() == waits && looksForWaiters(t, w) })

	// The test holds the rows, so that every completion is on its way and none
	// can be done.
	tx, err := w.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `select from idempotency_keys where key = any ($1) for update`, keys); err != nil {
		t.Fatal(err)
	}
	for i := range completions {
		c := process.Client(w.Tenant.Service)
		calls.Go(func() {
			a, err := processtest.Complete(processtest.Arriving(t.Context(), &completing), c, held[i], processtest.Done("the response of "+keys[i]), processtest.Expecting)
			if err != nil || a.Status != http.StatusOK {
				completed[i] = processtest.Say(a, err)
			}
		})
	}
	processtest.Eventually(t, "all completions are under way", func() bool { return completing.Load() == completions && isHeldUp(t, w, tx) })

	process.Terminate(t)
	processtest.Eventually(t, "nobody new is let in", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(process.URL, "http://"))
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	if process.Ended() {
		t.Error("the process ended before the completions were answered")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	let := time.Now()
	calls.Wait()
	if code := process.Wait(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if took := time.Since(let); took > grace {
		t.Errorf("it took %s to end, want at most %s", took, grace)
	}
	for _, fault := range append(waited, completed...) {
		if fault != "" {
			t.Errorf("a call that was under way got %s", fault)
		}
	}
	for _, key := range keys {
		if err := processtest.IsDone(setUp.Begin(t, apitest.Charge(key)), "the response of "+key); err != nil {
			t.Error(err)
		}
	}
}

// acquireMany begins n charges.
func acquireMany(t *testing.T, c *apitest.Client, n int) (keys []string, held []apitest.Acquired) {
	t.Helper()
	begins := make([]any, n)
	for i := range begins {
		keys = append(keys, processtest.NewKey())
		begins[i] = apitest.Charge(keys[i])
	}
	held = make([]apitest.Acquired, n)
	for i, r := range c.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": begins}).Results(t) {
		r.As(t, &held[i])
	}
	return keys, held
}

// looksForWaiters says whether a process has begun to look after parked begins.
func looksForWaiters(t *testing.T, w *processtest.World) (looks bool) {
	t.Helper()
	const statement = `
		select exists (
		    select from pg_stat_activity
		    where datname = current_database() and application_name = 'onceward-api' and query like '%fence is distinct from%')`
	if err := w.Pool.QueryRow(t.Context(), statement).Scan(&looks); err != nil {
		t.Fatal(err)
	}
	return looks
}

// isHeldUp says whether a statement of a process waits for the transaction.
func isHeldUp(t *testing.T, w *processtest.World, tx pgx.Tx) (held bool) {
	t.Helper()
	const statement = `select exists (select from pg_stat_activity where datname = current_database() and $1::integer = any (pg_blocking_pids(pid)))`
	if err := w.Pool.QueryRow(t.Context(), statement, tx.Conn().PgConn().PID()).Scan(&held); err != nil {
		t.Fatal(err)
	}
	return held
}
