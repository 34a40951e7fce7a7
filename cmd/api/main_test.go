package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/internal/tenants"
	"github.com/onceward/onceward/test/outputtest"
)

// envMain makes this test binary be the program: the tests of signals and exit
// codes start it as a process of its own.
const envMain = "ONCEWARD_TEST_BE_MAIN"

const deadline = 20 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(envMain) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// instance is a running API: in this process, or in one of its own.
type instance struct {
	URL    string `json:"url"`
	OpsURL string `json:"ops_url"`

	addrFile string
	log      *outputtest.Buffer
	cmd      *exec.Cmd     // nil in this process
	stop     func()        // asks it to end
	ended    chan struct{} // closed when it has
	err      error         // why; read after ended
}

func newInstance(t *testing.T) *instance {
	t.Helper()
	return &instance{addrFile: filepath.Join(t.TempDir(), "addr.json"), log: &outputtest.Buffer{}, ended: make(chan struct{})}
}

func (i *instance) environ(databaseURL string) []string {
	return []string{
		"ONCEWARD_DATABASE_URL=" + databaseURL,
		"ONCEWARD_LISTEN_ADDR=127.0.0.1:0",
		"ONCEWARD_OPS_LISTEN_ADDR=127.0.0.1:0",
		"ONCEWARD_ADDR_FILE=" + i.addrFile,
		"ONCEWARD_DB_MAX_CONNS=6",
	}
}

// startHere runs the program in a goroutine, with more variables.
func startHere(t *testing.T, databaseURL string, more ...string) *instance {
	t.Helper()
	i := newInstance(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	i.stop = cancel
	go func() {
		defer close(i.ended)
		i.err = run(ctx, nil, append(i.environ(databaseURL), more...), io.Discard, i.log)
	}()
	return i.awaitAddrs(t)
}

// startProcess runs the program as a process.
func startProcess(t *testing.T, databaseURL string) *instance {
	t.Helper()
	i := newInstance(t)
	i.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0])
	i.cmd.Env = append(i.environ(databaseURL), envMain+"=1")
	i.cmd.Stderr = i.log
	if err := i.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	i.stop = func() { _ = i.cmd.Process.Signal(syscall.SIGTERM) }
	go func() {
		defer close(i.ended)
		i.err = i.cmd.Wait()
	}()
	return i.awaitAddrs(t)
}

func (i *instance) awaitAddrs(t *testing.T) *instance {
	t.Helper()
	t.Cleanup(func() {
		i.stop()
		select {
		case <-i.ended:
		case <-time.After(deadline):
			if i.cmd != nil {
				_ = i.cmd.Process.Kill()
			}
			t.Error("the API did not end")
		}
		if t.Failed() {
			t.Logf("log of the API:\n%s", i.log)
		}
	})
	eventually(t, "the API listens", func() bool {
		select {
		case <-i.ended:
			t.Fatalf("the API ended: %v\n%s", i.err, i.log)
		default:
		}
		text, err := os.ReadFile(i.addrFile)
		return err == nil && json.Unmarshal(text, i) == nil
	})
	return i
}

// wait returns how the API ended.
func (i *instance) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-i.ended:
	case <-time.After(deadline):
		t.Fatal("the API did not end")
	}
	return i.err
}

// eventually polls a real condition.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-timer.C:
			t.Fatalf("within %s it never came about that %s", deadline, what)
		}
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

// call sends a request; token may be empty, and header holds name, value pairs.
func call(t *testing.T, method, url, token, body string, header ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	for n := 0; n < len(header); n += 2 {
		request.Header.Set(header[n], header[n+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// client is a tenant with a service credential, made beside the API under test.
type client struct {
	tenant      auth.TenantID
	namespace   auth.NamespaceID
	credential  auth.Credential
	key         auth.Key
	tenants     *tenants.Service
	credentials *auth.Credentials
	pool        *pgxpool.Pool
}

func newClient(t *testing.T, databaseURL string) *client {
	t.Helper()
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: databaseURL, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	c := &client{pool: pool, credentials: auth.NewCredentials(pool, nil)}
	if c.tenants, err = tenants.New(pool); err != nil {
		t.Fatal(err)
	}
	tenant, err := c.tenants.Create(t.Context(), tenants.CreateParams{Name: "a tenant"})
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := c.tenants.CreateNamespace(t.Context(), tenant.ID, tenants.NamespaceParams{Name: "live"})
	if err != nil {
		t.Fatal(err)
	}
	c.tenant, c.namespace = tenant.ID, namespace.ID
	c.credential, c.key = c.issue(t, "backend")
	return c
}

func (c *client) issue(t *testing.T, name string) (auth.Credential, auth.Key) {
	t.Helper()
	credential, key, err := c.credentials.Issue(t.Context(), c.tenant, auth.IssueParams{Name: name, Role: auth.RoleService, Namespace: c.namespace})
	if err != nil {
		t.Fatal(err)
	}
	return credential, key
}

func (c *client) records(t *testing.T) (count int) {
	t.Helper()
	if err := c.pool.QueryRow(t.Context(), "select count(*) from idempotency_keys").Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

const begin = `{"key": "0123456789abcdef", "operation": "POST /v1/charges", "request": {"body": "{\"amount\":\"4711-canary\"}"}}`

// member reads a member of a JSON document by its path.
func member(t *testing.T, document string, path ...string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(document), &value); err != nil {
		t.Fatalf("%s: %v", document, err)
	}
	for _, name := range path {
		object, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("%s: nothing at %v", document, path)
		}
		value = object[name]
	}
	return value
}

func TestItIsReadyOnceItIsMigratedAndNoSooner(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewEmpty(t).Config().ConnString()
	i := startHere(t, databaseURL)
	if got := call(t, http.MethodGet, i.URL+"/healthz", "", ""); got.status != http.StatusOK {
		t.Errorf("/healthz %d", got.status)
	}
	if got := call(t, http.MethodGet, i.URL+"/readyz", "", ""); got.status != http.StatusServiceUnavailable || strings.Contains(got.body, "migrat") {
		t.Errorf("/readyz before the migration: %d %s, want 503 without a reason", got.status, got.body)
	}
	if got := call(t, http.MethodGet, i.OpsURL+"/readyz", "", ""); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "run api migrate up") {
		t.Errorf("/readyz of the operator: %d %s, want the way out", got.status, got.body)
	}
	for range 2 { // the second time there is nothing to do
		if err := run(t.Context(), []string{"migrate", "up"}, i.environ(databaseURL), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "/readyz says yes", func() bool {
		return call(t, http.MethodGet, i.URL+"/readyz", "", "").status == http.StatusOK
	})
}

// figure is the value of a series without labels.
func figure(t *testing.T, metrics, name string) float64 {
	t.Helper()
	_, after, _ := strings.Cut(metrics, "\n"+name+" ")
	value, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestABeginIsAnsweredCountedAndKeptOutOfTheOperatorsListener(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewURL(t)
	c := newClient(t, databaseURL)
	i := startHere(t, databaseURL)

	got := call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), begin)
	if got.status != http.StatusCreated || member(t, got.body, "outcome") != "acquired" {
		t.Fatalf("begin: %d %s", got.status, got.body)
	}
	completed := call(t, http.MethodPut, i.URL+got.header.Get("Location")+"/response", c.key.Reveal(), `{"status": 201, "body": "done"}`,
		"Onceward-Lease", fmt.Sprint(member(t, got.body, "lease", "token")))
	if completed.status != http.StatusOK {
		t.Fatalf("complete: %d %s", completed.status, completed.body)
	}
	// B067: another credential of the namespace, and the rotated one, replay.
	_, second := c.issue(t, "batch")
	_, rotated, err := c.credentials.Rotate(t.Context(), c.tenant, c.credential.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []auth.Key{second, rotated} {
		if got := call(t, http.MethodPost, i.URL+"/v1/keys", key.Reveal(), begin); got.status != http.StatusOK || member(t, got.body, "response", "body") != "done" {
			t.Errorf("replay under %v: %d %s", key, got.status, got.body)
		}
	}
	metrics := call(t, http.MethodGet, i.OpsURL+"/metrics", "", "").body
	for _, line := range []string{
		`onceward_begins_total{outcome="acquired"} 1`, `onceward_begins_total{outcome="replay"} 2`,
		`onceward_begins_total{outcome="mismatch"} 0`, `onceward_replay_age_seconds_count 2`,
		`onceward_http_requests_total{class="2xx",route="POST /v1/keys"} 3`, `onceward_http_request_duration_seconds_count{route="POST /v1/keys"} 3`,
		`onceward_http_requests_total{class="2xx",route="PUT /v1/keys/{id}/response"} 1`,
		`onceward_batch_entries_sum{kind="complete"} 1`, `onceward_batch_duration_seconds_count{kind="complete"} 1`, `onceward_batch_entries_sum{kind="lease"} 0`,
		`onceward_queue_length{kind="begin"} 0`, `onceward_queue_refused_total{kind="read"} 0`, `onceward_queue_limit 8192`,
		`onceward_conflicts_total{code="in_progress"} 0`, `onceward_store_errors_total{kind="connection"} 0`, `onceward_analytics_events_dropped_total 0`,
	} {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("/metrics has no line %s", line)
		}
	}
	for _, name := range []string{"onceward_pool_connections{state=\"acquired\"}", "onceward_pool_max_connections", "onceward_pool_wait_seconds_total"} {
		if !strings.Contains(metrics, "\n"+name+" ") {
			t.Errorf("/metrics has no %s", name)
		}
	}
	if hits, misses := figure(t, metrics, "onceward_replay_cache_hits_total"), figure(t, metrics, "onceward_replay_cache_misses_total"); hits+misses != 3 || misses < 2 {
		t.Errorf("%v hits and %v misses of the cache, want one look-up for each of three begins, the first two in vain", hits, misses)
	}
	for _, url := range []string{i.URL + "/metrics", i.OpsURL + "/v1/keys"} {
		if got := call(t, http.MethodGet, url, c.key.Reveal(), ""); got.status != http.StatusNotFound {
			t.Errorf("%s on the other listener: %d", url, got.status)
		}
	}
	for what, secret := range map[string]string{
		"API key": c.key.Reveal()[21:], "idempotency key": "0123456789abcdef", "lease token": fmt.Sprint(member(t, got.body, "lease", "token")), "body": "4711-canary",
	} {
		if strings.Contains(i.log.String(), secret) || strings.Contains(metrics, secret) {
			t.Errorf("the %s is in the log or the metrics", what)
		}
	}
	for _, id := range []string{c.tenant.String(), string(c.credential.ID), c.namespace.String()} {
		if strings.Contains(metrics, id) {
			t.Errorf("%s is in the metrics", id)
		}
	}
}

// B063.
func TestWhoShowsNoGoodKeyGets401AndLeavesNoRecord(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewURL(t)
	c, deleted, suspended := newClient(t, databaseURL), newClient(t, databaseURL), newClient(t, databaseURL)
	if _, err := c.pool.Exec(t.Context(), "update tenants set state = 'deleting' where tenant_id = $1", deleted.tenant.String()); err != nil {
		t.Fatal(err)
	}
	if err := suspended.tenants.Suspend(t.Context(), suspended.tenant, "unpaid"); err != nil {
		t.Fatal(err)
	}
	i := startHere(t, databaseURL)
	for what, tt := range map[string]struct {
		authorization string
		status        int
		code          string
	}{
		"nothing":                    {"", http.StatusUnauthorized, "unauthenticated"},
		"an empty bearer":            {"Bearer ", http.StatusUnauthorized, "unauthenticated"},
		"a bearer of blanks":         {"Bearer    ", http.StatusUnauthorized, "unauthenticated"},
		"another scheme":             {"Basic " + c.key.Reveal(), http.StatusUnauthorized, "unauthenticated"},
		"a text":                     {"Bearer anonymous", http.StatusUnauthorized, "unauthenticated"},
		"a deleted tenant's key":     {"Bearer " + deleted.key.Reveal(), http.StatusUnauthorized, "unauthenticated"},
		"a suspended tenant's key":   {"Bearer " + suspended.key.Reveal(), http.StatusForbidden, "suspended"},
		"a key with one letter less": {"Bearer " + c.key.Reveal()[:auth.KeyLength-1], http.StatusUnauthorized, "unauthenticated"},
	} {
		got := call(t, http.MethodPost, i.URL+"/v1/keys", "", begin, "Authorization", tt.authorization)
		if got.status != tt.status || member(t, got.body, "code") != tt.code {
			t.Errorf("%s: %d %s, want %d %s", what, got.status, got.body, tt.status, tt.code)
		}
		if (got.header.Get("WWW-Authenticate") != "") != (tt.status == http.StatusUnauthorized) {
			t.Errorf("%s: WWW-Authenticate %q", what, got.header.Get("WWW-Authenticate"))
		}
	}
	if got := c.records(t); got != 0 {
		t.Errorf("%d records, want none", got)
	}
	// What is refused above is refused for the key alone.
	if got := call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), begin); got.status != http.StatusCreated {
		t.Errorf("with a good key: %d %s", got.status, got.body)
	}
}

func TestADatabaseThatIsDownIs503AndNever401(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewURL(t)
	c := newClient(t, databaseURL)
	i := startHere(t, databaseURL)
	admin := c.pool.Config().ConnConfig
	name := pgx.Identifier{admin.Database}.Sanitize()
	database := admin.Database
	admin.Database = "postgres"
	conn, err := pgx.ConnectConfig(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, statement := range []string{
		"alter database " + name + " allow_connections false",
		"select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '" + database + "'",
	} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	got := call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), begin)
	if got.status != http.StatusServiceUnavailable || member(t, got.body, "code") != "unavailable" || got.header.Get("Retry-After") == "" {
		t.Errorf("begin: %d %s, want 503 with Retry-After", got.status, got.body)
	}
	eventually(t, "/readyz says no", func() bool {
		return call(t, http.MethodGet, i.URL+"/readyz", "", "").status == http.StatusServiceUnavailable
	})
	if _, err := conn.Exec(t.Context(), "alter database "+name+" allow_connections true"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the begin is answered again", func() bool {
		return call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), begin).status == http.StatusCreated
	})
}

func TestSIGTERMAnswersWhoWaitsAndEndsWith0(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewURL(t)
	c := newClient(t, databaseURL)
	i := startProcess(t, databaseURL)
	info, err := os.Stat(i.addrFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the address file: %v, %v, want mode 0600", info, err)
	}
	if got := call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), begin); got.status != http.StatusCreated {
		t.Fatalf("begin: %d %s", got.status, got.body)
	}
	waited := make(chan answer, 1)
	go func() {
		waited <- call(t, http.MethodPost, i.URL+"/v1/keys", c.key.Reveal(), begin, "Prefer", "wait=30")
	}()
	eventually(t, "the second begin waits", func() bool {
		var polls bool
		err := c.pool.QueryRow(t.Context(), `
			select exists (
			    select from pg_stat_activity
			    where datname = current_database() and application_name = 'onceward-api' and query like '%fence is distinct from%')`).Scan(&polls)
		return err == nil && polls
	})
	told := time.Now()
	i.stop()
	if err := i.wait(t); err != nil {
		t.Errorf("it ended with %v, want exit code 0", err)
	}
	if took := time.Since(told); took > 10*time.Second {
		t.Errorf("it took %s to end, want at most 10 s", took)
	}
	if got := <-waited; got.status != http.StatusConflict || member(t, got.body, "code") != "in_progress" || got.header.Get("Retry-After") == "" {
		t.Errorf("who waited got %d %s, want 409 in_progress", got.status, got.body)
	}
	if _, err := os.Stat(i.addrFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the address file is still there: %v", err)
	}
	if log := i.log.String(); !strings.Contains(log, `"msg":"listening"`) || !strings.Contains(log, `"msg":"stopped"`) || strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("log:\n%s", log)
	}
}

func TestWhatKeepsItFromStartingIsOneSentence(t *testing.T) {
	t.Parallel()
	databaseURL := postgrestest.NewURL(t)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for what, tt := range map[string]struct {
		variable, value string
		want            string
	}{
		"a port in use":          {"ONCEWARD_LISTEN_ADDR", taken.Addr().String(), "address already in use"},
		"the operator's too":     {"ONCEWARD_OPS_LISTEN_ADDR", taken.Addr().String(), "address already in use"},
		"no database":            {"ONCEWARD_DATABASE_URL", "postgres://u:hunter2@" + closedPort(t) + "/x", "connect to PostgreSQL"},
		"no folder for the file": {"ONCEWARD_ADDR_FILE", filepath.Join(t.TempDir(), "missing", "addr.json"), "ONCEWARD_ADDR_FILE cannot be written"},
	} {
		i := newInstance(t)
		environ := append(i.environ(databaseURL), tt.variable+"="+tt.value)
		err := run(t.Context(), nil, environ, io.Discard, i.log)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q, want one sentence with %q", what, err, tt.want)
		}
		if strings.Contains(fmt.Sprint(err)+i.log.String(), "hunter2") {
			t.Errorf("%s: the password shows", what)
		}
	}
}

// closedPort is an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

func TestAFaultIsToldOnStandardErrorWithExitCode1(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{envMain + "=1", "GOCOVERDIR=" + t.TempDir()} // under -cover it complains without one
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 {
		t.Fatalf("ended with %v, want exit code 1", err)
	}
	if diff := cmp.Diff(stderr.String(), "api: ONCEWARD_DATABASE_URL is not set: name the database, for example postgres://user@host:5432/onceward, or a file that holds its URL by ONCEWARD_DATABASE_URL_FILE\n"); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}
