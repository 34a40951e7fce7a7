//go:build unix

package devpg

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestAKeptServerFindsItsDataAgain(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(reachableDir(t), "pg")
	first := start(t, Options{DataDir: dataDir})
	if first.DataDir != dataDir {
		t.Errorf("the data lies in %s, want %s", first.DataDir, dataDir)
	}
	for range 2 { // the second finds it there
		if err := first.CreateDatabase(t.Context(), "shop \"1\""); err != nil {
			t.Fatal(err)
		}
	}
	conn := connect(t, first.URL("shop \"1\""))
	if got := show(t, conn, "fsync"); got != "on" {
		t.Errorf("fsync is %s, want on: the data is to be kept", got)
	}
	if _, err := conn.Exec(t.Context(), "create table kept as select 42 as n"); err != nil {
		t.Fatal(err)
	}
	stop(t, first)

	second := start(t, Options{DataDir: dataDir})
	var n int
	if err := connect(t, second.URL("shop \"1\"")).QueryRow(t.Context(), "select n from kept").Scan(&n); err != nil || n != 42 {
		t.Errorf("read %d, %v, want 42", n, err)
	}
	if first.password != second.password {
		t.Error("the password has changed")
	}
}

func TestAFolderInUseIsRefused(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(reachableDir(t), "pg")
	server := start(t, Options{DataDir: dataDir})
	_, err := tryStart(t, Options{DataDir: dataDir})
	assertSentence(t, err, dataDir, "in use", strconv.Itoa(server.PID))
	if err := Remove(t.Context(), dataDir); err == nil {
		t.Error("Remove removed a folder in use")
	}
	connect(t, server.URL("postgres"))
	stop(t, server)
	if err := Remove(t.Context(), dataDir); err != nil {
		t.Fatal(err)
	}
	if exists(dataDir) {
		t.Error("the folder is there after Remove")
	}
}

func TestAServerThatSomebodyElseStartedIsNotDisturbed(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(reachableDir(t), "pg")
	server := start(t, Options{DataDir: dataDir})
	// Without our lock, as one that was started with pg_ctl.
	if err := os.Remove(server.home.lock.Name()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Start(ctx, Options{DataDir: dataDir, BinDir: server.BinDir})
	assertSentence(t, err, dataDir, "in use", strconv.Itoa(server.PID))
	connect(t, server.URL("postgres"))
}

// After a crash of the machine the number in postmaster.pid may be that of any
// process, here of this test. PostgreSQL alone refuses to start if it is one of
// the same user's.
func TestAStalePostmasterPIDIsNoObstacle(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(reachableDir(t), "pg")
	stop(t, start(t, Options{DataDir: dataDir}))
	other := serverIdentity(dataDir).command(t.Context(), nil, "/bin/sh", "-c", "read -r line")
	input, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = input.Close()
		_ = other.Wait()
	}()
	for name, pid := range map[string]int{"dead": deadPID(t), "somebody else's": other.Process.Pid} {
		stale := strconv.Itoa(pid) + "\n" + dataDir + "\n1700000000\n5432\n\n127.0.0.1\n"
		path := filepath.Join(dataDir, "postmaster.pid")
		if err := os.WriteFile(path, []byte(stale), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := serverIdentity(dataDir).give(path); err != nil {
			t.Fatal(err)
		}
		server, err := tryStart(t, Options{DataDir: dataDir})
		if err != nil {
			t.Errorf("a number that is %s: %v", name, err)
			continue
		}
		stop(t, server)
	}
}

// deadPID is the number of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", ":")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestABrokenDataFolderIsNamedWithAWayOut(t *testing.T) {
	t.Parallel()
	bin := system(t)
	otherMajor := strconv.Itoa(bin.major + 1)
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"something else is in it": {map[string]string{"notes.txt": "hello"}, []string{"PG_VERSION", "make reset"}},
		"PG_VERSION is empty":     {map[string]string{"PG_VERSION": ""}, []string{"PG_VERSION", "make reset"}},
		"PG_VERSION is no number": {map[string]string{"PG_VERSION": "banana\n"}, []string{"banana", "make reset"}},
		"it is of another version": {
			map[string]string{"PG_VERSION": otherMajor + "\n", passwordFile: "x\n"},
			[]string{"version " + otherMajor, bin.version},
		},
		"only PG_VERSION is left": {
			map[string]string{"PG_VERSION": strconv.Itoa(bin.major) + "\n"},
			[]string{"password", "make reset"},
		},
		"PostgreSQL cannot start in it": {
			map[string]string{"PG_VERSION": strconv.Itoa(bin.major) + "\n", passwordFile: "x\n"},
			[]string{"postgresql.conf", "make reset"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir := filepath.Join(reachableDir(t), "pg")
			if err := os.Mkdir(dataDir, 0o700); err != nil {
				t.Fatal(err)
			}
			id := serverIdentity("")
			for file, content := range test.files {
				if err := os.WriteFile(filepath.Join(dataDir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := id.give(filepath.Join(dataDir, file)); err != nil {
					t.Fatal(err)
				}
			}
			if err := id.give(dataDir); err != nil {
				t.Fatal(err)
			}
			_, err := tryStart(t, Options{DataDir: dataDir, BinDir: bin.dir})
			assertSentence(t, err, append(test.want, dataDir)...)
			for file := range test.files {
				if !exists(filepath.Join(dataDir, file)) {
					t.Errorf("%s was removed: what is in the folder is not ours to delete", file)
				}
			}
		})
	}
}

// PostgreSQL starts without these, and says so only to who connects: an attempt
// that goes on until the time for a start is up would hide it for a minute.
func TestADataFolderThatStartsAndLetsNobodyInIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(dataDir string) error
		want  string
	}{
		"the database is gone": {func(dataDir string) error { return os.RemoveAll(filepath.Join(dataDir, "base")) }, `database "postgres" does not exist`},
		"the password is not its own": {func(dataDir string) error {
			return os.WriteFile(filepath.Join(dataDir, passwordFile), []byte("x\n"), 0o600)
		}, "password authentication failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir := filepath.Join(reachableDir(t), "pg")
			stop(t, start(t, Options{DataDir: dataDir}))
			if err := test.spoil(dataDir); err != nil {
				t.Fatal(err)
			}
			_, err := tryStart(t, Options{DataDir: dataDir})
			assertSentence(t, err, dataDir, test.want, "lets nobody in", "make reset")
		})
	}
}

func TestAnEmptyFolderAndAnInterruptedStartAreMadeWhole(t *testing.T) {
	t.Parallel()
	dataDir := filepath.Join(reachableDir(t), "pg")
	for _, dir := range []string{dataDir, dataDir + ".new"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, half := range []string{filepath.Join(dataDir+".new", "PG_VERSION"), dataDir + ".new.password"} {
		if err := os.WriteFile(half, []byte("15\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	connect(t, start(t, Options{DataDir: dataDir}).URL("postgres"))
	if exists(dataDir + ".new") {
		t.Error("what the interrupted start left is still there")
	}
}
