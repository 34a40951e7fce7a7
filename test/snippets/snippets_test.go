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
	"strings"
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
		"go":         {"go", "charge.go"},
		"typescript": {"node", "charge.mts"},
		"python":     {"python3", "charge.py"},
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
			args := []string{path}
			switch language {
			case "go":
				args = []string{"run", path}
			case "typescript":
				args = []string{withoutTypes(t, interpreter, path)}
			}
			order := rand.Text()
			for _, want := range []string{"charging " + order + "\ncharged " + order + "\n", "charged " + order + "\n"} {
				if got := run(t, w, interpreter, append(args, order)...); got != want {
					t.Errorf("it printed %q, want %q", got, want)
				}
			}
		})
	}
}

// withoutTypes is a program that this Node runs: the program itself where Node
// strips types, else what the compiler of the dashboard makes of it.
func withoutTypes(t *testing.T, node, program string) string {
	t.Helper()
	if exec.CommandContext(t.Context(), node, "-e", `process.exit(process.features.typescript ? 0 : 1)`).Run() == nil {
		return program
	}
	const compiler = "../../web/node_modules/typescript/bin/tsc"
	if _, err := os.Stat(compiler); err != nil {
		t.Skip("this Node strips no types and web/node_modules has no compiler: its program is not run")
	}
	out, err := exec.CommandContext(t.Context(), node, compiler, "--noCheck", "--erasableSyntaxOnly", "--module", "esnext", "--target", "es2022", program).CombinedOutput()
	if err != nil {
		t.Fatalf("compile %s: %v: %s", program, err, out)
	}
	return strings.TrimSuffix(program, ".mts") + ".mjs"
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
