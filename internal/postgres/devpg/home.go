//go:build unix

package devpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// throwAwayPrefix and stablePrefix begin the names of our folders in the
	// system's temporary folder.
	throwAwayPrefix = "onceward-pgtmp-"
	stablePrefix    = "onceward-pg-"

	// staleAge is how old a throw-away folder that nobody has locked must be to
	// count as abandoned and not as being made.
	staleAge = 10 * time.Minute
)

// home is a data folder and what lies beside it. While it is open it is locked,
// so that no second caller works on it.
type home struct {
	// data is the data folder, a path without symbolic links.
	data string
	// base is the throw-away folder around data, "" where the data is kept.
	base string
	id   *identity
	lock *os.File
}

func (h *home) logPath() string { return h.data + ".log" }

// openHome settles where the data lies and locks it. It makes the folders
// around the data folder, not the data folder itself.
func openHome(ctx context.Context, opts Options) (*home, error) {
	if opts.DataDir == "" {
		return openThrowAway(ctx)
	}
	data, id, err := placeKept(ctx, opts.DataDir)
	if err != nil {
		return nil, err
	}
	h := &home{data: data, id: id}
	if h.lock, err = lockFile(data + ".lock"); err != nil {
		if errors.Is(err, errLocked) {
			return nil, inUseError(data, h.postmasterPID())
		}
		return nil, err
	}
	return h, nil
}

// placeKept is where the data of the wanted folder lies and who runs its server:
// there, if the server's user can reach it, else in a folder of the temporary
// one whose name is made of the wanted path, so that the next run finds it.
func placeKept(ctx context.Context, wanted string) (string, *identity, error) {
	wanted, err := filepath.Abs(wanted)
	if err != nil {
		return "", nil, fmt.Errorf("find the data folder %s: %w", wanted, err)
	}
	parent := filepath.Dir(wanted)
	if err := os.MkdirAll(parent, 0o755); err != nil { //nolint:gosec // the server's user must pass through
		return "", nil, fmt.Errorf("make the folder of the data folder: %w", err)
	}
	if parent, err = filepath.EvalSymlinks(parent); err != nil {
		return "", nil, fmt.Errorf("find the data folder %s: %w", wanted, err)
	}
	wanted = filepath.Join(parent, filepath.Base(wanted))
	id := serverIdentity(wanted)
	if id == nil || id.reaches(ctx, parent) {
		return wanted, id, nil
	}
	base := stableBase(ctx, id, wanted)
	if err := os.Mkdir(base, 0o711); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // passage, not reading
		return "", nil, fmt.Errorf("make a data folder that %s can reach: %w", id, err)
	}
	if !ownedByCaller(base) {
		return "", nil, fmt.Errorf("the folder %s, which is to hold the data of %s, is not ours: remove it, or keep the checkout where %s can reach it",
			base, wanted, id)
	}
	data := filepath.Join(base, "data")
	return data, serverIdentity(data), nil
}

func stableBase(ctx context.Context, id *identity, wanted string) string {
	sum := sha256.Sum256([]byte(wanted))
	return filepath.Join(tempDir(ctx, id), stablePrefix+hex.EncodeToString(sum[:8]))
}

func openThrowAway(ctx context.Context) (*home, error) {
	id := serverIdentity("")
	temp := tempDir(ctx, id)
	removeAbandoned(temp)
	base, err := os.MkdirTemp(temp, throwAwayPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a folder for a throw-away PostgreSQL: %w", err)
	}
	h := &home{base: base, data: filepath.Join(base, "data"), id: id}
	if h.lock, err = lockFile(h.data + ".lock"); err != nil {
		return nil, errors.Join(err, h.close())
	}
	if err := os.Chmod(base, 0o711); err != nil { //nolint:gosec // passage, not reading
		return nil, errors.Join(err, h.close())
	}
	if !id.reaches(ctx, base) {
		return nil, errors.Join(fmt.Errorf("%s, as whom PostgreSQL must run, cannot reach the temporary folder %s: set TMPDIR to one that everybody may enter",
			id, temp), h.close())
	}
	return h, nil
}

// tempDir is the system's temporary folder without symbolic links, or, where id
// cannot reach that (a root user's private TMPDIR), a customary one.
func tempDir(ctx context.Context, id *identity) string {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		resolved, err := filepath.EvalSymlinks(dir)
		if err == nil && (id == nil || id.reaches(ctx, resolved)) {
			return resolved
		}
	}
	return os.TempDir()
}

// removeAbandoned clears away throw-away folders whose owner was killed together
// with everything that would have removed them. It is a courtesy: what it
// cannot remove, it leaves.
func removeAbandoned(temp string) {
	bases, _ := filepath.Glob(filepath.Join(temp, throwAwayPrefix+"*"))
	for _, base := range bases {
		info, err := os.Lstat(base)
		if err != nil || !ownedByCaller(base) || time.Since(info.ModTime()) < staleAge { //nolint:forbidigo // against the clock that the file system goes by
			continue
		}
		h := &home{base: base, data: filepath.Join(base, "data")}
		if h.lock, err = lockFile(h.data + ".lock"); err != nil {
			continue
		}
		if pid := h.postmasterPID(); pid != 0 && postmasterState(pid, h.data) != notRunning {
			_ = h.lock.Close()
			continue
		}
		_ = h.close()
	}
}

// close unlocks the folder, and removes a throw-away one.
func (h *home) close() error {
	var err error
	if h.base != "" {
		err = os.RemoveAll(h.base)
	}
	if h.lock != nil {
		_ = h.lock.Close()
	}
	return err
}

var errLocked = errors.New("locked by another process")

// lockFile opens path and locks it until the file is closed, which the kernel
// does for a process that dies.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
