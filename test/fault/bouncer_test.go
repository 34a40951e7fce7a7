//go:build unix

package fault_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/outputtest"
	"github.com/onceward/onceward/test/processtest"
)

// docs/operations.md, PgBouncer: in session mode it is a database like
// another, for batchers, pool and the listener of the replay cache.
func TestPgBouncerInSessionModeIsADatabaseLikeAnother(t *testing.T) {
	t.Parallel()
	base := apitest.On(t, postgrestest.New(t))
	w := processtest.On(t, base, bouncer(t, base.Pool.Config().ConnString()))
	process := w.API(t, "ONCEWARD_REPLAY_CACHE_MIB=8")
	processtest.Eventually(t, "the process is ready", func() bool { ready, _ := readiness(t, process); return ready })
	processtest.AtOnce(32, func(int) {
		c := process.Client(w.Tenant.Service)
		begin := apitest.Charge(processtest.NewKey())
		c.Complete(t, c.Begin(t, begin).Acquired(t), processtest.Done("done")).Completion(t)
		processtest.Eventually(t, "a replay is from memory, so notifications are heard", func() bool {
			if err := processtest.IsDone(c.Begin(t, begin), "done"); err != nil {
				t.Error(err)
			}
			return t.Failed() || process.Metric(t, "onceward_replay_cache_hits_total") > 0
		})
	})
}

// bouncer is the URL of a database through a PgBouncer.
func bouncer(t *testing.T, databaseURL string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		t.Skip("pgbouncer is not on PATH")
	}
	at, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	_ = l.Close()
	// Not t.TempDir, which another user may not enter.
	dir, err := os.MkdirTemp("", "onceward-bouncer-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	password, _ := at.User.Password()
	config := filepath.Join(dir, "pgbouncer.ini")
	for path, text := range map[string]string{
		config: fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = session
`, at.Hostname(), at.Port(), port, filepath.Join(dir, "users.txt")),
		filepath.Join(dir, "users.txt"): fmt.Sprintf("%q %q\n", at.User.Username(), password),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said outputtest.Buffer
	run := exec.Command(program, config)
	run.Stdout, run.Stderr = &said, &said
	if os.Geteuid() == 0 { // as whom PgBouncer does not run
		const nobody = 65534
		for _, path := range []string{dir, config, filepath.Join(dir, "users.txt")} {
			if err := os.Chown(path, nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
		run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = run.Process.Kill()
		_ = run.Wait()
		if t.Failed() {
			t.Logf("PgBouncer said:\n%s", said.String())
		}
	})
	at.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	processtest.Eventually(t, "PgBouncer listens", func() bool {
		conn, err := net.Dial("tcp4", at.Host)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return at.String()
}
