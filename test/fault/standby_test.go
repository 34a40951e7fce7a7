//go:build unix

package fault_test

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/test/processtest"
)

// A primary with a synchronous standby is killed under load from two processes,
// which know both by their URL, and the standby is promoted: the processes go
// on by themselves, and nothing that was acknowledged is lost.
func TestAPromotedStandbyHasAllThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	primary := newOwnServer(t)
	pool := migrated(t, primary)
	standby := standbyOf(t, primary)
	promised := "alter system set synchronous_standby_names = 'ANY 1 (db_2, db_3)'"
	onThePage(t, promised, "select pg_reload_conf()", "select application_name, sync_state, replay_lag from pg_stat_replication", "select pg_promote()")
	for _, statement := range []string{promised, "select pg_reload_conf()"} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	processtest.Eventually(t, "commits wait for the standby", func() bool {
		var waits bool
		err := pool.QueryRow(t.Context(), `select exists (select from pg_stat_replication where application_name = 'db_2' and sync_state = 'quorum')`).Scan(&waits)
		return err == nil && waits
	})
	both := bothHosts(t, primary.URL("onceward"), standby.URL("onceward"))
	w := processtest.On(t, apitest.On(t, poolOn(t, both)), both)
	w.Expect(refused)
	processes := w.APIs(t, 2)

	l := startLoad(t, w, 8, processes...)
	primary.end(t, syscall.SIGKILL)
	promote(t, standby)
	l.goesOn(t, "the standby's promotion")
	l.end()

	w.Pool.Reset()
	c := processes[1].Client(w.Tenant.Service)
	for key := range l.completed {
		if err := processtest.IsDone(c.Begin(t, apitest.Charge(key)), "the response of "+key); err != nil {
			t.Error(err)
		}
	}
	for key, held := range l.begun {
		c.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")
		if fence := fenceOf(t, w, key); fence != held.Lease.Fence {
			t.Errorf("an acknowledged begin has the fence %d now, not %d", fence, held.Lease.Fence)
		}
	}
	for _, process := range processes {
		processtest.Eventually(t, "the process is ready", func() bool { ready, _ := readiness(t, process); return ready })
	}
	t.Logf("%d completed and %d begun under load", len(l.completed), len(l.begun))
}

// migrated is a pool on the database onceward of the server, which it makes.
func migrated(t *testing.T, server *ownServer) *pgxpool.Pool {
	t.Helper()
	if err := server.CreateDatabase(t.Context(), "onceward"); err != nil {
		t.Fatal(err)
	}
	pool := poolOn(t, server.URL("onceward"))
	if err := postgres.Migrate(t.Context(), pool, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return pool
}

func poolOn(t *testing.T, databaseURL string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: databaseURL, MaxConns: 4, ApplicationName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// standbyOf is a server that follows the primary under the name db_2.
func standbyOf(t *testing.T, primary *ownServer) *ownServer {
	t.Helper()
	backup := filepath.Join(primary.BinDir, "pg_basebackup")
	if _, err := os.Stat(backup); err != nil {
		t.Skipf("the PostgreSQL of this machine has no pg_basebackup: the rehearsal with a standby is left out")
	}
	standby := newFolder(t)
	onThePage(t, "pg_basebackup", "--write-recovery-conf", "--checkpoint=fast")
	command(t, backup, "--write-recovery-conf", "--checkpoint=fast", "--pgdata="+standby.dataDir,
		"--dbname="+primary.URL("postgres")+"&application_name=db_2")
	belongsAs(t, standby.dataDir, primary.dataDir)
	standby.start(t)
	return standby
}

// belongsAs gives all of a folder to the owner of another, as whom PostgreSQL runs.
func belongsAs(t *testing.T, folder, other string) {
	t.Helper()
	owner := ownerOf(t, other)
	err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
	if err != nil {
		t.Fatalf("give %s to PostgreSQL's user: %v", folder, err)
	}
}

func ownerOf(t *testing.T, path string) *syscall.Stat_t {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t) //nolint:forcetypeassert // of every Unix
}

// promote makes a standby the primary.
func promote(t *testing.T, standby *ownServer) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), standby.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var promoted bool
	if err := conn.QueryRow(t.Context(), "select pg_promote()").Scan(&promoted); err != nil || !promoted {
		t.Fatalf("promote the standby: %t, %v", promoted, err)
	}
}

// onThePage fails the test where docs/operations.md does not say what it is
// about to do.
func onThePage(t *testing.T, commands ...string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range commands {
		if !strings.Contains(string(page), command) {
			t.Errorf("docs/operations.md does not have %q, which this test rehearses", command)
		}
	}
}
