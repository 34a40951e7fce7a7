//go:build unix

package processtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/outputtest"
)

const (
	// deadline is for what must come about on a machine that is busy with
	// other tests. No test waits for as long when all is well.
	deadline = 60 * time.Second

	pollEvery = 5 * time.Millisecond
)

// API is a process of cmd/api. It makes clients and records what they do, as
// an instance of apitest does.
type API struct {
	*apitest.Instance
	Log *outputtest.Buffer

	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
	err    error         // how; read after ended
	killed bool          // by Kill: only the test's own goroutine asks
}

// start runs the binary on the database and returns when it answers.
func start(tb testing.TB, w *apitest.World, binary, databaseURL string, environ []string) *API {
	tb.Helper()
	p := &API{Log: &outputtest.Buffer{}, ended: make(chan struct{})}
	addrFile := filepath.Join(tb.TempDir(), "addr.json")
	p.cmd = exec.Command(binary) //nolint:noctx // ours; ended by the test
	p.cmd.Env = append(Environ(
		"ONCEWARD_DATABASE_URL="+databaseURL,
		"ONCEWARD_LISTEN_ADDR=127.0.0.1:0",
		"ONCEWARD_OPS_LISTEN_ADDR=127.0.0.1:0",
		"ONCEWARD_ADDR_FILE="+addrFile,
		"ONCEWARD_DB_MAX_CONNS=6",
		// Tests move a record's times in the database, behind the back of a
		// replay cache; those that want one add ONCEWARD_REPLAY_CACHE_MIB.
		"ONCEWARD_REPLAY_CACHE_MIB=0",
		"ONCEWARD_LOG_LEVEL=debug",
	), environ...)
	p.cmd.Stderr = p.Log
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	tb.Cleanup(func() { p.endWell(tb) })

	var at struct {
		URL    string `json:"url"`
		OpsURL string `json:"ops_url"`
	}
	Eventually(tb, "the API listens", func() bool {
		select {
		case <-p.ended:
			tb.Fatalf("the API ended: %v\n%s", p.err, p.Log)
		default:
		}
		text, err := os.ReadFile(addrFile)
		return err == nil && json.Unmarshal(text, &at) == nil
	})
	p.Instance = w.Elsewhere(at.URL, at.OpsURL)
	return p
}

// PID is the number of the process.
func (p *API) PID() int { return p.cmd.Process.Pid }

// Kill ends the process at once, by SIGKILL.
func (p *API) Kill(tb testing.TB) {
	tb.Helper()
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatalf("kill the API: %v", err)
	}
	p.await(tb)
}

// Terminate asks the process to end, by SIGTERM.
func (p *API) Terminate(tb testing.TB) {
	tb.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		tb.Fatalf("tell the API to end: %v", err)
	}
}

// Wait waits for the end of the process and returns its exit code; -1 where a
// signal ended it.
func (p *API) Wait(tb testing.TB) int {
	tb.Helper()
	p.await(tb)
	return p.cmd.ProcessState.ExitCode()
}

// Ended says whether the process has ended.
func (p *API) Ended() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *API) await(tb testing.TB) {
	tb.Helper()
	select {
	case <-p.ended:
	case <-time.After(deadline):
		_ = p.cmd.Process.Kill()
		<-p.ended
		tb.Errorf("the API did not end within %s", deadline)
	}
}

// endWell ends the process if the test has not, and fails the test where it
// does not end as it should.
func (p *API) endWell(tb testing.TB) {
	tb.Helper()
	if !p.killed {
		p.Terminate(tb)
	}
	if code := p.Wait(tb); code != 0 && !p.killed {
		tb.Errorf("the API ended with exit code %d, want 0", code)
	}
	if tb.Failed() {
		p.keepLog(tb)
	}
}

// keepLog keeps the log of a process for a look at it, and shows what in it is
// no ordinary news.
func (p *API) keepLog(tb testing.TB) {
	tb.Helper()
	path := filepath.Join(tb.ArtifactDir(), fmt.Sprintf("api-%d.log", p.PID()))
	if err := os.WriteFile(path, []byte(p.Log.String()), 0o600); err != nil {
		tb.Logf("keep the log of the API: %v", err)
	}
	const most = 20
	var news []string
	for line := range strings.Lines(p.Log.String()) {
		if !strings.Contains(line, `"level":"INFO"`) && !strings.Contains(line, `"level":"DEBUG"`) {
			news = append(news, fmt.Sprintf("%.1000s", line))
		}
	}
	tb.Logf("the log of the API (process %d) is in %s (go test -artifacts keeps it); its last errors:\n%s", p.PID(), path, strings.Join(news[max(0, len(news)-most):], ""))
}

// Eventually polls until a condition holds, and ends the test where it does
// not come about.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-timer.C:
			tb.Fatalf("within %s it did not come about that %s", deadline, what)
		}
	}
}
