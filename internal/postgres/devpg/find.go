//go:build unix

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onceward/onceward/internal/postgres"
)

// ErrNotFound says that no usable PostgreSQL is on this machine and that none
// could be got.
var ErrNotFound = errors.New("no usable PostgreSQL is found")

// Ways to come by binaries, the values of ONCEWARD_DEVPG.
const (
	envWay    = "ONCEWARD_DEVPG"
	envBin    = "PG_BIN"
	waySystem = "system"
	wayNPM    = "npm"
	wayApt    = "apt"
)

// wish is what the environment says about the search.
type wish struct {
	bin string // PG_BIN
	way string // ONCEWARD_DEVPG
}

func wishFromEnv() wish { return wish{bin: os.Getenv(envBin), way: os.Getenv(envWay)} }

// binaries is a folder with initdb and postgres that has been seen to work.
type binaries struct {
	dir     string
	version string // "15.18"
	major   int
	env     []string
}

// finder looks for binaries and remembers why it passed one by.
type finder struct {
	id    *identity
	opts  Options
	major int    // of the existing data, 0: any
	data  string // the data folder, for messages

	reasons []string
	newest  binaries // the best that was seen, whatever its major version
}

// find is the first usable PostgreSQL in the order that Start documents.
func (f *finder) find(ctx context.Context, wanted wish) (binaries, error) {
	if f.opts.BinDir != "" {
		return f.given(ctx, "Options.BinDir", f.opts.BinDir)
	}
	way := wanted.way
	switch way {
	case "", waySystem, wayNPM, wayApt:
	default:
		return binaries{}, fmt.Errorf("%s is %q: it may be system, npm or apt, or unset", envWay, way)
	}
	if wanted.bin != "" && (way == "" || way == waySystem) {
		return f.given(ctx, envBin, wanted.bin)
	}
	if way == "" || way == waySystem {
		if bin, ok := f.system(ctx); ok {
			return bin, nil
		}
	}
	if way == "" || way == wayNPM {
		if bin, ok := f.npm(ctx); ok {
			return bin, nil
		}
	}
	if way == "" || way == wayApt {
		if bin, ok := f.apt(ctx); ok {
			return bin, nil
		}
	}
	return binaries{}, f.notFound()
}

// given is a folder that somebody named: it is used or it is an error, since
// going on to another would hide the mistake.
func (f *finder) given(ctx context.Context, name, dir string) (binaries, error) {
	bin, err := f.check(ctx, dir, nil)
	if err != nil {
		return binaries{}, fmt.Errorf("%s names %s, but %w", name, dir, err)
	}
	return bin, nil
}

func (f *finder) notFound() error {
	reasons := strings.Join(f.reasons, "; ")
	if f.major != 0 && f.newest.major != 0 {
		return fmt.Errorf("%w: the data folder %s was made by PostgreSQL %d (%s): install that version, or delete the folder, or run `make reset`, to start anew",
			ErrNotFound, f.data, f.major, reasons)
	}
	return fmt.Errorf("%w (%s): install PostgreSQL %d or newer, or set PG_BIN to the folder that holds initdb and postgres, or %s to a server that runs",
		ErrNotFound, reasons, postgres.MinVersion, EnvURL)
}

// system looks at what is installed: PATH first, then the folders in which
// packages hide their binaries, newest first.
func (f *finder) system(ctx context.Context) (binaries, bool) {
	dirs := pathDirs()
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return lastNumber(b) - lastNumber(a) })
		dirs = append(dirs, found...)
	}
	seen := map[string]bool{}
	for _, dir := range dirs {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		bin, err := f.check(ctx, dir, nil)
		if err == nil {
			return bin, true
		}
		f.reasons = append(f.reasons, dir+": "+err.Error())
	}
	if len(dirs) == 0 {
		f.reasons = append(f.reasons, "neither on PATH nor in /usr/lib/postgresql")
	}
	return binaries{}, false
}

// pathDirs is the real folder of the initdb and postgres on PATH, if both are
// there. PostgreSQL finds its share folder from its own, so the links in
// /usr/local/bin that some images make are followed.
func pathDirs() []string {
	if _, err := exec.LookPath("initdb"); err != nil {
		return nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	dirs := []string{}
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		dirs = append(dirs, filepath.Dir(resolved))
	}
	if dir, err := filepath.Abs(filepath.Dir(path)); err == nil {
		dirs = append(dirs, dir)
	}
	return dirs
}

var numbers = regexp.MustCompile(`\d+`)

func lastNumber(path string) int {
	found := numbers.FindAllString(path, -1)
	if len(found) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(found[len(found)-1])
	return n
}

var (
	showVersion = regexp.MustCompile(`(?m)^VERSION=((\d+)\S*)`)
	showBKI     = regexp.MustCompile(`(?m)^POSTGRES_BKI=(.+)$`)
)

// check runs the binaries of dir, as the user who will run the server, far
// enough to see that they start, where their share folder is, and how old they
// are. The error completes a sentence about dir.
func (f *finder) check(ctx context.Context, dir string, env []string) (binaries, error) {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return binaries{}, fmt.Errorf("there is no usable %s in it", name)
		}
	}
	if out, err := f.id.command(ctx, env, filepath.Join(dir, "postgres"), "--version").CombinedOutput(); err != nil {
		return binaries{}, fmt.Errorf("its postgres does not run as %s: %w %s", f.id, err, oneLine(string(out)))
	}
	out, err := f.id.command(ctx, env, filepath.Join(dir, "initdb"), "--show", "--pgdata=/nonexistent").CombinedOutput()
	if err != nil {
		return binaries{}, fmt.Errorf("its initdb does not run as %s: %w %s", f.id, err, oneLine(string(out)))
	}
	version, bki := showVersion.FindSubmatch(out), showBKI.FindSubmatch(out)
	if version == nil || bki == nil {
		return binaries{}, fmt.Errorf("its initdb does not say its version: %s", oneLine(string(out)))
	}
	major, _ := strconv.Atoi(string(version[2]))
	bin := binaries{dir: dir, version: string(version[1]), major: major, env: env}
	if major > f.newest.major {
		f.newest = bin
	}
	if _, err := os.Stat(string(bki[1])); err != nil {
		return binaries{}, fmt.Errorf("its share files are missing: %w", err)
	}
	if major < postgres.MinVersion {
		return binaries{}, fmt.Errorf("it is version %s, and %d or newer is needed", bin.version, postgres.MinVersion)
	}
	if f.major != 0 && f.major != major {
		return binaries{}, fmt.Errorf("it is version %s, and the data in %s is of version %d", bin.version, f.data, f.major)
	}
	return bin, nil
}
