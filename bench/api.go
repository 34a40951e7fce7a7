//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	module = "github.com/onceward/onceward"

	readyTimeout = 30 * time.Second
)

// buildAPI builds the real cmd/api into dir. With profiling one file is laid
// over it that the product does not have; see profile.go.
func buildAPI(ctx context.Context, dir string, profiling bool) (binary string, err error) {
	binary = filepath.Join(dir, "api")
	args := []string{"build", "-o", binary}
	if profiling {
		overlay, err := profileOverlay(ctx, dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-tags", profileTag, "-overlay", overlay)
	}
	out, err := exec.CommandContext(ctx, "go", append(args, module+"/cmd/api")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the API: %w: %s", err, out)
	}
	return binary, nil
}

// migrate has the API make the schema that it wants.
func (b *bench) migrate(ctx context.Context, db *database) error {
	cmd := exec.CommandContext(ctx, b.api, "migrate", "up")
	cmd.Env = append(withoutOurs(os.Environ()), "ONCEWARD_DATABASE_URL="+db.url)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("migrate the database: %w: %s", err, out)
	}
	return nil
}

// server is a process that answers begins.
type server struct {
	*child
	addr    string // host:port
	folder  string // where its profiles go; empty: it makes none
	started int    // profiles so far
}

// startAPI starts the API on a database and returns when it is ready. Its
// request log is on, as in production, and goes to memory where that can be.
func (b *bench) startAPI(ctx context.Context, name string, db *database, environ ...string) (*server, error) {
	log, err := b.openLog(name)
	if err != nil {
		return nil, err
	}
	addrFile := filepath.Join(b.dir, name+".addr.json")
	set := append(withoutOurs(os.Environ()),
		"ONCEWARD_DATABASE_URL="+db.url, "ONCEWARD_LISTEN_ADDR=127.0.0.1:0", "ONCEWARD_OPS_LISTEN_ADDR=127.0.0.1:0",
		"ONCEWARD_ADDR_FILE="+addrFile)
	set = append(append(set, b.opts.environ...), environ...)
	folder := ""
	if b.opts.profile != "" {
		folder = filepath.Join(b.dir, name+"-profiles")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
		set = append(set, profileFolderVariable+"="+folder)
	}
	c, err := startChild("the API "+name, set, log, b.api)
	if err != nil {
		return nil, err
	}
	s := &server{child: c, folder: folder}
	if err := c.eventually(ctx, readyTimeout, func() error { return s.findAndProbe(ctx, addrFile) }); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return s, nil
}

func (s *server) findAndProbe(ctx context.Context, addrFile string) error {
	text, err := os.ReadFile(addrFile)
	if err != nil {
		return err
	}
	var at struct {
		URL    string `json:"url"`
		OpsURL string `json:"ops_url"`
	}
	if err := json.Unmarshal(text, &at); err != nil {
		return err
	}
	s.addr = strings.TrimPrefix(at.URL, "http://")
	return probe(ctx, at.OpsURL+"/readyz")
}

// probe is nil for a 200.
func probe(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	const enough = 1024
	body, err := io.ReadAll(io.LimitReader(answer.Body, enough))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %s", url, answer.Status, body)
	}
	return err
}

// withoutOurs is an environment without the variables that the service reads.
func withoutOurs(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "ONCEWARD_") && !strings.HasPrefix(entry, "OTEL_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// openLog makes a log file, in memory where that can be: the log of a process
// under load must not take the disk's time from the database.
func (b *bench) openLog(name string) (*os.File, error) {
	path := filepath.Join(b.logDir, name+".log")
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND|os.O_TRUNC, 0o600)
}

// shorten keeps the log from growing with the run.
func (s *server) shorten() error { return s.log.Truncate(0) }
