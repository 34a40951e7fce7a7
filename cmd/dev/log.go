//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
)

const (
	tailLines = 8

	// maxShownBytes bounds what is kept of a line for the terminal and the
	// tail. The file gets all of it.
	maxShownBytes = 4096
)

// childLog takes what a child writes: all of it goes to a file, warnings,
// errors and what is no log line at all also to the terminal, and the last lines
// are kept for the sentence about its death.
//
// It never refuses and never blocks for long: a child whose output nobody takes
// would stand still.
type childLog struct {
	name string
	path string
	out  *printer

	mu   sync.Mutex
	file *os.File // under mu
	line []byte   // under mu: the start of the line that is being written
	last []string // under mu
}

// openChildLog starts a new file; the last run's is kept beside it.
func openChildLog(dir, name string, out *printer) (*childLog, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the files in it are private
		return nil, fmt.Errorf("make the folder for logs: %w", err)
	}
	path := filepath.Join(dir, name+".log")
	if err := os.Rename(path, filepath.Join(dir, name+".previous.log")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("keep the last log of the %s: %w", name, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of the %s: %w", name, err)
	}
	return &childLog{name: name, path: path, out: out, file: file}, nil
}

// Write never fails: a full disk is no reason to stop the child.
func (l *childLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.file.Write(text)
	rest := text
	for {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		l.line = append(l.line, line[:min(len(line), maxShownBytes-len(l.line))]...)
		if !whole {
			return len(text), nil
		}
		l.endLine()
		rest = after
	}
}

func (l *childLog) endLine() {
	line := strings.ToValidUTF8(string(l.line), "?")
	l.line = l.line[:0]
	if strings.TrimSpace(line) == "" {
		return
	}
	l.last = append(l.last, line)
	if len(l.last) > tailLines {
		l.last = slices.Delete(l.last, 0, 1)
	}
	if shown := forTerminal(line); shown != "" {
		l.out.printf("%s: %s", l.name, shown)
	}
}

// tail is the end of what was written.
func (l *childLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last) == 0 {
		return "  (nothing)"
	}
	return "  " + strings.Join(l.last, "\n  ")
}

func (l *childLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// forTerminal is what is shown of a line of a log: nothing of ordinary news.
func forTerminal(line string) string {
	var attrs map[string]any
	if json.Unmarshal([]byte(line), &attrs) != nil {
		return line
	}
	level, _ := attrs["level"].(string)
	if level == "INFO" || level == "DEBUG" {
		return ""
	}
	shown := fmt.Sprint(level, " ", attrs["msg"])
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if name != "level" && name != "msg" && name != "time" {
			shown += fmt.Sprintf(" %s=%v", name, attrs[name])
		}
	}
	return shown
}
