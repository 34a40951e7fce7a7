//go:build unix

package devpg

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// patience is how long a test waits for what should come at once.
const patience = 30 * time.Second

// system is a PostgreSQL that is installed. A test that needs one is skipped
// without, as those of postgrestest are.
func system(t *testing.T) binaries {
	t.Helper()
	f := &finder{id: serverIdentity("")}
	bin, err := f.find(t.Context(), wish{way: waySystem})
	if errors.Is(err, ErrNotFound) && os.Getenv("TEST_DATABASE_REQUIRED") != "1" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// start starts a server of the installed PostgreSQL and stops it after the test.
func start(t *testing.T, opts Options) *Server {
	t.Helper()
	server, err := tryStart(t, opts)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func tryStart(t *testing.T, opts Options) (*Server, error) {
	t.Helper()
	if opts.BinDir == "" {
		opts.BinDir = system(t).dir
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server, err := Start(ctx, opts)
	if err == nil {
		t.Cleanup(func() { stop(t, server) })
	}
	return server, err
}

func stop(t *testing.T, server *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := server.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func ourTempDir(t *testing.T) string {
	t.Helper()
	return tempDir(t.Context(), serverIdentity(""))
}

// reachableDir is a folder that the server's user can reach under a root caller
// too, unlike t.TempDir, whose parent only its owner may enter.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(ourTempDir(t), "onceward-devpgtest-") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func show(t *testing.T, conn *pgx.Conn, setting string) string {
	t.Helper()
	var value string
	if err := conn.QueryRow(t.Context(), "select current_setting($1)", setting).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// eventually polls a condition that somebody else's doing makes true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("never came true: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestAThrowAwayServerWorksAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Fast: true, Settings: map[string]string{"work_mem": "7MB", "max_connections": "33"}})
	conn := connect(t, server.URL("postgres"))
	got := map[string]string{}
	for _, setting := range []string{
		"fsync", "full_page_writes", "synchronous_commit", "work_mem", "max_connections", "jit", "timezone",
		"server_encoding", "listen_addresses", "unix_socket_directories",
	} {
		got[setting] = show(t, conn, setting)
	}
	want := map[string]string{
		"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "work_mem": "7MB", "max_connections": "33",
		"jit": "off", "timezone": "UTC", "server_encoding": "UTF8", "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("settings (-got +want):\n%s", diff)
	}
	if version := show(t, conn, "server_version"); !strings.HasPrefix(version, server.Version) {
		t.Errorf("the server calls itself %q, we call it %q", version, server.Version)
	}
	if err := syscall.Kill(server.PID, 0); err != nil {
		t.Errorf("no process has the server's PID: %v", err)
	}
	stop(t, server)
	select {
	case <-server.Done():
	default:
		t.Error("Done is open after Stop")
	}
	if alive(server.PID) {
		t.Error("the server runs after Stop")
	}
	if exists(server.home.base) {
		t.Errorf("%s is still there", server.home.base)
	}
}

func TestNobodyConnectsWithoutThePassword(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Fast: true})
	for name, user := range map[string]*url.Userinfo{
		"none":  url.User(superuser),
		"wrong": url.UserPassword(superuser, "postgres"),
	} {
		u, err := url.Parse(server.URL("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		u.User = user
		conn, err := pgx.Connect(t.Context(), u.String())
		if err == nil {
			_ = conn.Close(t.Context())
			t.Errorf("%s password: connected", name)
		}
	}
	for _, path := range []string{
		server.DataDir, filepath.Join(server.DataDir, passwordFile), server.home.logPath(), server.home.lock.Name(),
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v: others may look into it", path, info.Mode())
		}
	}
}

func TestAPortThatIsTakenInTheMeantimeIsChangedForAnother(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	calls := 0
	choosePort := func() (int, error) {
		if calls++; calls <= 2 {
			return taken, nil
		}
		return freePort()
	}
	server := start(t, Options{Fast: true, choosePortFunc: choosePort})
	if calls < 3 || server.port == taken {
		t.Errorf("after %d choices the port is %d, want another than %d", calls, server.port, taken)
	}
	connect(t, server.URL("postgres"))

	_, err = tryStart(t, Options{Fast: true, choosePortFunc: func() (int, error) { return taken, nil }})
	if !errors.Is(err, errPortTaken) {
		t.Errorf("with every port taken err = %v, want %v", err, errPortTaken)
	}
}

func TestAServerIsNotStoppedByTheTerminalOfItsParent(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Fast: true})
	for what, pid := range map[string]int{"server": server.PID, "watchdog": server.proc.watchdog.cmd.Process.Pid} {
		group, err := syscall.Getpgid(pid)
		if err != nil {
			t.Fatal(err)
		}
		if group == syscall.Getpgrp() {
			t.Errorf("the %s is in our process group: a Ctrl-C reaches it", what)
		}
	}
}

func TestStopIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	server, err := Start(t.Context(), Options{Fast: true, BinDir: system(t).dir})
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, server.URL("postgres"))
	// A fast shutdown waits for a session that does not react; after SIGQUIT
	// the postmaster kills it, five seconds later.
	if err := syscall.Kill(int(conn.PgConn().PID()), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := server.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v, want the context's", err)
	}
	if alive(server.PID) {
		t.Error("the server is still there")
	}
	if exists(server.home.base) {
		t.Errorf("%s is still there", server.home.base)
	}
	if again := server.Stop(t.Context()); !errors.Is(again, context.DeadlineExceeded) {
		t.Errorf("the second Stop says %v, want what the first said", again)
	}
}

func TestDoneTellsOfAServerThatEndsByItself(t *testing.T) {
	t.Parallel()
	server := start(t, Options{Fast: true})
	if err := syscall.Kill(server.PID, syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-server.Done():
	case <-time.After(patience):
		t.Fatal("Done is still open")
	}
}

func TestFastIsRefusedForDataThatIsKept(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{Fast: true, DataDir: t.TempDir()})
	assertSentence(t, err, "Fast")
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	bin := system(t)
	ctx, cancel := context.WithCancel(t.Context())
	var base string
	_, err := Start(ctx, Options{Fast: true, BinDir: bin.dir, Progress: func(line string) {
		base = filepath.Dir(line[strings.LastIndex(line, "/onceward")-len(ourTempDir(t)):])
		cancel()
	}})
	if err == nil {
		t.Fatal("Start succeeded without a context")
	}
	if !strings.Contains(base, throwAwayPrefix) || exists(base) {
		t.Errorf("%q is still there", base)
	}
}

// assertSentence checks that err is one line with all the parts in it.
func assertSentence(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	got := err.Error()
	if strings.Contains(got, "\n") {
		t.Errorf("err = %q: more than one line", got)
	}
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("err = %q, want %q in it", got, part)
		}
	}
}
