//go:build unix

package fault_test

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// docs/operations.md, an upgrade with a stop: pg_upgrade takes the data of a
// server that was stopped over into a new one. What was completed is replayed
// byte for byte, and what is held can be completed.
func TestDataThatPGUpgradeTakesOverIsWhole(t *testing.T) {
	t.Parallel()
	before, after := newOwnServer(t), newFolder(t)
	bin := before.BinDir
	after.opts.BinDir = bin
	after.start(t)
	pool := migrated(t, before)
	if _, err := os.Stat(filepath.Join(bin, "pg_upgrade")); err != nil {
		t.Skip("the PostgreSQL of this machine has no pg_upgrade: the rehearsal is left out")
	}
	w := processtest.On(t, apitest.On(t, pool), before.URL("onceward"))
	process := w.API(t)
	c := process.Client(w.Tenant.Service)
	begin, heldKey := apitest.Charge(processtest.NewKey()), processtest.NewKey()
	c.Complete(t, c.Begin(t, begin).Acquired(t), processtest.Done("done")).Completion(t)
	held := c.Begin(t, apitest.Charge(heldKey)).Acquired(t)
	replay := func(c *apitest.Client) []byte {
		return c.Begin(t, begin, "Accept: application/http").Expect(t, http.StatusOK).Body
	}
	was := replay(c)
	process.Terminate(t)
	process.Wait(t)

	onThePage(t, "pg_upgrade --link --old-bindir=", " --new-bindir=", " --old-datadir=", " --new-datadir=", "vacuumdb --all --analyze-in-stages")
	password := samePassword(t, before, after)
	pool.Close()
	for _, server := range []*ownServer{before, after} {
		server.end(t, syscall.SIGINT)
	}
	runUpgrade(t, bin, password, before.dataDir, after.dataDir)
	after.start(t)
	command(t, filepath.Join(bin, "vacuumdb"), "--all", "--analyze-in-stages", "--quiet", "--maintenance-db="+after.URL("postgres"))

	moved := processtest.On(t, apitest.On(t, poolOn(t, after.URL("onceward"))), after.URL("onceward"))
	c = moved.API(t).Client(w.Tenant.Service)
	if diff := cmp.Diff(replay(c), was); diff != "" {
		t.Errorf("the replay after the upgrade (-got +want):\n%s", diff)
	}
	c.Begin(t, apitest.Charge(heldKey)).Problem(t, http.StatusConflict, "in_progress")
	c.Complete(t, held, processtest.Done("done")).Completion(t)
}

// samePassword gives the new server the old one's, which it has after the
// upgrade in any case.
func samePassword(t *testing.T, before, after *ownServer) string {
	t.Helper()
	at, err := url.Parse(before.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	password, _ := at.User.Password()
	pool := poolOn(t, after.URL("postgres"))
	execute(t, pool, "alter role postgres password '"+password+"'")
	pool.Close()
	const file = "onceward-password"
	if err := os.WriteFile(filepath.Join(after.dataDir, file), []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return password
}

// runUpgrade runs pg_upgrade as the user of the data, in a folder of its own.
func runUpgrade(t *testing.T, bin, password, before, after string) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(after), "upgrade")
	passwords := filepath.Join(dir, "passwords")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(passwords, []byte("*:*:*:*:"+password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	belongsAs(t, dir, after)
	run := exec.CommandContext(t.Context(), filepath.Join(bin, "pg_upgrade"), "--link", "--username=postgres",
		"--old-bindir="+bin, "--new-bindir="+bin, "--old-datadir="+before, "--new-datadir="+after)
	run.Dir = dir
	run.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "PGPASSFILE=" + passwords}
	if owner := ownerOf(t, after); os.Geteuid() == 0 {
		run.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("pg_upgrade: %v: %s", err, out)
	}
}
