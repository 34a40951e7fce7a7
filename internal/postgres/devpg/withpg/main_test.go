//go:build unix

package main

import (
	"bufio"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/onceward/onceward/internal/postgres/devpg"
)

// asItself in the environment makes the test binary the command under test.
const asItself = "ONCEWARD_WITHPG_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asItself) != "" {
		main()
	}
	os.Exit(m.Run())
}

// withpg is the command under test, with an environment in which it has to start
// a server unless env says otherwise.
func withpg(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, envTestURL+"=") && !strings.HasPrefix(pair, devpg.EnvURL+"=") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(append(cmd.Env, asItself+"=1"), env...)
	cmd.Stderr = &strings.Builder{}
	return cmd
}

// status is how cmd ended, and skips the test where there was no PostgreSQL.
func status(t *testing.T, cmd *exec.Cmd, err error) int {
	t.Helper()
	if said := cmd.Stderr.(*strings.Builder).String(); strings.Contains(said, devpg.ErrNotFound.Error()) && os.Getenv("TEST_DATABASE_REQUIRED") != "1" { //nolint:forcetypeassert // set by withpg
		t.Skip(said)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatalf("%v: %v", cmd.Args, exit)
	}
	return cmd.ProcessState.ExitCode()
}

func assertNobodyListens(t *testing.T, databaseURL string) {
	t.Helper()
	u, err := url.Parse(strings.TrimSpace(databaseURL))
	if err != nil || u.Host == "" {
		t.Fatalf("the command was given %q, %v, want a URL", databaseURL, err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
	if err == nil {
		_ = conn.Close()
		t.Error("the server runs after the command")
	}
}

func TestTheCommandsOutputAndStatusArePassedThroughAndTheServerIsGone(t *testing.T) {
	t.Parallel()
	cmd := withpg(t, nil, "sh", "-c", "echo $"+envTestURL+"; exit 7")
	out, err := cmd.Output()
	if got := status(t, cmd, err); got != 7 {
		t.Errorf("status %d, want the command's, 7", got)
	}
	assertNobodyListens(t, string(out))
}

func TestASignalReachesTheCommandAndTheServerIsGone(t *testing.T) {
	t.Parallel()
	cmd := withpg(t, nil, "sh", "-c", "trap 'exit 3' TERM; echo $"+envTestURL+"; while :; do sleep 0.01; done")
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := status(t, cmd, cmd.Wait()); got != 3 {
		t.Errorf("status %d, want the command's, 3", got)
	}
	assertNobodyListens(t, line)
}

func TestACommandThatASignalKillsIsReportedAsAShellWould(t *testing.T) {
	t.Parallel()
	cmd := withpg(t, []string{envTestURL + "=postgres://db/x"}, "sh", "-c", "kill -KILL $$")
	_, err := cmd.Output()
	if got := status(t, cmd, err); got != 128+int(syscall.SIGKILL) {
		t.Errorf("status %d, want %d", got, 128+int(syscall.SIGKILL))
	}
}

func TestAServerThatIsNamedIsUsed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{envTestURL, devpg.EnvURL} {
		cmd := withpg(t, []string{name + "=postgres://db/x"}, "sh", "-c", "echo $"+name+"; echo ${"+envTestURL+"-unset}")
		out, err := cmd.Output()
		if got := status(t, cmd, err); got != 0 {
			t.Errorf("%s: status %d, want 0", name, got)
		}
		want := "postgres://db/x\npostgres://db/x\n"
		if name == devpg.EnvURL {
			want = "postgres://db/x\nunset\n"
		}
		if string(out) != want {
			t.Errorf("%s: the command sees %q, want %q", name, out, want)
		}
	}
}

func TestACommandThatIsNotThereIsAnError(t *testing.T) {
	t.Parallel()
	cmd := withpg(t, []string{envTestURL + "=postgres://db/x"}, "no-such-command")
	_, err := cmd.Output()
	if got := status(t, cmd, err); got != notStarted {
		t.Errorf("status %d, want %d", got, notStarted)
	}
}
