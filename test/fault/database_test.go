//go:build unix

package fault_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/devpg"
	"github.com/onceward/onceward/test/processtest"
)

// ownServer is a PostgreSQL of the test's own that keeps every promise about
// crashes, on a data folder that outlives it.
type ownServer struct {
	*devpg.Server
	dataDir string
	opts    devpg.Options   // the data folder aside
	log     strings.Builder // of those that were killed
}

func newOwnServer(t *testing.T) *ownServer {
	t.Helper()
	s := newFolder(t)
	s.start(t)
	return s
}

// newFolder is a server that is not started, on a data folder that is not there.
func newFolder(t *testing.T) *ownServer {
	t.Helper()
	// Not t.TempDir, which PostgreSQL's user may not enter.
	dir, err := os.MkdirTemp("", "onceward-fault-pg-") //nolint:usetesting // see above
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &ownServer{dataDir: filepath.Join(dir, "pg")}
	t.Cleanup(func() {
		if s.Server != nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if err := s.Stop(ctx); err != nil {
				t.Errorf("stop PostgreSQL: %v", err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the data of PostgreSQL: %v", err)
		}
	})
	return s
}

// start starts the server on what its data folder has. Processes of a server
// that was killed may be about to end still.
func (s *ownServer) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	processtest.Eventually(t, "PostgreSQL starts", func() bool {
		s.opts.DataDir = s.dataDir
		server, err := devpg.Start(ctx, s.opts)
		if err != nil {
			t.Logf("start PostgreSQL: %v", err)
			return false
		}
		s.Server = server
		return true
	})
}

// kill sends the signal to the server, waits until it is gone and starts it
// again.
func (s *ownServer) kill(t *testing.T, signal syscall.Signal) {
	t.Helper()
	s.end(t, signal)
	s.keepLog(t)
	s.start(t)
}

// end sends the signal to the server and waits until it is gone.
func (s *ownServer) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.PID, signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Fatal("PostgreSQL did not end")
	}
	_ = s.Stop(t.Context()) // it has ended; its watchdog has not
	s.Server = nil
}

// keepLog reads the log, which the next start makes anew.
func (s *ownServer) keepLog(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(s.dataDir + ".log")
	if err != nil {
		t.Fatal(err)
	}
	s.log.Write(text)
}

// load begins and completes as fast as it can, repeats whatever is not
// answered or unavailable, and remembers what was acknowledged.
type load struct {
	w     *processtest.World
	stop  chan struct{}
	end   func()       // ends the workers; may be called more than once
	pairs atomic.Int64 // that were acknowledged

	mu        sync.Mutex // guards all below
	completed map[string]bool
	begun     map[string]apitest.Acquired // and never completed
}

// startLoad begins with so many workers, in turn at each process, and returns
// when they have been answered.
func startLoad(t *testing.T, w *processtest.World, workers int, processes ...*processtest.API) *load {
	t.Helper()
	l := &load{w: w, stop: make(chan struct{}), completed: map[string]bool{}, begun: map[string]apitest.Acquired{}}
	var working sync.WaitGroup
	l.end = sync.OnceFunc(func() { close(l.stop); working.Wait() })
	t.Cleanup(l.end)
	for n := range workers {
		c := processes[n%len(processes)].Client(w.Tenant.Service)
		working.Go(func() { l.run(t, c) })
	}
	l.goesOn(t, "the start")
	return l
}

// run is one worker.
func (l *load) run(t *testing.T, c *apitest.Client) {
	t.Helper()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		default:
		}
		key := processtest.NewKey()
		begin := apitest.Charge(key).With(apitest.Object{"owner": processtest.NewOwner(), "lease_seconds": 3600})
		a := l.persist(t, "begin", func() (*apitest.Answer, error) { return processtest.Begin(t.Context(), c, begin) })
		if a == nil {
			return
		}
		held, err := processtest.Decode[apitest.Acquired](a)
		if err != nil || a.Status != http.StatusCreated || held.Attempt != 1 {
			t.Errorf("begin, repeated with its owner: %s", processtest.Say(a, err))
			return
		}
		if n%4 == 3 {
			l.mu.Lock()
			l.begun[key] = held
			l.mu.Unlock()
			continue
		}
		a = l.persist(t, "complete", func() (*apitest.Answer, error) {
			return processtest.Complete(t.Context(), c, held, processtest.Done("the response of "+key))
		})
		if a == nil {
			return
		}
		if a.Status != http.StatusOK {
			t.Errorf("complete, repeated: %s", processtest.Say(a, nil))
			return
		}
		l.mu.Lock()
		l.completed[key] = true
		l.mu.Unlock()
		l.pairs.Add(1)
	}
}

// persist repeats a call until it is answered, as the contract allows: after a
// broken connection or 503. nil where that takes too long.
func (l *load) persist(t *testing.T, what string, call func() (*apitest.Answer, error)) *apitest.Answer {
	t.Helper()
	const within = 25 * time.Second // a begin can be repeated for 30
	for began := time.Now(); ; {
		a, err := call()
		if err == nil && a.Status != http.StatusServiceUnavailable {
			return a
		}
		if time.Since(began) > within {
			t.Errorf("%s: %s for %s", what, processtest.Say(a, err), within)
			return nil
		}
	}
}

// goesOn waits until the service has done more, or the test has failed.
func (l *load) goesOn(t *testing.T, after string) {
	t.Helper()
	const more = 40
	from := l.pairs.Load()
	processtest.Eventually(t, "the service goes on after "+after, func() bool { return t.Failed() || l.pairs.Load() >= from+more })
	if t.Failed() {
		t.FailNow()
	}
}

// PostgreSQL loses a backend by SIGKILL and recovers, is stopped without
// writing its data out, and is killed outright, all under load from two
// processes. Nothing that was acknowledged is lost, nobody gets an answer that
// is no 503, and the service recovers by itself every time.
func TestADatabaseThatCrashesUnderLoadLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	server := newOwnServer(t)
	if err := server.CreateDatabase(t.Context(), "onceward"); err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, server.URL("onceward")) // its address stays when the server's changes
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: p.url, MaxConns: 4, ApplicationName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := postgres.Migrate(t.Context(), pool, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	w := processtest.On(t, apitest.On(t, pool), p.url)
	w.Expect(refused)
	processes := w.APIs(t, 2)

	l := startLoad(t, w, 8, processes...)
	killBackend(t, server)
	l.goesOn(t, "the crash of a backend")
	for what, signal := range map[string]syscall.Signal{"an immediate shutdown": syscall.SIGQUIT, "a kill": syscall.SIGKILL} {
		server.kill(t, signal)
		p.mend(t, server.URL("onceward"))
		l.goesOn(t, what)
	}
	l.end()

	c := processes[0].Client(w.Tenant.Service)
	for key := range l.completed {
		if err := processtest.IsDone(c.Begin(t, apitest.Charge(key)), "the response of "+key); err != nil {
			t.Error(err)
		}
	}
	for key, held := range l.begun {
		if p := c.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress"); p.Attempt != 1 {
			t.Errorf("an acknowledged begin is attempt %d now", p.Attempt)
		}
		if fence := fenceOf(t, w, key); fence != held.Lease.Fence {
			t.Errorf("an acknowledged begin has the fence %d now, not %d", fence, held.Lease.Fence)
		}
	}
	t.Logf("%d completed and %d begun under load", len(l.completed), len(l.begun))
	server.keepLog(t)
	w.CheckSecrets(t, "the log of PostgreSQL", server.log.String())
}

// killBackend kills a backend of an API process, which makes PostgreSQL end
// all others and recover.
func killBackend(t *testing.T, server *ownServer) {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: server.URL("onceward"), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var pid int
	err = pool.QueryRow(t.Context(), `
		select pid from pg_stat_activity
		where datname = current_database() and application_name = 'onceward-api'
		order by query_start desc limit 1`).Scan(&pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(fmt.Errorf("kill the backend: %w", err))
	}
}
