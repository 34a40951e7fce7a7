//go:build unix

package processtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// skewVariable tells a skewed process how many seconds its clock is ahead.
const skewVariable = "TEST_CLOCK_AHEAD_SECONDS"

// Skewed builds the API with a wall clock that can be wrong, and returns what
// starts it. Wherever our own code reads time.Now the reading is moved; the
// monotonic part, by which durations are measured, is right, as it is on a
// machine whose clock is wrong.
func Skewed(tb testing.TB) func(w *World, ahead time.Duration) *API {
	tb.Helper()
	dir := tb.TempDir()
	overlay, err := skewOverlay(dir)
	if err == nil {
		err = build(dir, []string{"api"}, "-overlay", overlay)
	}
	if err != nil {
		tb.Fatalf("build the API with a clock of its own: %v", err)
	}
	return func(w *World, ahead time.Duration) *API {
		tb.Helper()
		return w.apiOf(tb, filepath.Join(dir, "api"), []string{fmt.Sprintf("%s=%d", skewVariable, int(ahead.Seconds()))})
	}
}

// skewedNow is the file that every package which reads the clock gets.
const skewedNow = `package %[1]s

import (
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"
)

var secondsAhead, _ = strconv.ParseInt(os.Getenv("` + skewVariable + `"), 10, 64)

// skewedNow moves the seconds of the wall clock, which stand above the 30 bits
// of the nanoseconds (time.Time), and leaves the monotonic reading.
func skewedNow() time.Time {
	t := time.Now()
	*(*uint64)(unsafe.Pointer(&t)) += uint64(secondsAhead) << 30
	return t
}

// For the test, which checks that the clock is as wrong as it should be.
func init() {
	fmt.Fprintf(os.Stderr, "{\"level\":\"INFO\",\"msg\":\"clock\",\"of\":\"%[1]s\",\"now\":%%q,\"monotonic\":%%q}\n",
		skewedNow().Format(time.RFC3339Nano), skewedNow().Sub(time.Now()))
}
`

var (
	readsClock    = regexp.MustCompile(`\btime\.Now\b`)
	packageClause = regexp.MustCompile(`(?m)^package (\w+)`)
)

// skewOverlay writes the sources in which skewedNow stands for time.Now to dir,
// and the file that tells the go command about them.
func skewOverlay(dir string) (path string, err error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output() //nolint:noctx // it ends with the tests
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	replace := map[string]string{}
	put := func(original string, text []byte) error {
		replacement, known := replace[original]
		if !known {
			replacement = filepath.Join(dir, fmt.Sprintf("skewed-%d.go", len(replace)))
			replace[original] = replacement
		}
		return os.WriteFile(replacement, text, 0o600)
	}
	for _, folder := range []string{"internal", "cmd/api"} {
		err := filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), folder), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (strings.HasSuffix(path, "test") || entry.Name() == "testdata"):
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil || !readsClock.Match(source) {
				return err
			}
			clause := packageClause.FindSubmatch(source)
			if clause == nil {
				return fmt.Errorf("%s has no package clause", path)
			}
			// The import may have no other use.
			skewed := append(readsClock.ReplaceAll(source, []byte("skewedNow")), "\nvar _ time.Duration\n"...)
			if err := put(path, skewed); err != nil {
				return err
			}
			return put(filepath.Join(filepath.Dir(path), "skewed_now.go"), fmt.Appendf(nil, skewedNow, clause[1]))
		})
		if err != nil {
			return "", fmt.Errorf("write the sources: %w", err)
		}
	}
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(map[string]any{"Replace": replace}); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text.Bytes(), 0o600)
}
