//go:build unix

package devpg

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// passwordFile lies in the data folder and belongs to the server's user.
	passwordFile = "onceward-password"

	passwordBytes = 32

	// orphanTimeout bounds waiting for a server whose parent has just died.
	orphanTimeout = 10 * time.Second
	orphanPoll    = 50 * time.Millisecond
)

// existingMajor is the major version of the data that is there, 0 if none is.
func (h *home) existingMajor() (int, error) {
	entries, err := os.ReadDir(h.data)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, h.broken(err.Error())
	}
	if info, err := os.Stat(h.data); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != h.id.serverUID() {
			return 0, fmt.Errorf("the data folder %s belongs to uid %d and cannot be used by %s: run as its owner, or delete it to start anew",
				h.data, st.Uid, h.id)
		}
	}
	raw, err := os.ReadFile(filepath.Join(h.data, "PG_VERSION"))
	if err != nil {
		return 0, h.broken("it has no readable PG_VERSION")
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || major <= 0 {
		return 0, h.broken("its PG_VERSION is " + strconv.Quote(strings.TrimSpace(string(raw))))
	}
	return major, nil
}

func (h *home) broken(why string) error {
	return fmt.Errorf("the data folder %s is not a whole PostgreSQL data folder (%s): delete it, or run `make reset`, to start anew", h.data, why)
}

func newPassword() string {
	raw := make([]byte, passwordBytes)
	_, _ = rand.Read(raw) // never fails, see crypto/rand
	return hex.EncodeToString(raw)
}

func (h *home) readPassword() (string, error) {
	raw, err := os.ReadFile(filepath.Join(h.data, passwordFile))
	if err != nil {
		return "", h.broken("its password file " + passwordFile + " cannot be read")
	}
	password := strings.TrimSpace(string(raw))
	if password == "" {
		return "", h.broken("its password file " + passwordFile + " is empty")
	}
	return password, nil
}

// waitUntilUnused returns when no server runs in the folder. The lock is ours,
// so a server that does is an orphan on its way out, or somebody else's.
func (h *home) waitUntilUnused(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	for {
		pid := h.postmasterPID()
		if pid == 0 {
			return nil
		}
		switch postmasterState(pid, h.data) {
		case notRunning:
			// The number may belong to some other process by now, which
			// PostgreSQL would take for a server of this folder.
			if err := os.Remove(h.postmasterFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove what a dead server left in %s: %w", h.data, err)
			}
			return nil
		case unknown:
			return nil // PostgreSQL decides, and its word is in the error.
		case running:
		}
		select {
		case <-ctx.Done():
			return inUseError(h.data, pid)
		case <-time.After(orphanPoll):
		}
	}
}

func inUseError(data string, pid int) error {
	who := "another process"
	if pid != 0 {
		who = "a running PostgreSQL (process " + strconv.Itoa(pid) + ")"
	}
	return fmt.Errorf("the data folder %s is in use by %s: stop that first", data, who)
}

func (h *home) postmasterFile() string { return filepath.Join(h.data, "postmaster.pid") }

// postmasterPID is the process that postmaster.pid names, 0 if none.
func (h *home) postmasterPID() int {
	raw, err := os.ReadFile(h.postmasterFile())
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 0 {
		return 0
	}
	return pid
}

// postmasterReady says whether the server in the folder has said that it takes
// connections: the eighth line of postmaster.pid, where its start writes blanks
// after the word (src/include/utils/pidfile.h of PostgreSQL).
func (h *home) postmasterReady() bool {
	raw, err := os.ReadFile(h.postmasterFile())
	if err != nil {
		return false
	}
	const statusLine = 7 // from 0
	lines := strings.Split(string(raw), "\n")
	return len(lines) > statusLine && strings.TrimSpace(lines[statusLine]) == "ready"
}

// Remove deletes the kept data that Start would use for dataDir, wherever it
// lies. A folder that is in use is left alone, and an error.
func Remove(ctx context.Context, dataDir string) error {
	data, id, err := placeKept(ctx, dataDir)
	if err != nil {
		return err
	}
	h := &home{data: data, id: id}
	if h.lock, err = lockFile(data + ".lock"); errors.Is(err, errLocked) {
		return inUseError(data, h.postmasterPID())
	} else if err != nil {
		return err
	}
	defer func() { _ = h.lock.Close() }()
	if pid := h.postmasterPID(); pid != 0 && postmasterState(pid, data) == running {
		return inUseError(data, pid)
	}
	for _, path := range []string{data, h.logPath(), h.stagePath(), h.stagePath() + ".password"} {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove the data of PostgreSQL: %w", err)
		}
	}
	return nil
}
