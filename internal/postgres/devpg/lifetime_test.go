//go:build unix

package devpg

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// helperEnv holds, in a process that is a test's helper, the helperOrder.
const helperEnv = "ONCEWARD_DEVPG_TEST_HELPER"

// helperOrder tells a helper what to start. It answers with a helperReport, then
// stops the server when its input ends.
type helperOrder struct{ DataDir, BinDir string }

type helperReport struct {
	Error, DataDir string
	PID, UID       int
}

// TestMain lets the test binary be the process that starts a server and dies.
func TestMain(m *testing.M) {
	if order := os.Getenv(helperEnv); order != "" {
		os.Exit(helper(order))
	}
	os.Exit(m.Run())
}

func helper(encoded string) int {
	var order helperOrder
	if err := json.Unmarshal([]byte(encoded), &order); err != nil {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	report := helperReport{UID: os.Getuid()}
	server, err := Start(ctx, Options{DataDir: order.DataDir, BinDir: order.BinDir})
	if err == nil {
		var conn *pgx.Conn
		if conn, err = pgx.Connect(ctx, server.URL("postgres")); err == nil {
			err = conn.Close(ctx)
		}
		report.DataDir, report.PID = server.DataDir, server.PID
	}
	if err != nil {
		report.Error = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(report)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if server == nil || server.Stop(ctx) != nil {
		return 1
	}
	return 0
}

// helperProcess is a running helper.
type helperProcess struct {
	cmd   *exec.Cmd
	input io.Closer
	helperReport
}

func startHelper(t *testing.T, order helperOrder, credential *syscall.Credential) *helperProcess {
	t.Helper()
	encoded, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	self := copyOfSelf(t)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), helperEnv+"="+string(encoded))
	cmd.Dir = filepath.Dir(self)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helperProcess{cmd: cmd, input: input}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the helper says nothing: %v", err)
	}
	if err := json.Unmarshal(line, &h.helperReport); err != nil {
		t.Fatalf("the helper says %q: %v", line, err)
	}
	return h
}

// copyOfSelf is this binary where every user can run it.
func copyOfSelf(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(reachableDir(t), "devpg.test")
	if err := os.WriteFile(target, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return target
}

func TestAServerDiesWithAParentThatIsKilled(t *testing.T) {
	t.Parallel()
	bin := system(t)
	t.Run("and a throw-away folder goes with it", func(t *testing.T) {
		t.Parallel()
		h := startHelper(t, helperOrder{BinDir: bin.dir}, nil)
		if h.Error != "" {
			t.Fatal(h.Error)
		}
		base := filepath.Dir(h.DataDir)
		if !exists(base) || !alive(h.PID) {
			t.Fatalf("there is no server %d in %s to begin with", h.PID, base)
		}
		if err := h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server is gone", func() bool { return postmasterState(h.PID, h.DataDir) == notRunning })
		eventually(t, "its folder is gone", func() bool { return !exists(base) })
	})
	t.Run("and its kept data can be used again at once", func(t *testing.T) {
		t.Parallel()
		dataDir := filepath.Join(reachableDir(t), "pg")
		h := startHelper(t, helperOrder{BinDir: bin.dir, DataDir: dataDir}, nil)
		if h.Error != "" {
			t.Fatal(h.Error)
		}
		if err := h.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = h.cmd.Wait()
		server := start(t, Options{DataDir: dataDir})
		connect(t, server.URL("postgres"))
		if server.PID == h.PID {
			t.Error("it is the old server")
		}
	})
}

// The watchdog does what the kernel does on Linux, and cleans up.
func TestTheWatchdogInterruptsTheServerAndRemovesItsFolder(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "a folder")
	for name, parentDies := range map[string]bool{"when the parent dies": true, "but not when it is dismissed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			removeDir := folder + fmt.Sprint(parentDies)
			h := &home{base: removeDir, data: filepath.Join(removeDir, "data")}
			if err := os.MkdirAll(h.data, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(h.postmasterFile(), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			server := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read -r line")
			input, err := server.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			dog, err := startWatchdog(server.Process.Pid, h)
			if err != nil {
				t.Fatal(err)
			}
			if parentDies {
				_ = dog.input.Close()
			} else {
				dog.dismiss()
				_ = input.Close()
			}
			_ = server.Wait()
			if parentDies {
				_ = dog.cmd.Wait()
			}
			status, ok := server.ProcessState.Sys().(syscall.WaitStatus)
			if !ok {
				t.Fatal("no wait status")
			}
			if got := status.Signaled() && status.Signal() == syscall.SIGINT; got != parentDies {
				t.Errorf("the server was interrupted: %v, want %v", got, parentDies)
			}
			if got := !exists(removeDir); got != parentDies {
				t.Errorf("the folder was removed: %v, want %v", got, parentDies)
			}
		})
	}
}

func TestAbandonedFoldersAreRemovedAndNoOthers(t *testing.T) {
	t.Parallel()
	long := time.Now().Add(-2 * staleAge)
	folder := func(name string) string {
		base, err := os.MkdirTemp(ourTempDir(t), throwAwayPrefix+"test-"+name+"-") //nolint:usetesting // where abandoned folders are looked for
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(base) })
		return base
	}
	abandoned, inUse, young := folder("abandoned"), folder("in-use"), folder("young")
	lock, err := lockFile(filepath.Join(inUse, "data.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	elsewhere := t.TempDir()
	link := filepath.Join(ourTempDir(t), throwAwayPrefix+"test-link-"+filepath.Base(abandoned))
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(link) }()
	for _, base := range []string{abandoned, inUse} {
		if err := os.Chtimes(base, long, long); err != nil {
			t.Fatal(err)
		}
	}
	removeAbandoned(ourTempDir(t))
	if exists(abandoned) {
		t.Error("the abandoned folder is still there")
	}
	for name, path := range map[string]string{"locked": inUse, "young": young, "linked": elsewhere} {
		if !exists(path) {
			t.Errorf("the %s folder is gone", name)
		}
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("this is about a root caller")
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid //nolint:forcetypeassert // on unix it is
}

func TestUnderRootTheServerRunsAsTheOwnerOfItsData(t *testing.T) {
	t.Parallel()
	asRoot(t)
	t.Run("a new folder is given to a user without rights", func(t *testing.T) {
		t.Parallel()
		dataDir := filepath.Join(reachableDir(t), "pg")
		start(t, Options{DataDir: dataDir})
		if got := ownerOf(t, dataDir); got == 0 || got != serverIdentity("").uid {
			t.Errorf("the folder belongs to uid %d, want %d", got, serverIdentity("").uid)
		}
	})
	t.Run("the folder of an ordinary user stays that user's", func(t *testing.T) {
		t.Parallel()
		dir := reachableDir(t)
		if err := os.Chown(dir, nobodyID, nobodyID); err != nil {
			t.Fatal(err)
		}
		dataDir := filepath.Join(dir, "pg")
		h := startHelper(t, helperOrder{BinDir: system(t).dir, DataDir: dataDir}, &syscall.Credential{Uid: nobodyID, Gid: nobodyID})
		if h.Error != "" {
			t.Fatal(h.Error)
		}
		if h.UID != nobodyID {
			t.Fatalf("the helper runs as uid %d, want %d", h.UID, nobodyID)
		}
		_ = h.input.Close()
		if err := h.cmd.Wait(); err != nil {
			t.Fatalf("an ordinary user's server does not stop: %v", err)
		}
		if alive(h.PID) {
			t.Error("the ordinary user's server still runs")
		}
		start(t, Options{DataDir: dataDir}) // by root, in between
		if got := ownerOf(t, dataDir); got != nobodyID {
			t.Errorf("the folder belongs to uid %d, want %d", got, nobodyID)
		}
	})
}

func TestAnotherUsersDataFolderIsRefused(t *testing.T) {
	t.Parallel()
	asRoot(t)
	dataDir := filepath.Join(reachableDir(t), "pg")
	stop(t, start(t, Options{DataDir: dataDir}))
	if err := os.Chown(filepath.Dir(dataDir), nobodyID, nobodyID); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dataDir + ".lock"); err != nil {
		t.Fatal(err)
	}
	h := startHelper(t, helperOrder{BinDir: system(t).dir, DataDir: dataDir}, &syscall.Credential{Uid: nobodyID, Gid: nobodyID})
	if !strings.Contains(h.Error, dataDir) {
		t.Errorf("err = %q, want one that names %s", h.Error, dataDir)
	}
	if h.PID != 0 {
		t.Error("a server was started")
	}
}

func TestDataThatTheServersUserCannotReachLiesElsewhere(t *testing.T) {
	t.Parallel()
	asRoot(t)
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	dataDir := filepath.Join(private, "pg")
	base := stableBase(t.Context(), serverIdentity(""), dataDir)
	t.Cleanup(func() { _ = os.RemoveAll(base) })

	first := start(t, Options{DataDir: dataDir})
	if want := filepath.Join(base, "data"); first.DataDir != want {
		t.Errorf("the data lies in %s, want %s", first.DataDir, want)
	}
	stop(t, first)
	second := start(t, Options{DataDir: dataDir})
	if second.password != first.password {
		t.Error("the second start did not find the data of the first")
	}
	stop(t, second)
	if err := Remove(t.Context(), dataDir); err != nil {
		t.Fatal(err)
	}
	if exists(first.DataDir) {
		t.Error("the data is there after Remove")
	}
	// The name can be foreseen, and the temporary folder is everybody's.
	if err := os.Chown(base, nobodyID, nobodyID); err != nil {
		t.Fatal(err)
	}
	_, err := tryStart(t, Options{DataDir: dataDir})
	assertSentence(t, err, base, "not ours")
}
