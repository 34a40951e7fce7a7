//go:build unix

// Package processtest runs the real binaries of the service for tests: built
// once for each test binary, started on free ports, told to end or killed, and
// looked at afterwards. No process may have logged a secret, an error that the
// test did not expect, or a data race; and every request that a test made of
// it must be one that the OpenAPI document describes, with its answer.
//
// It owns processes and what is checked of each. What a test sends, and which
// answer is right, is the test's. Only tests import it.
package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binFolder holds the binaries of this test run.
var binFolder string //nolint:gochecknoglobals // set by Main alone, before any test

// Main builds commands ("api", "dev"), runs the tests, and ends the process:
// it is all of a TestMain. Under the race detector the binaries have it too.
func Main(m *testing.M, commands ...string) {
	os.Exit(run(m, commands))
}

func run(m *testing.M, commands []string) int {
	dir, err := os.MkdirTemp("", "onceward-test-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a folder for the binaries:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Other users run them too: PostgreSQL's may not enter a private folder.
	err = os.Chmod(dir, 0o755)
	if err == nil {
		err = build(dir, commands)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the binaries:", err)
		return 1
	}
	binFolder = dir
	return m.Run()
}

// build puts the commands into dir. Further arguments of `go build` come first.
func build(dir string, commands []string, args ...string) error {
	args = append([]string{"build"}, args...)
	if raceEnabled {
		args = append(args, "-race")
	}
	args = append(args, "-o", dir+string(filepath.Separator))
	for _, command := range commands {
		args = append(args, module+"/cmd/"+command)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil { //nolint:noctx // the arguments are ours; it ends with the tests
		return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

const module = "github.com/onceward/onceward"

// BinFolder is the folder of the binaries that Main has built.
func BinFolder() string { return binFolder }

// Environ is this process's environment without the variables of the service,
// and with what is given as NAME=value.
func Environ(set ...string) []string {
	var environ []string
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !strings.HasPrefix(name, "ONCEWARD_") || name == "ONCEWARD_DEVPG" {
			environ = append(environ, entry)
		}
	}
	return append(environ, set...)
}
