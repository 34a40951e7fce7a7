// Package snippets_test runs the programs of docs/integrate-rest.md against a
// service, as they stand there.
package snippets_test

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
)

// runTimeout bounds one run; a program that hangs ends with it.
const runTimeout = 2 * time.Minute

var block = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// Each program runs its operation the first time, and prints the stored
// response ever after.
func TestEveryProgramOfThePageChargesOnce(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/integrate-rest.md")
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{}
	for _, found := range block.FindAllStringSubmatch(string(page), -1) {
		programs[found[1]] = found[2]
	}
	w := apitest.New(t)
	languages := map[string]struct{ interpreter, file string }{
		"bash":       {"bash", "charge.sh"},
		"python":     {"python3", "charge.py"},
		"javascript": {"node", "charge.mjs"},
		"ruby":       {"ruby", "charge.rb"},
	}
	if len(programs) != len(languages) {
		t.Errorf("the page has %d languages, want %d", len(programs), len(languages))
	}
	for language, with := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			interpreter, err := exec.LookPath(with.interpreter)
			if err != nil {
				t.Skipf("%s is not on this machine: its program is not run", with.interpreter)
			}
			path := filepath.Join(t.TempDir(), with.file)
			if err := os.WriteFile(path, []byte(programs[language]), 0o600); err != nil {
				t.Fatal(err)
			}
			order := rand.Text()
			for _, want := range []string{"charging " + order + "\ncharged " + order + "\n", "charged " + order + "\n"} {
				if got := run(t, w, interpreter, path, order); got != want {
					t.Errorf("it printed %q, want %q", got, want)
				}
			}
		})
	}
}

// run is what a program prints.
func run(t *testing.T, w *apitest.World, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "ONCEWARD_URL="+w.URL, "ONCEWARD_KEY="+w.Tenant.Service, "NO_PROXY=127.0.0.1")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // as Output says
			t.Logf("%s", exit.Stderr)
		}
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return string(out)
}
