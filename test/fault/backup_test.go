//go:build unix

package fault_test

import (
	"context"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

//nolint:gochecknoglobals // what the page has, twice below
var (
	dumpOptions    = []string{"--format=custom", "--no-owner", "--no-unlogged-table-data"}
	restoreOptions = []string{"--no-owner", "--exit-on-error", "--single-transaction"}
)

// The commands of docs/operations.md: what was dumped and restored into another
// database replays byte for byte, a lease that was held can be completed, and a
// key that was open is still bound to its request.
func TestADumpThatIsRestoredReplaysByteForByte(t *testing.T) {
	t.Parallel()
	dump, restore := program(t, "pg_dump"), program(t, "pg_restore")
	w := processtest.New(t)
	notOlder(t, dump, w.Pool)
	onThePage(t, "pg_dump "+strings.Join(dumpOptions, " "), "pg_restore "+strings.Join(restoreOptions, " "))
	c := w.API(t).Client(w.Tenant.Service)
	begin := apitest.Charge(processtest.NewKey())
	done := c.Begin(t, begin).Acquired(t)
	c.Do(t, http.MethodPut, "/v1/keys/"+done.ID+"/response", apitest.Object{
		"status": 207, "headers": [][2]string{{"X-Odd", "é"}, {"Content-Type", "application/octet-stream"}, {"x-odd", "two"}},
		"body_base64": "AAEC/v8NCg==",
	}, processtest.Lease(done)).Completion(t)
	heldKey := processtest.NewKey()
	held := c.Begin(t, apitest.Charge(heldKey)).Acquired(t)
	replay := func(c *apitest.Client) []byte {
		return c.Begin(t, begin, "Accept: application/http").Expect(t, http.StatusOK).Body
	}
	before := replay(c)

	file := filepath.Join(t.TempDir(), "onceward.dump")
	command(t, dump, slices.Concat(dumpOptions, []string{"--file=" + file, w.Pool.Config().ConnString()})...)
	elsewhere := emptyDatabase(t)
	command(t, restore, slices.Concat(restoreOptions, []string{"--dbname=" + elsewhere, file})...)

	pool, err := postgres.Open(t.Context(), postgres.Config{URL: elsewhere, MaxConns: 4, ApplicationName: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	restored := processtest.On(t, apitest.On(t, pool), elsewhere)
	process := restored.API(t)
	processtest.Eventually(t, "the process on the restored database is ready", func() bool { ready, _ := readiness(t, process); return ready })
	c = process.Client(w.Tenant.Service)
	if diff := cmp.Diff(replay(c), before); diff != "" {
		t.Errorf("the replay after the restore (-got +want):\n%s", diff)
	}
	c.Begin(t, apitest.Charge(heldKey)).Problem(t, http.StatusConflict, "in_progress")
	c.Complete(t, held, processtest.Done("done")).Completion(t)
}

// emptyDatabase is the URL of a database with nothing in it.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	return postgrestest.NewEmpty(t).Config().ConnString()
}

// program finds a client program of PostgreSQL on PATH or where packages put
// it, the newest first.
func program(t *testing.T, name string) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		return slices.Max(found)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not on this machine: the rehearsal of backup and restore is left out", name)
	}
	return path
}

// notOlder skips the test where a client program is older than the server,
// which it then refuses.
func notOlder(t *testing.T, program string, pool *pgxpool.Pool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(out)) // pg_dump (PostgreSQL) 15.18 …
	if len(fields) < 3 {
		t.Fatalf("%s calls its version %s", program, out)
	}
	major, _, _ := strings.Cut(fields[2], ".")
	client, err := strconv.ParseInt(major, 10, 64)
	if err != nil {
		t.Fatalf("%s calls its version %s", program, out)
	}
	if server := count(t, pool, "select current_setting('server_version_num')::bigint / 10000"); client < server {
		t.Skipf("%s is of version %d, and the server of %d: the rehearsal is left out", program, client, server)
	}
}

// command runs a program whose last argument may be a database's URL. The
// password goes by the environment, where other users do not see it.
func command(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	for i, arg := range args {
		given := strings.TrimPrefix(strings.TrimPrefix(arg, "--dbname="), "--maintenance-db=")
		at, err := url.Parse(given)
		if err != nil || at.User == nil {
			continue
		}
		password, _ := at.User.Password()
		cmd.Env = append(cmd.Environ(), "PGPASSWORD="+password)
		at.User = url.User(at.User.Username())
		cmd.Args[i+1] = strings.Replace(arg, given, at.String(), 1)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", filepath.Base(program), err, out)
	}
}
