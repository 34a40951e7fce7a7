//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/test/outputtest"
)

const (
	// startWithin is generous: the first test to start on a fresh machine may
	// wait for an installation of PostgreSQL.
	startWithin = 5 * time.Minute
	endWithin   = 30 * time.Second
	pollEvery   = 10 * time.Millisecond

	nobody = 65534 // a user without rights
)

//nolint:gochecknoglobals // one folder with the real binaries for all tests
var (
	binFolder string // made by TestMain alone
	buildOnce = sync.OnceValue(build)
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "onceward-dev-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binFolder = dir
		return m.Run()
	}())
}

// build puts the binaries where `make` would have them.
func build() error {
	if err := os.Chmod(binFolder, 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-o", binFolder+"/", "./cmd/api", "./cmd/worker", "./cmd/dev")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w: %s", err, out)
	}
	return nil
}

// newCheckout is an empty folder that looks like a built checkout: it has the
// Makefile and bin/. Anybody may enter it, which is not so of t.TempDir.
func newCheckout(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and starts real processes")
	}
	if err := buildOnce(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "onceward-dev-test-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the checkout: %v", err)
		}
	})
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err == nil {
		err = errors.Join(
			os.Chmod(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "Makefile"), makefile, 0o600),
			os.Symlink(binFolder, filepath.Join(dir, "bin")),
		)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// devRun is a process of the real binary.
type devRun struct {
	checkout string
	cmd      *exec.Cmd
	stdout   *outputtest.Buffer
	stderr   *outputtest.Buffer
	done     chan struct{} // closed when the process has ended
}

// testEnv is this process's environment without what would change a run, with
// free ports, and with what is given.
func testEnv(extra ...string) environment {
	var unset []string
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "ONCEWARD_") && name != "ONCEWARD_DEVPG" {
			unset = append(unset, name)
		}
	}
	env := environment(os.Environ()).with([]string{"ONCEWARD_LISTEN_ADDR=127.0.0.1:0", "ONCEWARD_OPS_LISTEN_ADDR=127.0.0.1:0"}, unset...)
	return env.with(extra)
}

// start runs `dev`. It is stopped with the test, whatever happens.
func start(t *testing.T, checkout string, change func(*exec.Cmd), env ...string) *devRun {
	t.Helper()
	run := &devRun{checkout: checkout, stdout: &outputtest.Buffer{}, stderr: &outputtest.Buffer{}, done: make(chan struct{})}
	run.cmd = exec.Command(filepath.Join(checkout, "bin", "dev"))
	run.cmd.Dir, run.cmd.Env = checkout, testEnv(env...)
	run.cmd.Stdout, run.cmd.Stderr = run.stdout, run.stderr
	if change != nil {
		change(run.cmd)
	}
	if err := run.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = run.cmd.Wait() // the state says what is of interest
		close(run.done)
	}()
	t.Cleanup(func() {
		_ = run.cmd.Process.Signal(syscall.SIGTERM) // fails only if it has ended
		select {
		case <-run.done:
		case <-time.After(endWithin):
			t.Errorf("the run did not end within %s of SIGTERM", endWithin)
			_ = run.cmd.Process.Kill()
			<-run.done
		}
		if t.Failed() {
			t.Logf("standard output:\n%s\nstandard error:\n%s", run.stdout, run.stderr)
		}
	})
	return run
}

// up returns what dev.json says once the run says that it answers. The file
// alone would not do: a run that was killed leaves one.
func (r *devRun) up(t *testing.T) state {
	t.Helper()
	var s state
	eventually(t, startWithin, "the run answers", func() bool {
		select {
		case <-r.done:
			t.Fatalf("the run ended: %s", r.stderr)
		default:
		}
		return strings.Contains(r.stdout.String(), "\nOnceward answers at ")
	})
	raw, err := os.ReadFile(filepath.Join(r.checkout, ".onceward", "dev.json"))
	if err == nil {
		err = json.Unmarshal(raw, &s, json.RejectUnknownMembers(true))
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// end waits for the process and returns its exit status, or fails the test.
func (r *devRun) end(t *testing.T) int {
	t.Helper()
	select {
	case <-r.done:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(endWithin):
		t.Fatalf("the run did not end within %s", endWithin)
		return 0
	}
}

// signal sends one to the run itself.
func (r *devRun) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, within time.Duration, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", within, what)
		case <-tick.C:
		}
	}
}

// checkNothingRuns waits until no process of the run lives. A run that ended
// well leaves none at all; after a kill they are on their way.
func checkNothingRuns(t *testing.T, s state, within time.Duration) {
	t.Helper()
	for name, pid := range map[string]int{"api": s.PIDs.API, "worker": s.PIDs.Worker, "postgres": s.PIDs.Postgres} {
		eventually(t, within, fmt.Sprintf("the %s (process %d) has ended", name, pid), func() bool { return pid == 0 || !lives(pid) })
	}
}

// lives is false for a process that is gone, or dead and not yet waited for.
func lives(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

// stopWell sends the signal and checks that all is gone within the ten seconds
// that are promised.
func stopWell(t *testing.T, run *devRun, s state, signal os.Signal) {
	t.Helper()
	start := time.Now()
	run.signal(t, signal)
	status := run.end(t)
	took := time.Since(start)
	if status != 0 || took > 10*time.Second || run.stderr.String() != "" {
		t.Errorf("exit status %d after %s, want 0 within 10 s: %s", status, took, run.stderr)
	}
	checkGone(t, run, s)
}

// checkGone is for a run that has ended in good order.
func checkGone(t *testing.T, run *devRun, s state) {
	t.Helper()
	for _, pid := range []int{s.PIDs.API, s.PIDs.Worker, s.PIDs.Postgres} {
		if pid != 0 && lives(pid) {
			t.Errorf("process %d is left running", pid)
		}
	}
	for _, name := range []string{"dev.json", "api.addr.json", "worker.addr.json"} {
		if exists(filepath.Join(run.checkout, ".onceward", name)) {
			t.Errorf("%s is left", name)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// command runs `dev` with an argument to its end.
func command(t *testing.T, checkout, arg string, env ...string) (status int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(checkout, "bin", "dev"), arg)
	cmd.Dir, cmd.Env = checkout, testEnv(env...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}
