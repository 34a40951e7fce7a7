//go:build linux

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Profiles are made by an API that is built with one more file, which `go build
// -overlay` lays over cmd/api: the product itself opens no port and knows no
// variable for it.

const (
	profileTag            = "onceward_profile"
	profileFolderVariable = "ONCEWARD_BENCH_PROFILES"
	profileTimeout        = 20 * time.Second
)

//go:embed overlay/profile.go
var profileSource []byte

// profileOverlay writes what -overlay reads, and returns where.
func profileOverlay(ctx context.Context, dir string) (path string, err error) {
	folder, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", module+"/cmd/api").Output()
	if err != nil {
		return "", fmt.Errorf("find cmd/api: %w", err)
	}
	source := filepath.Join(dir, "profile.go")
	if err := os.WriteFile(source, profileSource, 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(strings.TrimSpace(string(folder)), "bench_profile.go"): source}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// beginProfile begins one in each server that makes them.
func beginProfile(servers []*server) error {
	for _, s := range servers {
		if s.folder != "" {
			s.started++
			if err := s.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
				return err
			}
		}
	}
	return nil
}

// endProfile ends them and keeps the files under the name.
func (b *bench) endProfile(ctx context.Context, servers []*server, name string) error {
	for _, s := range servers {
		if s.folder == "" {
			continue
		}
		if err := s.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
			return err
		}
		made := filepath.Join(s.folder, strconv.Itoa(s.started))
		err := s.eventually(ctx, profileTimeout, func() error {
			_, err := os.Stat(made + ".done.prof")
			return err
		})
		for _, kind := range []string{"cpu", "allocs", "heap", "mutex"} {
			text, readErr := os.ReadFile(made + "." + kind + ".prof")
			err = errors.Join(err, readErr, os.WriteFile(filepath.Join(b.opts.profile, name+"."+kind+".prof"), text, 0o600))
		}
		if err != nil {
			return fmt.Errorf("profile %s: %w", s.name, err)
		}
	}
	return nil
}
