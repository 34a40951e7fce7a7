//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// checkout is the folder of a checkout in which everything local lies. It is
// relative to the working directory, so that messages stay short.
type checkout string

func (c checkout) path(name string) string { return filepath.Join(string(c), name) }

func (c checkout) dataDir() string         { return c.path("pg") }
func (c checkout) logDir() string          { return c.path("log") }
func (c checkout) lockPath() string        { return c.path("dev.lock") }
func (c checkout) statePath() string       { return c.path("dev.json") }
func (c checkout) credentialsPath() string { return c.path("credentials.json") }
func (c checkout) jwtSecretPath() string   { return c.path("jwt_secret") }

// addrPath is where a program says where it listens.
func (c checkout) addrPath(program string) string { return c.path(program + ".addr.json") }

// lock makes sure that one process at a time starts things here, or says which
// one does. The lock ends with the process.
//
// It is a lock of fcntl(2) and not of flock(2): others can ask who holds it
// without taking it themselves, and no child inherits it.
func (c checkout) lock() (io.Closer, error) {
	if err := os.MkdirAll(string(c), 0o755); err != nil { //nolint:gosec // PostgreSQL's user passes through
		return nil, fmt.Errorf("make the folder for local data: %w", err)
	}
	f, err := os.OpenFile(c.lockPath(), os.O_CREATE|os.O_RDWR, 0o600)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w: the folder %s belongs to another user: run as that user, or let that user delete it", err, c)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the folder %s: %w", c, err)
	}
	err = syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	if err == nil {
		return f, nil
	}
	defer func() { _ = f.Close() }()
	if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EACCES) {
		return nil, fmt.Errorf("lock the folder %s: %w", c, err)
	}
	holder, _ := c.holder()
	return nil, fmt.Errorf("another `make run` (process %d) is running in this checkout: stop it with Ctrl-C or `kill %d`, or use it with eval \"$(make -s env)\"",
		holder, holder)
}

// holder is the process that has the lock, 0 if none has.
func (c checkout) holder() (pid int, err error) {
	f, err := os.Open(c.lockPath())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ask what is running: %w", err)
	}
	defer func() { _ = f.Close() }()
	question := syscall.Flock_t{Type: syscall.F_RDLCK}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_GETLK, &question); err != nil {
		return 0, fmt.Errorf("ask what is running: %w", err)
	}
	if question.Type == syscall.F_UNLCK {
		return 0, nil
	}
	return int(question.Pid), nil
}

// writeJSON makes a file that only its owner can read, whole or not at all.
func writeJSON(path string, value any) error {
	text, err := json.Marshal(value, jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeText(path, text)
}

// writeText is writeJSON for a line of text.
func writeText(path string, text []byte) error {
	// CreateTemp's mode is 0600.
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(temp.Name()))
	}
	return nil
}

// remove deletes a file that may not be there.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
