//go:build unix

// Package readme_test types what README.md, docs/administration.md,
// docs/operations.md and docs/configuration.md say to type, each into one shell, against what `make run` starts, and compares what is
// printed with what the page says, to the letter.
//
// Everything happens in a folder of its own that looks like a built checkout, on
// free ports and a database of its own: a `make run` of the same checkout is not
// disturbed.
package readme_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/outputtest"
	"github.com/onceward/onceward/test/processtest"
)

func TestMain(m *testing.M) { processtest.Main(m, "api", "worker", "dev") }

// sessionTimeout bounds one session; a command that hangs ends with it.
const sessionTimeout = 3 * time.Minute

func TestTheREADMEPrintsWhatItSays(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "curl", "make")
	checkout := run(t)
	for range 2 { // a second time it prints the same: its keys are fresh
		typed(t, checkout, "README.md", 10)
	}
}

// docs/administration.md begins with an operator's token and ends with a tenant
// that is locked out.
func TestTheAdministrationPagePrintsWhatItSays(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "curl", "jq")
	checkout := run(t)
	typed(t, checkout, "docs/administration.md", 20)
}

// The session of docs/operations.md looks, and does nothing that others would
// notice but to a tenant of its own.
func TestTheOperationsPagePrintsWhatItSays(t *testing.T) {
	t.Parallel()
	needs(t, "bash", "curl", "jq", "psql")
	checkout := run(t)
	typed(t, checkout, "docs/operations.md", 25)
}

func TestTheConfigurationPagePrintsWhatItSays(t *testing.T) {
	t.Parallel()
	needs(t, "bash")
	typed(t, newCheckout(t), "docs/configuration.md", 2)
}

// typed types the commands of a page, of which there are at least so many, and
// fails the test where one does not print what the page says.
func typed(t *testing.T, checkout, page string, least int) {
	t.Helper()
	commands := read(t, "../../"+page)
	if len(commands) < least {
		t.Errorf("%s has %d commands: they have gone where this test does not look", page, len(commands))
	}
	for _, fault := range try(t, checkout, commands) {
		t.Errorf("%s, %s", page, fault)
	}
}

func TestEveryWayToBeWrongIsFound(t *testing.T) {
	t.Parallel()
	needs(t, "bash")
	dir := t.TempDir()
	if faults := try(t, dir, read(t, "testdata/right.md")); len(faults) > 0 {
		t.Errorf("a page that is right: %s", strings.Join(faults, "\n"))
	}
	faults := try(t, dir, read(t, "testdata/wrong.md"))
	wants := []string{"line 4:", "line 8:", "line 13:", "line 18:", "line 24: the session ended"}
	if len(faults) != len(wants) {
		t.Errorf("a page that is wrong: %d faults, want %d: %q", len(faults), len(wants), faults)
	}
	for n, want := range wants {
		if n >= len(faults) || !strings.HasPrefix(faults[n], want) {
			t.Errorf("a page that is wrong: want as fault %d one that begins %q", n, want)
		}
	}
	for name, page := range map[string]string{
		"an output before its command": "```console\nwhat?\n```\n",
		"a block that is not closed":   "```console\n$ true\n",
	} {
		if _, err := commandsOf(page); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// needs skips the test where a tool is missing that it takes.
func needs(t *testing.T, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("it takes %s: %v", tool, err)
		}
	}
}

func read(t *testing.T, path string) []command {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	commands, err := commandsOf(string(page))
	if err != nil {
		t.Fatalf("%s, %v", path, err)
	}
	return commands
}

// try runs the commands in one shell and returns a sentence about each that
// prints something else than it should.
func try(t *testing.T, dir string, commands []command) (faults []string) {
	t.Helper()
	mark := "mark-" + rand.Text()
	path := filepath.Join(t.TempDir(), "session.sh")
	if err := os.WriteFile(path, []byte(script(commands, mark)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), sessionTimeout)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", path)
	shell.Dir, shell.Env = dir, environ()
	printed, err := shell.Output()
	if ctx.Err() != nil {
		t.Fatalf("the session did not end within %s:\n%s", sessionTimeout, printed)
	}
	lines := outputs(string(printed), mark)
	for n, c := range commands {
		if n >= len(lines) {
			rest := string(printed)
			if at := strings.LastIndex(rest, mark+"\n"); at >= 0 {
				rest = rest[at+len(mark)+1:]
			}
			return append(faults, fmt.Sprintf("line %d: the session ended (%v) at\n$ %s\n%s", c.line, err, c.text, rest))
		}
		if !c.exempt() && !matches(lines[n], c.want) {
			faults = append(faults, fmt.Sprintf("line %d:\n$ %s\n(-printed +said):\n%s", c.line, c.text, cmp.Diff(lines[n], c.want)))
		}
	}
	return faults
}

// environ is for a person's shell: nothing of the service is set in it, nor of
// a make that runs the tests.
func environ(set ...string) []string {
	var kept []string
	for _, entry := range processtest.Environ() {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "BASH_ENV":
		default:
			kept = append(kept, entry)
		}
	}
	return append(kept, set...)
}

// run starts what `make run` starts, in a folder that looks like a checkout that
// was built, and returns the folder. It ends with the test.
func run(t *testing.T) (checkout string) {
	t.Helper()
	checkout = newCheckout(t)
	var said outputtest.Buffer
	dev := exec.Command(filepath.Join(checkout, "bin", "dev"))
	dev.Dir = checkout
	dev.Env = environ("ONCEWARD_DATABASE_URL="+postgrestest.NewURL(t), "ONCEWARD_LISTEN_ADDR=127.0.0.1:0", "ONCEWARD_OPS_LISTEN_ADDR=127.0.0.1:0")
	dev.Stdout, dev.Stderr = &said, &said
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- dev.Wait() }()
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM) // fails only if it has ended
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the run ended with %v:\n%s", err, said.String())
			}
		case <-time.After(time.Minute):
			_ = dev.Process.Kill()
			t.Errorf("the run did not end:\n%s", said.String())
		}
	})
	processtest.Eventually(t, "the run answers", func() bool {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the run ended: %v\n%s", err, said.String())
		default:
		}
		return strings.Contains(said.String(), "\nOnceward answers at ")
	})
	return checkout
}

// newCheckout is a folder that looks like a built checkout.
func newCheckout(t *testing.T) (checkout string) {
	t.Helper()
	checkout = t.TempDir()
	root, err := filepath.Abs("../..")
	for name, is := range map[string]string{
		"Makefile": filepath.Join(root, "Makefile"), "web": filepath.Join(root, "web"), "bin": processtest.BinFolder(),
	} {
		err = errors.Join(err, os.Symlink(is, filepath.Join(checkout, name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return checkout
}
