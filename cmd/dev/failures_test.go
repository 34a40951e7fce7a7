//go:build unix

package main

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatCannotWorkIsSaidInOneSentence: each of these ends with the status 1,
// with one line that names the cause and the way out, and with nothing running.
func TestWhatCannotWorkIsSaidInOneSentence(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	addr := taken.Addr().String()

	for _, tt := range []struct {
		name    string
		env     []string
		prepare func(t *testing.T, checkout string)
		want    []string
		// early: nothing was started, so there is no data either.
		early bool
	}{
		{
			name:  "the port of the API is in use",
			env:   []string{"ONCEWARD_LISTEN_ADDR=" + addr},
			want:  []string{addr + " is in use", "`ONCEWARD_LISTEN_ADDR=127.0.0.1:8090 make run`"},
			early: true,
		},
		{
			name:  "the port of the operator is in use",
			env:   []string{"ONCEWARD_OPS_LISTEN_ADDR=" + addr},
			want:  []string{addr + " is in use", "`ONCEWARD_OPS_LISTEN_ADDR=127.0.0.1:8091 make run`"},
			early: true,
		},
		{
			name:  "both ports are one",
			env:   []string{"ONCEWARD_LISTEN_ADDR=127.0.0.1:18094", "ONCEWARD_OPS_LISTEN_ADDR=127.0.0.1:18094"},
			want:  []string{"ONCEWARD_LISTEN_ADDR and ONCEWARD_OPS_LISTEN_ADDR are both 127.0.0.1:18094"},
			early: true,
		},
		{
			name:  "an address is none",
			env:   []string{"ONCEWARD_LISTEN_ADDR=8080"},
			want:  []string{`ONCEWARD_LISTEN_ADDR is "8080"`, "give host:port"},
			early: true,
		},
		{
			name: "the binary of the api is missing",
			prepare: func(t *testing.T, checkout string) {
				t.Helper()
				link := filepath.Join(checkout, "bin")
				target, err := filepath.EvalSymlinks(filepath.Join(link, "dev"))
				if err == nil {
					err = os.Remove(link)
				}
				if err == nil {
					err = os.Mkdir(link, 0o700)
				}
				if err == nil {
					err = os.Link(target, filepath.Join(link, "dev"))
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			want:  []string{"bin/api is not built", "make run"},
			early: true,
		},
		{
			name: "the data folder is broken",
			prepare: func(t *testing.T, checkout string) {
				t.Helper()
				data := filepath.Join(checkout, ".onceward", "pg")
				writeFile(t, filepath.Join(data, "base"), "not a database")
				if os.Geteuid() != 0 {
					return
				}
				// Root's own data would be refused for another reason.
				if err := os.Chown(data, nobody, nobody); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{".onceward/pg is not a whole PostgreSQL data folder", "make reset"},
		},
		{
			name: "PG_BIN names a folder without PostgreSQL",
			env:  []string{"PG_BIN=/nonexistent", "ONCEWARD_DEVPG="},
			want: []string{"PG_BIN names /nonexistent"},
		},
		{
			name: "there is no PostgreSQL",
			env:  []string{"ONCEWARD_DEVPG=npm", "PATH=/nonexistent", "PG_BIN="},
			want: []string{"no usable PostgreSQL is found", "npm is not on PATH", "install PostgreSQL 15 or newer"},
		},
		{
			name: "the database that is named does not answer",
			env:  []string{"ONCEWARD_DATABASE_URL=postgres://somebody:hunter2@127.0.0.1:1/onceward"},
			want: []string{"connect to PostgreSQL at 127.0.0.1:1", "connection refused"},
		},
		{
			name: "the folder for local data cannot be made",
			prepare: func(t *testing.T, checkout string) {
				t.Helper()
				writeFile(t, filepath.Join(checkout, ".onceward"), "a file")
			},
			want:  []string{"make the folder for local data"},
			early: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkout := newCheckout(t)
			if tt.prepare != nil {
				tt.prepare(t, checkout)
			}
			run := start(t, checkout, nil, tt.env...)
			status, said := run.end(t), run.stderr.String()
			if status != 1 || !strings.HasPrefix(said, "✗ ") || strings.Count(said, "\n") != 1 {
				t.Errorf("exit status %d, want 1 and one line:\n%s", status, said)
			}
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
			if strings.Contains(said, "hunter2") {
				t.Errorf("it repeats a password: %s", said)
			}
			if exists(filepath.Join(checkout, ".onceward", "dev.json")) {
				t.Error("dev.json is left")
			}
			if tt.early && exists(filepath.Join(checkout, ".onceward", "pg")) {
				t.Error("PostgreSQL was started before it was known that the rest can start")
			}
		})
	}
}

func TestAResetStartsAnew(t *testing.T) {
	t.Parallel()
	checkout := newCheckout(t)
	for name, text := range map[string]string{
		"pg/base": "not a database", "credentials.json": "{}", "jwt_secret": "secret", "dev.json": "{}", "log/api.log": "old\n", "npm/kept": "binaries",
	} {
		writeFile(t, filepath.Join(checkout, ".onceward", name), text)
	}
	if status, out := command(t, checkout, "reset"); status != 0 || out != "✓ the local data and credentials are deleted\n" {
		t.Fatalf("reset: %d %s", status, out)
	}
	var left []string
	err := filepath.WalkDir(filepath.Join(checkout, ".onceward"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(path, ".lock") {
			left = append(left, filepath.Base(path))
		}
		return err
	})
	if err != nil || len(left) != 1 || left[0] != "kept" {
		t.Errorf("left are %q (%v), want the downloaded binaries alone", left, err)
	}
	if status, out := command(t, checkout, "reset", "ONCEWARD_DATABASE_URL=postgres://u@h/d"); status != 0 || !strings.Contains(out, "is left as it is") {
		t.Errorf("reset with a named database: %d %s", status, out)
	}
}

func TestACommandThatDoesNotExistShowsThoseThatDo(t *testing.T) {
	t.Parallel()
	checkout := newCheckout(t)
	if status, out := command(t, checkout, "stop"); status != 1 || !strings.Contains(out, `there is no command "stop"`) || !strings.Contains(out, usage) {
		t.Errorf("stop: %d %s", status, out)
	}
	if status, out := command(t, checkout, "help"); status != 0 || out != usage {
		t.Errorf("help: %d %s", status, out)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
