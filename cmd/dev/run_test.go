//go:build unix

package main

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

func TestARunServesAndKeepsItsDataForTheNext(t *testing.T) {
	t.Parallel()
	checkout := newCheckout(t)

	first := start(t, checkout, nil)
	was := first.up(t)
	checkStateFile(t, checkout)
	checkDemo(t, was)
	checkPrintedCommands(t, first)
	id := completedKey(t, was, "kept-from-run-to-run")
	stopWell(t, first, was, syscall.SIGTERM)

	second := start(t, checkout, nil)
	is := second.up(t)
	if diff := cmp.Diff([]any{is.Tenant, is.Namespace, is.Credentials, is.OperatorToken},
		[]any{was.Tenant, was.Namespace, was.Credentials, was.OperatorToken}); diff != "" {
		t.Errorf("the second run has other demo objects (-got +want):\n%s", diff)
	}
	checkReplay(t, is, "kept-from-run-to-run", id)
	stopWell(t, second, is, os.Interrupt)

	if err := os.Remove(filepath.Join(checkout, ".onceward", "credentials.json")); err != nil {
		t.Fatal(err)
	}
	third := start(t, checkout, nil)
	is = third.up(t)
	if !strings.Contains(third.stdout.String(), "new keys were made for service, ops, resolver, admin, in the same namespaces") {
		t.Errorf("nothing is said of the lost credentials:\n%s", third.stdout)
	}
	if diff := cmp.Diff([]any{is.Tenant, is.Namespace}, []any{was.Tenant, was.Namespace}); diff != "" {
		t.Errorf("rotated keys are elsewhere (-got +want):\n%s", diff)
	}
	checkReplay(t, is, "kept-from-run-to-run", id)
	if got := call(t, is, was.Credentials["service"], http.MethodGet, "/v1/contract", ""); got.status != http.StatusUnauthorized {
		t.Errorf("the lost key gets %d, want 401", got.status)
	}
	stopWell(t, third, is, syscall.SIGTERM)
}

// checkStateFile holds the members of dev.json against what scripts rely on.
func checkStateFile(t *testing.T, checkout string) {
	t.Helper()
	for _, name := range []string{"dev.json", "credentials.json", "jwt_secret"} {
		info, err := os.Stat(filepath.Join(checkout, ".onceward", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, got)
		}
	}
	raw, err := os.ReadFile(filepath.Join(checkout, ".onceward", "dev.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"url", "ops_url", "operator_token", "tenant.id", "tenant.name", "namespace.id", "namespace.name",
		"credentials.service", "credentials.ops", "credentials.resolver", "credentials.admin",
		"database_url", "dashboard_url", "pids.api", "pids.worker", "pids.postgres",
	}
	slices.Sort(want)
	if diff := cmp.Diff(members(t, "", raw), want); diff != "" {
		t.Errorf("members of dev.json (-got +want):\n%s", diff)
	}
}

// members names the members of an object that are not empty.
func members(t *testing.T, prefix string, raw jsontext.Value) []string {
	t.Helper()
	var object map[string]jsontext.Value
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, value := range object {
		switch {
		case value.Kind() == '{':
			names = append(names, members(t, prefix+name+".", value)...)
		case string(value) != `""` && string(value) != "0" && string(value) != "null":
			names = append(names, prefix+name)
		}
	}
	slices.Sort(names)
	return names
}

// checkDemo tries what the demo tenant is for.
func checkDemo(t *testing.T, s state) {
	t.Helper()
	for _, tt := range []struct {
		name, body string
		want       int
		contains   string
	}{
		{"retention of a minute", `{"key": "a-minute-long", "operation": "x", "request": {}, "retention_seconds": 60}`, http.StatusCreated, `"acquired"`},
		{"retention below it", `{"key": "less-than-that", "operation": "x", "request": {}, "retention_seconds": 59}`, http.StatusBadRequest, "/retention_seconds"},
		{"payout without owner", `{"key": "payout-1", "operation": "POST /v1/payouts", "request": {}}`, http.StatusBadRequest, "owner"},
		{"payout", `{"key": "payout-1", "operation": "POST /v1/payouts", "request": {}, "owner": "0123456789abcdef012345"}`, http.StatusCreated, `"hold"`},
	} {
		got := call(t, s, s.Credentials["service"], http.MethodPost, "/v1/keys", tt.body)
		if got.status != tt.want || !strings.Contains(got.body, tt.contains) {
			t.Errorf("%s: %d %s, want %d with %s", tt.name, got.status, got.body, tt.want, tt.contains)
		}
	}
	id := completedKey(t, s, "seen-by-every-role")
	for _, role := range []string{"ops", "resolver", "admin"} {
		if got := call(t, s, s.Credentials[role], http.MethodGet, "/v1/keys/"+id, ""); got.status != http.StatusOK {
			t.Errorf("inspect as %s: %d %s", role, got.status, got.body)
		}
		if got := call(t, s, s.Credentials[role], http.MethodPost, "/v1/keys", `{"key": "not-for-them"}`); got.status != http.StatusForbidden {
			t.Errorf("begin as %s: %d %s", role, got.status, got.body)
		}
	}
	ops := s
	ops.URL = s.OpsURL
	if got := call(t, ops, "", http.MethodGet, "/readyz", ""); got.status != http.StatusOK {
		t.Errorf("/readyz of the operator: %d %s", got.status, got.body)
	}
}

// checkPrintedCommands runs what the run told a person to run, as printed.
func checkPrintedCommands(t *testing.T, run *devRun) {
	t.Helper()
	for _, tool := range []string{"make", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Logf("the printed commands are not tried: %v", err)
			return
		}
	}
	_, commands, _ := strings.Cut(run.stdout.String(), "in this folder:\n")
	commands, _, found := strings.Cut(commands, "\n201: ")
	if !found {
		t.Fatalf("no commands are printed:\n%s", run.stdout)
	}
	again := commands[strings.Index(commands, "curl"):]
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", commands+"\n"+again)
	cmd.Dir, cmd.Env = run.checkout, testEnv("MAKEFLAGS=")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("HTTP/1.1 201")) || !bytes.Contains(out, []byte("HTTP/1.1 409")) {
		t.Errorf("the printed commands, the last one twice, print (%v):\n%s", err, out)
	}
}

// The secret of the signing keys is a file; a run that has lost it goes on with
// another one, and says so.
func TestTokensAreMadeAlsoAfterTheirSecretIsLost(t *testing.T) {
	t.Parallel()
	checkout := newCheckout(t)
	databaseURL := "ONCEWARD_DATABASE_URL=" + postgrestest.NewURL(t)
	exchange := func(s state) (token string) {
		t.Helper()
		got := call(t, s, s.Credentials["service"], http.MethodPost, "/v1/auth/token", "")
		var body struct {
			Token string `json:"token"`
		}
		if err := json.Unmarshal([]byte(got.body), &body); got.status != http.StatusOK || err != nil {
			t.Fatalf("exchange: %d %s", got.status, got.body)
		}
		return body.Token
	}
	status := func(s state, token string) int {
		return call(t, s, token, http.MethodGet, "/v1/contract", "").status
	}
	const lost = "jwt_secret was lost or does not match the database"

	run := start(t, checkout, nil, databaseURL)
	s := run.up(t)
	first := exchange(s)
	if got := status(s, first); got != http.StatusOK {
		t.Errorf("its token: %d", got)
	}
	stopWell(t, run, s, syscall.SIGTERM)

	run = start(t, checkout, nil, databaseURL)
	s = run.up(t)
	if got := status(s, first); got != http.StatusOK || strings.Contains(run.stdout.String(), lost) {
		t.Errorf("the token after a restart: %d\n%s", got, run.stdout)
	}
	stopWell(t, run, s, syscall.SIGTERM)

	last := first
	for name, spoil := range map[string]func(path string) error{
		"lost":    os.Remove,
		"damaged": func(path string) error { return os.WriteFile(path, []byte("half a sec"), 0o600) },
	} {
		if err := spoil(filepath.Join(checkout, ".onceward", "jwt_secret")); err != nil {
			t.Fatal(err)
		}
		run = start(t, checkout, nil, databaseURL)
		s = run.up(t)
		if !strings.Contains(run.stdout.String(), lost) {
			t.Errorf("%s: it does not say so:\n%s", name, run.stdout)
		}
		if got := status(s, last); got != http.StatusUnauthorized {
			t.Errorf("%s: a token of the old secret: %d", name, got)
		}
		last = exchange(s)
		if got := status(s, last); got != http.StatusOK {
			t.Errorf("%s: a token of the new secret: %d", name, got)
		}
		stopWell(t, run, s, syscall.SIGTERM)
	}
}

func TestASecondRunIsRefusedAndEnvSpeaksOfTheFirst(t *testing.T) {
	t.Parallel()
	checkout := newCheckout(t)
	if status, out := command(t, checkout, "env"); status != 1 || out != "✗ nothing is running in this checkout: start it with `make run`\n" {
		t.Errorf("env before the run: %d %s", status, out)
	}
	databaseURL := postgrestest.NewURL(t)
	run := start(t, checkout, nil, "ONCEWARD_DATABASE_URL="+databaseURL)
	s := run.up(t)
	if s.DatabaseURL != databaseURL || s.PIDs.Postgres != 0 {
		t.Errorf("runs on %s with a PostgreSQL %d of its own, want the database that was named", s.DatabaseURL, s.PIDs.Postgres)
	}
	want := "export ONCEWARD_URL='" + s.URL + "'\nexport ONCEWARD_KEY='" + s.Credentials["service"] + "'\n"
	if status, out := command(t, checkout, "env"); status != 0 || out != want {
		t.Errorf("env: %d %s, want %s", status, out, want)
	}
	for _, refused := range []string{"run", "reset"} {
		status, out := command(t, checkout, refused)
		if status != 1 || strings.Count(out, "\n") != 1 || !strings.Contains(out, "another `make run` (process ") {
			t.Errorf("%s beside a run: %d %s", refused, status, out)
		}
	}
	if diff := cmp.Diff(run.up(t), s); diff != "" {
		t.Errorf("the refused run has changed dev.json (-got +want):\n%s", diff)
	}
	stopWell(t, run, s, syscall.SIGHUP)
	if status, out := command(t, checkout, "env"); status != 1 || !strings.Contains(out, "nothing is running") {
		t.Errorf("env after the run: %d %s", status, out)
	}
}

func TestWhatDiesTakesTheRestAlong(t *testing.T) {
	t.Parallel()
	for name, pid := range map[string]func(state) int{
		"api":    func(s state) int { return s.PIDs.API },
		"worker": func(s state) int { return s.PIDs.Worker },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := start(t, newCheckout(t), nil)
			s := run.up(t)
			kill(t, pid(s))
			want := "✗ the " + name + " ended by itself (signal: killed); the end of its log, .onceward/log/" + name + ".log, was:\n  {"
			if status := run.end(t); status != 1 || !strings.Contains(run.stderr.String(), want) {
				t.Errorf("exit status %d, %s", status, run.stderr)
			}
			checkGone(t, run, s)
		})
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		run := start(t, newCheckout(t), nil)
		s := run.up(t)
		kill(t, s.PIDs.Postgres)
		if status := run.end(t); status != 1 || !strings.Contains(run.stderr.String(), "✗ PostgreSQL (process ") {
			t.Errorf("exit status %d, %s", status, run.stderr)
		}
		checkGone(t, run, s)
	})
}

func TestNothingOutlivesARunThatIsKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child of the death of its parent")
	}
	checkout := newCheckout(t)
	run := start(t, checkout, nil)
	s := run.up(t)
	kill(t, run.cmd.Process.Pid)
	checkNothingRuns(t, s, endWithin)
	if status, out := command(t, checkout, "env"); status != 1 || !strings.Contains(out, "nothing is running") {
		t.Errorf("env takes the file that is left for the truth: %d %s", status, out)
	}
	next := start(t, checkout, nil)
	is := next.up(t)
	if diff := cmp.Diff(is.Credentials, s.Credentials); diff != "" {
		t.Errorf("the next run has other credentials (-got +want):\n%s", diff)
	}
	stopWell(t, next, is, syscall.SIGTERM)
}

func TestASignalDuringTheStartStopsIt(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"making a PostgreSQL", "runs on port", "schema up to date", "demo tenant made"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			run := start(t, newCheckout(t), nil)
			eventually(t, startWithin, line, func() bool { return strings.Contains(run.stdout.String(), line) })
			run.signal(t, syscall.SIGTERM)
			if status := run.end(t); status != 0 || run.stderr.String() != "" {
				t.Errorf("exit status %d, %s", status, run.stderr)
			}
			if !strings.HasSuffix(run.stdout.String(), "✓ stopped, nothing is left running\n") {
				t.Errorf("it does not say that it stopped:\n%s", run.stdout)
			}
			if data := filepath.Join(run.checkout, ".onceward", "pg", "postmaster.pid"); exists(data) {
				t.Error("PostgreSQL still runs")
			}
		})
	}
}

func TestAnOrdinaryUserRunsItToo(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("every other test is run by an ordinary user")
	}
	checkout := newCheckout(t)
	if err := os.Chown(checkout, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	run := start(t, checkout, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}, "HOME="+checkout)
	s := run.up(t)
	completedKey(t, s, "by-an-ordinary-user")
	stopWell(t, run, s, syscall.SIGTERM)
}
