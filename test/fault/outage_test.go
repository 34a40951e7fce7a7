//go:build unix

package fault_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

// blackHole takes everything and answers nothing, in both directions.
const blackHole = `{"name": "hole", "type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`

// recovery is how long a process may take to notice that its database is back.
const recovery = 5 * time.Second

// A database that refuses connections, one that says nothing, one that only
// reads and one that has no connection left: every begin and completion of a
// crowd is answered 503 with Retry-After, /readyz says why, and once the
// database is back the same process goes on with every lease that it gave.
func TestAnOutageIsA503ForEverybodyAndEndsByItself(t *testing.T) {
	t.Parallel()
	for name, outage := range map[string]struct {
		begin, end func(t *testing.T, w *processtest.World, p *proxy, role string)
		reason     string // in /readyz, for the operator
	}{
		"down": {
			func(_ *testing.T, _ *processtest.World, p *proxy, _ string) { p.cut() },
			func(t *testing.T, w *processtest.World, p *proxy, _ string) { p.mend(t, w.Pool.Config().ConnString()) },
			"refused",
		},
		"silent": {
			func(t *testing.T, _ *processtest.World, p *proxy, _ string) { p.add(t, blackHole) },
			func(_ *testing.T, _ *processtest.World, p *proxy, _ string) { p.heal() },
			"deadline",
		},
		"read only": {
			statements(`alter role %[1]s set default_transaction_read_only = on`, reconnect),
			statements(`alter role %[1]s reset default_transaction_read_only`, reconnect),
			"takes no writes",
		},
		"out of connections": {
			statements(`alter role %[1]s connection limit 0`, reconnect),
			statements(`alter role %[1]s connection limit -1`),
			"too many connections",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := apitest.On(t, postgrestest.New(t))
			role, databaseURL := roleOf(t, base)
			p := newProxy(t, databaseURL)
			w := processtest.On(t, base, p.url)
			w.Expect(refused)
			process := w.API(t)
			c := process.Client(w.Tenant.Service)
			key := processtest.NewKey()
			held := c.Begin(t, apitest.Charge(key)).Acquired(t)

			outage.begin(t, w, p, role)
			for range 2 { // the first that notice, and those who come later
				crowd(t, process, w, held)
			}
			processtest.Eventually(t, "/readyz says no, with "+outage.reason, func() bool {
				ready, reasons := readiness(t, process)
				return !ready && strings.Contains(reasons, outage.reason)
			})
			outage.end(t, w, p, role)
			ended := time.Now()
			repeated(t, func() (*apitest.Answer, error) {
				return processtest.Begin(t.Context(), c, apitest.Charge(processtest.NewKey()))
			}).Acquired(t)
			if took := time.Since(ended); took > recovery {
				t.Errorf("a begin was answered %s after the database was back, want at most %s", took, recovery)
			}

			processtest.Eventually(t, "the process is ready again", func() bool { ready, _ := readiness(t, process); return ready })
			a := repeated(t, func() (*apitest.Answer, error) { return processtest.Begin(t.Context(), c, apitest.Charge(key)) })
			a.Problem(t, http.StatusConflict, "in_progress")
			a = repeated(t, func() (*apitest.Answer, error) {
				return processtest.Complete(t.Context(), c, held, processtest.Done("done"))
			})
			a.Completion(t)
		})
	}
}

// crowd makes many calls at once, which must all be refused for a while only.
func crowd(t *testing.T, process *processtest.API, w *processtest.World, held apitest.Acquired) {
	t.Helper()
	const callers = 32
	processtest.AtOnce(callers, func(i int) {
		c := process.Client(w.Tenant.Service)
		began := time.Now()
		call := func() (*apitest.Answer, error) {
			return processtest.Begin(t.Context(), c, apitest.Charge(processtest.NewKey()))
		}
		if i%4 == 3 {
			call = func() (*apitest.Answer, error) {
				return processtest.Complete(t.Context(), c, held, processtest.Done("done"))
			}
		}
		a, err := call()
		if err != nil || a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Errorf("call %d: %s after %s, want 503 with Retry-After", i, processtest.Say(a, err), time.Since(began))
		}
		if i == 0 {
			t.Logf("503 after %s", time.Since(began))
		}
	})
}

// readiness is what the operator is told.
func readiness(t *testing.T, process *processtest.API) (ready bool, reasons string) {
	t.Helper()
	operator := process.OperatorClient()
	defer operator.Close()
	a := operator.Do(t, http.MethodGet, "/readyz", nil)
	var body struct {
		Ready  bool `json:"ready"`
		Checks []struct{ Name, Reason string }
	}
	if err := json.Unmarshal(a.Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.Ready != (a.Status == http.StatusOK) {
		t.Errorf("/readyz says %t with %d", body.Ready, a.Status)
	}
	return body.Ready, fmt.Sprint(body.Checks)
}

// statements are run with the role of the processes for %[1]s.
func statements(list ...string) func(*testing.T, *processtest.World, *proxy, string) {
	return func(t *testing.T, w *processtest.World, _ *proxy, role string) {
		t.Helper()
		for _, statement := range list {
			if _, err := w.Pool.Exec(t.Context(), strings.ReplaceAll(statement, "%[1]s", role)); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
}

// The disk under the records is full: begins that find no room are 503, what
// was acknowledged before is there, and when there is room again the same
// process takes new ones. /readyz says why to the operator, and keeps the
// process in service: no other has another disk.
func TestADiskThatIsFullIsA503AndLosesNothing(t *testing.T) {
	t.Parallel()
	server := newOwnServer(t)
	disk := smallDisk(t, server.dataDir)
	if err := server.CreateDatabase(t.Context(), "onceward"); err != nil {
		t.Fatal(err)
	}
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: server.URL("onceward"), MaxConns: 4, ApplicationName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := postgres.Migrate(t.Context(), pool, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"create tablespace small location '" + disk + "'", "alter table idempotency_keys set tablespace small"} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	w := processtest.On(t, apitest.On(t, pool), server.URL("onceward"))
	w.Expect(refused)
	process := w.API(t)
	c := process.Client(w.Tenant.Service)

	held := map[string]apitest.Acquired{}
	const most = 100_000
	full := false
	for range most {
		key, began := processtest.NewKey(), time.Now()
		a := c.Begin(t, apitest.Charge(key))
		if full = a.Status != http.StatusCreated; full {
			a.Problem(t, http.StatusServiceUnavailable, "unavailable")
			// Nobody waits for room: 3 s are those of a machine that is busy.
			if took := time.Since(began); a.Header.Get("Retry-After") == "" || took > 3*time.Second {
				t.Errorf("Retry-After %q after %s", a.Header.Get("Retry-After"), took)
			}
			break
		}
		held[key] = a.Acquired(t)
	}
	if !full {
		t.Fatalf("the disk was not full after %d begins", most)
	}
	if ready, reasons := readiness(t, process); !ready || !strings.Contains(reasons, "had no disk left") {
		t.Errorf("/readyz says %t, %s: want that the process serves, and has no disk", ready, reasons)
	}
	for key := range held {
		c.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")
	}
	if err := os.Remove(filepath.Join(disk, "ballast")); err != nil {
		t.Fatal(err)
	}
	for key := range held {
		c.Complete(t, held[key], processtest.Done(key)).Completion(t)
		break
	}
	c.Begin(t, apitest.Charge(processtest.NewKey())).Acquired(t)
	processtest.Eventually(t, "/readyz forgets it", func() bool { _, reasons := readiness(t, process); return !strings.Contains(reasons, "no disk") })
	t.Logf("%d begins until the disk was full", len(held))
}

// smallDisk is a folder on a disk of its own with little room, and with a file
// ballast that takes most of it. It belongs to whom the data belongs.
func smallDisk(t *testing.T, dataDir string) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux can make a disk that fills up")
	}
	dir, err := os.MkdirTemp("", "onceward-disk-") //nolint:usetesting // PostgreSQL's user may not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := mount(dir); err != nil {
		t.Skipf("a disk of its own cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unmount(dir) })
	info, err := os.Stat(filepath.Join(dataDir, "PG_VERSION"))
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // of every Unix
	disk := filepath.Join(dir, "space")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(disk, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
	const ballast = 6 << 20
	if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, ballast), 0o600); err != nil {
		t.Fatal(err)
	}
	return disk
}
