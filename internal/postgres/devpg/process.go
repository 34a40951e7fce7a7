//go:build unix

package devpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// quitTimeout bounds an immediate shutdown. The postmaster itself kills what is
// left of its children after five seconds.
const quitTimeout = 10 * time.Second

// startAnew is the way out of a data folder that is beyond repair.
const startAnew = "if its data is of no value, delete the folder or run `make reset`"

var errPortTaken = errors.New("the chosen port was taken by another process")

// settings is what a server of this package runs with: modest in memory, roomy
// in connections, and without the compiler whose start-up costs short queries.
func settings(port int, opts Options) map[string]string {
	s := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(port),
		"unix_socket_directories": "",
		"password_encryption":     "scram-sha-256",
		"max_connections":         "200",
		"shared_buffers":          "128MB",
		"max_wal_size":            "512MB",
		"jit":                     "off",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_line_prefix":         "%m [%p] %d ",
		"logging_collector":       "off",
		"cluster_name":            "onceward",
	}
	if opts.Fast {
		s["fsync"] = "off"
		s["full_page_writes"] = "off"
		s["synchronous_commit"] = "off"
	}
	maps.Copy(s, opts.Settings)
	return s
}

// freePort is a port that nobody listens on at this moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // nothing of it can wait
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil //nolint:forcetypeassert // of a TCP listener
}

// launch starts the server on s.port and waits until it answers. On failure
// nothing is left running.
func (s *Server) launch(ctx context.Context, bin binaries, opts Options) error {
	logFile, err := os.OpenFile(s.home.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("open the log of PostgreSQL: %w", err)
	}
	defer func() { _ = logFile.Close() }()

	args := []string{"-D", s.DataDir}
	chosen := settings(s.port, opts)
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		args = append(args, "-c", name+"="+chosen[name])
	}
	// The server outlives ctx, which bounds the start only.
	cmd := s.home.id.command(context.WithoutCancel(ctx), bin.env, filepath.Join(bin.dir, "postgres"), args...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	if s.proc, err = startProcess(cmd, s.home); err != nil { //nolint:contextcheck // it outlives the start
		return fmt.Errorf("start %s/postgres as %s: %w", bin.dir, s.home.id, err)
	}
	s.PID = cmd.Process.Pid
	if err := s.waitReady(ctx); err != nil {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitTimeout)
		defer cancel()
		return errors.Join(err, s.proc.stop(stopCtx))
	}
	return nil
}

func (s *Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	// Another process that took the port may accept and say nothing: attempts
	// end with the server that they were meant for.
	attempts, cancelAttempts := context.WithCancel(ctx)
	defer cancelAttempts()
	go func() {
		select {
		case <-s.proc.done:
			cancelAttempts()
		case <-attempts.Done():
		}
	}()
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		conn, err := pgx.Connect(attempts, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		if s.refuses(err) {
			return fmt.Errorf("PostgreSQL %s starts in the data folder %s, but lets nobody in (%w): %s", s.Version, s.DataDir, err, startAnew)
		}
		select {
		case <-s.proc.done:
			return s.startFailure()
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL in %s does not answer (%w), its log %s ends: %s",
				s.DataDir, err, s.home.logPath(), s.logTail())
		case <-ticker.C:
		}
	}
}

// refuses says whether an attempt to connect has failed for good: our server is
// ready, and it was not for being busy that it said no. Before it is ready the
// answer may be that of another server, which took the port.
func (s *Server) refuses(err error) bool {
	// The classes of its SQLSTATE (PostgreSQL, appendix A): it is starting or
	// stopping, it has no room.
	const operatorIntervention, insufficientResources = "57", "53"
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !strings.HasPrefix(said.Code, operatorIntervention) && !strings.HasPrefix(said.Code, insufficientResources) && s.home.postmasterReady()
}

// startFailure reads out of the log why the server has exited.
func (s *Server) startFailure() error {
	tail := s.logTail()
	switch {
	case strings.Contains(tail, "Address already in use"), strings.Contains(tail, "could not create any TCP/IP sockets"):
		return errPortTaken
	case strings.Contains(tail, "lock file \"postmaster.pid\" already exists"):
		return inUseError(s.DataDir, s.home.postmasterPID())
	}
	return fmt.Errorf("PostgreSQL %s cannot start in the data folder %s (%w): %s; %s",
		s.Version, s.DataDir, s.proc.exitError(), tail, startAnew)
}

func (s *Server) logTail() string {
	raw, err := os.ReadFile(s.home.logPath())
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	return oneLine(string(raw))
}

// process is a server process and the watchdog that outlives us by a moment.
type process struct {
	cmd      *exec.Cmd
	done     chan struct{} // closed when cmd has ended
	watchdog *watchdog

	waitErr error // set before done is closed

	once    sync.Once
	stopErr error // set within once
}

// startProcess runs cmd, the server of h, so that it ends with this process.
func startProcess(cmd *exec.Cmd, h *home) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The parent-death signal is sent when the thread that forked ends,
		// not when the process does: this thread is kept until the child is
		// gone. It is not unlocked, so that it ends with this goroutine.
		runtime.LockOSThread()
		dieWithParent(cmd.SysProcAttr)
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.waitErr = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	watchdog, err := startWatchdog(cmd.Process.Pid, h)
	if err != nil {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-p.done
		return nil, err
	}
	p.watchdog = watchdog
	return p, nil
}

func (p *process) exitError() error {
	if p.waitErr == nil {
		return errors.New("exit status 0")
	}
	return p.waitErr
}

func (p *process) stopOnce(stop func() error) error {
	p.once.Do(func() { p.stopErr = stop() })
	return p.stopErr
}

// stop asks for a fast shutdown, and for an immediate one when ctx ends first.
func (p *process) stop(ctx context.Context) error {
	defer p.watchdog.dismiss()
	_ = p.cmd.Process.Signal(syscall.SIGINT) // fails only if it has ended already
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.done:
		return fmt.Errorf("PostgreSQL did not stop in time and was stopped at once, without writing its data out: %w", ctx.Err())
	case <-time.After(quitTimeout):
	}
	_ = p.cmd.Process.Kill()
	<-p.done
	return fmt.Errorf("PostgreSQL had to be killed: %w", ctx.Err())
}

// watchdogScript waits for one line or the end of its input. A line means that
// all is well; the end means that the parent is gone: the server is told to
// stop, waited for for half a minute at most, and its folder removed. A server
// that has ended is told by its missing postmaster.pid too: in a container whose
// first process does not reap orphans, its number stays taken.
const watchdogScript = `
read -r dismissed && exit 0
kill -INT "$1" 2>/dev/null
tries=0
while [ -e "$2" ] && kill -0 "$1" 2>/dev/null && [ "$tries" -lt 300 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
[ -z "$3" ] || rm -rf -- "$3"
`

type watchdog struct {
	cmd   *exec.Cmd
	input io.WriteCloser
}

// startWatchdog watches over the server process of h.
func startWatchdog(pid int, h *home) (*watchdog, error) {
	var self *identity // as the caller, who may signal the server and owns the folder
	cmd := self.command(context.Background(), nil, "/bin/sh", "-c", watchdogScript, "sh",
		strconv.Itoa(pid), h.postmasterFile(), h.base)
	// Its output goes nowhere: `go test` waits for whoever holds its own.
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog of PostgreSQL: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the watchdog of PostgreSQL: %w", err)
	}
	return &watchdog{cmd: cmd, input: input}, nil
}

func (w *watchdog) dismiss() {
	_, _ = io.WriteString(w.input, "\n")
	_ = w.input.Close()
	_ = w.cmd.Wait()
}

// state is what is known about the process that postmaster.pid names.
type state int

const (
	unknown state = iota
	running
	notRunning
)
