//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/outputtest"
)

// envMain makes this test binary be the program: the tests of signals and kills
// start it as a process of its own.
const envMain = "ONCEWARD_TEST_BE_MAIN"

const patience = 60 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// process is a worker in a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   *outputtest.Buffer
	addr  string // the file with its address
	ended chan error
}

func start(t *testing.T, databaseURL string, environ ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, log: &outputtest.Buffer{}, addr: filepath.Join(t.TempDir(), "addr.json"), ended: make(chan error, 1)}
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), self)
	p.cmd.Env = append([]string{
		envMain + "=1", "ONCEWARD_DATABASE_URL=" + databaseURL, "ONCEWARD_WORKER_LISTEN_ADDR=127.0.0.1:0", "ONCEWARD_WORKER_ADDR_FILE=" + p.addr,
	}, environ...)
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // has usually ended
		if t.Failed() {
			t.Logf("the worker's log:\n%s", p.log)
		}
	})
	return p
}

// kill is what a crash of the machine does.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	if err := <-p.ended; err == nil {
		p.t.Error("a worker that was killed ended well")
	}
}

// stop ends the worker as an orchestrator does; it must end well.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			p.t.Errorf("the worker ended with: %v", err)
		}
	case <-time.After(patience):
		p.t.Errorf("the worker did not end within %v", patience)
	}
}

// get returns an answer of the operator's listener, or status 0.
func (p *process) get(path string) (status int, body string) {
	p.t.Helper()
	text, err := os.ReadFile(p.addr)
	if err != nil {
		return 0, err.Error()
	}
	var at struct {
		OpsURL string `json:"ops_url"`
	}
	if err := json.Unmarshal(text, &at); err != nil {
		p.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, at.OpsURL+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer.StatusCode, string(content)
}

// untilWorked waits until every job has run.
func (p *process) untilWorked() {
	p.t.Helper()
	eventually(p.t, "every job has run", func() bool {
		status, body := p.get("/readyz")
		return status == http.StatusOK && strings.Count(body, `"age_seconds":null`) == 0 && strings.Count(body, `"age_seconds":`) == 7
	})
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen within %v: %s", patience, what)
		}
	}
}

func open(t *testing.T, databaseURL string) *pgxpool.Pool {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: databaseURL, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func number(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (n int64) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func exec1(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func newTenant(t *testing.T, pool *pgxpool.Pool) auth.TenantID {
	t.Helper()
	id := auth.TenantID(uuid.New())
	exec1(t, pool, "insert into tenants (tenant_id, name, secret) values ($1, 'acme', decode(repeat('ab', 32), 'hex'))", id)
	return id
}

func fill(t *testing.T, pool *pgxpool.Pool, tenant auth.TenantID, n int) {
	t.Helper()
	exec1(t, pool, `
insert into idempotency_keys
    (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at, lease_expires_at, expires_at, completed_at,
     attempt, lease_seconds, retention_seconds, state, status, hold, fingerprint, owner_digest, credential_id, caller, operation, key)
select $1, gen_random_uuid(), gen_random_uuid(), 1, 1, now(), now(), now(), now() - interval '2 hours' - g * interval '1 millisecond', now(),
    1, 60, 3600, 3, 201, false, ''::bytea, ''::bytea, '', '', '', ''
from generate_series(1, $2::integer) g`, tenant, n)
}

func TestAWorkerIsReadyShowsItsJobsAndEndsInGoodOrder(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewURL(t)
	p := start(t, databaseURL)
	p.untilWorked()
	if status, body := p.get("/healthz"); status != http.StatusOK || body != `{"alive":true}` {
		t.Errorf("/healthz: %d %s", status, body)
	}
	_, metrics := p.get("/metrics")
	for _, kind := range []string{"prune", "roll_up", "housekeep", "apply_retentions", "remove_tenants", "recount_usage", "keep_search"} {
		if !strings.Contains(metrics, fmt.Sprintf("onceward_job_last_success_age_seconds{kind=%q}", kind)) {
			t.Errorf("/metrics has no age of %s", kind)
		}
	}
	if status, _ := p.get("/ops/river/"); status != http.StatusNotFound {
		t.Errorf("/ops/river/ is open here: %d", status)
	}
	p.stop()
	if _, err := os.Stat(p.addr); !os.IsNotExist(err) {
		t.Errorf("the address file is still there: %v", err)
	}
}

func TestAWorkerWaitsForTheSchema(t *testing.T) {
	t.Parallel()
	pool := postgrestest.NewEmpty(t)
	p := start(t, pool.Config().ConnString())
	eventually(t, "it says why it is not ready", func() bool {
		status, body := p.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "the schema is too old for this version: level 1 (tenants) is not applied")
	})
	if err := postgres.Migrate(t.Context(), pool, discard()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it works", func() bool {
		return number(t, pool, "select count(*) from job_runs where last_succeeded_at is not null") == 7
	})
	p.stop()
}

// One version apart is no reason to stop: the last worker of a rollout meets a
// schema that it does not know, the first one that of the version before.
func TestAWorkerWorksOnASchemaOfTheVersionBeforeAndAfter(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(testing.TB, *pgxpool.Pool){"oldest": postgrestest.Oldest, "newer": postgrestest.Newer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := postgrestest.NewURL(t)
			pool := open(t, databaseURL)
			move(t, pool)
			p := start(t, databaseURL)
			eventually(t, "it prunes and rolls up, and is ready", func() bool {
				status, _ := p.get("/readyz")
				return status == http.StatusOK &&
					number(t, pool, "select count(*) from job_runs where last_succeeded_at is not null and kind in ('prune', 'roll_up', 'housekeep', 'recount_usage')") == 4
			})
			p.stop()
		})
	}
}

// Case: a worker is killed in the middle of a prune. Its job stays behind as
// running, and another worker takes it when its time is up; here the rows are
// moved into the past instead of waiting for ten minutes.
func TestAWorkerThatIsKilledInAPruneIsSucceededByAnother(t *testing.T) {
	t.Parallel()
	const records = 4_000
	databaseURL := postgrestest.NewURL(t)
	pool := open(t, databaseURL)
	tenant := newTenant(t, pool)
	fill(t, pool, tenant, records)
	left := func() int64 { return number(t, pool, "select count(*) from idempotency_keys") }

	first := start(t, databaseURL, "ONCEWARD_PRUNE_BATCH=100", "ONCEWARD_PRUNE_PAUSE=100ms")
	eventually(t, "a part is pruned", func() bool { n := left(); return n < records && n > 0 })
	first.kill()
	if n := left(); n == 0 || n == records {
		t.Fatalf("the kill came too late: %d records left", n)
	}
	const stuck = "select count(*) from river.river_job where kind = 'prune' and state = 'running'"
	if n := number(t, pool, stuck); n != 1 {
		t.Fatalf("%d prunes are left as running, want 1", n)
	}
	exec1(t, pool, "update river.river_job set attempted_at = attempted_at - interval '11 minutes' where state = 'running'")
	exec1(t, pool, "update river.river_leader set expires_at = now()")

	second := start(t, databaseURL, "ONCEWARD_PRUNE_PAUSE=0s")
	eventually(t, "the rest is pruned", func() bool { return left() == 0 })
	eventually(t, "the job is done", func() bool {
		return number(t, pool, "select count(*) from river.river_job where kind = 'prune' and state = 'completed' and attempt = 2") == 1
	})
	if n := number(t, pool, "select count(*) from river.river_job where kind = 'prune'"); n != 1 {
		t.Errorf("%d prunes in one hour, want 1", n)
	}
	second.stop()
}

// A worker that is told to end in a prune which takes longer than its grace ends
// well all the same, leaves no job that counts as running, and the next worker
// goes on.
func TestSIGTERMDuringAPruneLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const records = 4_000
	databaseURL := postgrestest.NewURL(t)
	pool := open(t, databaseURL)
	fill(t, pool, newTenant(t, pool), records)
	left := func() int64 { return number(t, pool, "select count(*) from idempotency_keys") }

	first := start(t, databaseURL, "ONCEWARD_PRUNE_BATCH=100", "ONCEWARD_PRUNE_PAUSE=1s")
	eventually(t, "a part is pruned", func() bool { n := left(); return n < records && n > 0 })
	first.stop()
	if n := left(); n == 0 {
		t.Fatal("the prune was over before the worker ended")
	}
	if n := number(t, pool, "select count(*) from river.river_job where state = 'running'"); n != 0 {
		t.Errorf("%d jobs are left as running", n)
	}
	exec1(t, pool, "update river.river_job set scheduled_at = now() where kind = 'prune'") // not after a while

	second := start(t, databaseURL, "ONCEWARD_PRUNE_PAUSE=0s")
	eventually(t, "the rest is pruned", func() bool { return left() == 0 })
	second.stop()
}

// The leader alone schedules. It is killed, and says nothing of it to anybody;
// the other worker leads when its lease has ended, and every slot gets its job.
func TestALeaderThatIsKilledIsSucceeded(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewURL(t)
	pool := open(t, databaseURL)
	workers := []*process{start(t, databaseURL), start(t, databaseURL)}
	for _, p := range workers {
		eventually(t, "it works", func() bool { return strings.Contains(p.log.String(), `"msg":"working"`) })
	}
	leads := func(p *process) bool {
		var id string
		if err := pool.QueryRow(t.Context(), "select coalesce(max(leader_id), '-') from river.river_leader where expires_at > now()").Scan(&id); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(p.log.String(), `"client":"`+id+`"`)
	}
	var leader, other *process
	eventually(t, "one of them leads", func() bool {
		for i, p := range workers {
			if leads(p) {
				leader, other = p, workers[1-i]
			}
		}
		return leader != nil
	})
	leader.kill()
	seen := number(t, pool, "select coalesce(max(id), 0) from river.river_job")
	eventually(t, "the other leads", func() bool { return leads(other) })
	eventually(t, "it schedules", func() bool {
		return number(t, pool, "select count(*) from river.river_job where id > $1 and kind = 'roll_up' and state = 'completed'", seen) > 1
	})
	if n := number(t, pool, `
select count(*) from (
    select 1 from river.river_job where kind = 'roll_up' group by floor(extract(epoch from scheduled_at) / 10) having count(*) > 1) twice`); n != 0 {
		t.Errorf("%d slots have more than one roll-up", n)
	}
	other.stop()
}

// Two workers roll up, one of them is killed again and again at random
// moments, while outcomes are noted; every answer in between and at the end
// has exactly what was flushed.
func TestKillsOfWorkersTakeNothingFromAFigureAndAddNothing(t *testing.T) {
	t.Parallel()
	const kills, perRound = 6, 300
	databaseURL := postgrestest.NewURL(t)
	pool := open(t, databaseURL)
	tenant := auth.TenantID(uuid.New())
	recorder := analytics.New(analytics.Config{Pool: pool})
	service := analytics.NewService(pool)
	caller := auth.Caller{Tenant: tenant, Role: auth.RoleOps}
	r := rand.New(rand.NewPCG(1, 2))
	steady := start(t, databaseURL)
	noted := int64(0)
	check := func(when string) {
		t.Helper()
		outcomes, err := service.Outcomes(t.Context(), caller, analytics.Query{})
		if err != nil {
			t.Fatal(err)
		}
		ages, err := service.ReplayAges(t.Context(), caller, analytics.Query{})
		if err != nil {
			t.Fatal(err)
		}
		if outcomes.Total.Begins() != noted || ages.Ages.Count() != noted {
			t.Errorf("%s: %d begins and %d ages of %d replays", when, outcomes.Total.Begins(), ages.Ages.Count(), noted)
		}
	}
	for round := range kills {
		victim := start(t, databaseURL)
		eventually(t, "it works", func() bool { return strings.Contains(victim.log.String(), `"msg":"working"`) })
		for range perRound {
			recorder.Note(analytics.Event{
				Outcome: analytics.Replay, Tenant: tenant, Operation: fmt.Sprint("op ", r.IntN(50)), Caller: fmt.Sprint("cus_", r.IntN(50)),
				Key: "a key of ours", Status: 200, Age: time.Duration(r.Int64N(int64(time.Hour))),
			})
			noted++
		}
		if err := recorder.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Jobs for both to take, so that some roll-up is on its way at the kill.
		exec1(t, pool, "update river.river_job set state = 'available', scheduled_at = now(), finalized_at = null, unique_key = null, max_attempts = 25 where kind = 'roll_up' and state = 'completed'")
		eventually(t, "the moment of the kill", func() bool { return r.IntN(20) == 0 })
		victim.kill()
		check(fmt.Sprint("after kill ", round))
	}
	eventually(t, "all is rolled up", func() bool { return number(t, pool, "select count(*) from analytics_counts") == 0 })
	check("rolled up")
	steady.stop()
	for _, table := range []string{"analytics_minutes", "analytics_hours"} {
		if n := number(t, pool, "select coalesce(sum(n), 0)::bigint from "+table); n != noted {
			t.Errorf("%s has %d of %d replays", table, n, noted)
		}
	}
}
