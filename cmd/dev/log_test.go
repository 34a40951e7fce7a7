//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/test/outputtest"
)

func TestAChildsLogGoesToTheFileAndItsTroublesToTheTerminalToo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "api.log"), "of the last run\n")
	terminal := &outputtest.Buffer{}
	log, err := openChildLog(dir, "api", &printer{out: terminal, nowFunc: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	const info = `{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"listening"}` + "\n"
	long := strings.Repeat("é", 3000)
	var all strings.Builder
	for _, piece := range []string{
		info[:20], info[20:], // a line in two pieces
		`{"level":"DEBUG","msg":"x"}` + "\n\n" + `{"time":"t","level":"WARN","msg":"slow","took":1.5,"b":"two"}` + "\n",
		"panic: at the disco\n",
		long + "\n",
		"no end of line",
	} {
		all.WriteString(piece)
		if n, err := log.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Errorf("Write took %d of %d: %v", n, len(piece), err)
		}
	}
	want := "api: WARN slow b=two took=1.5\napi: panic: at the disco\napi: " + long[:maxShownBytes] + "\n"
	if diff := cmp.Diff(terminal.String(), want); diff != "" {
		t.Errorf("on the terminal (-got +want):\n%s", diff)
	}
	for name, want := range map[string]string{"api.log": all.String(), "api.previous.log": "of the last run\n"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
		}
	}
	_, _ = log.Write([]byte("\n"))
	for range tailLines {
		_, _ = log.Write([]byte(info))
	}
	if want := strings.TrimSuffix(strings.Repeat("  "+info, tailLines), "\n"); log.tail() != want {
		t.Errorf("the tail is\n%s\nwant\n%s", log.tail(), want)
	}
	// A file that cannot be written any more does not stop the child.
	if err := log.close(); err != nil {
		t.Fatal(err)
	}
	if n, err := log.Write([]byte("after\n")); n != 6 || err != nil {
		t.Errorf("Write to a log that is gone: %d, %v", n, err)
	}
}

func TestQuotedTextIsOneWordOfTheShell(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:8080": "'http://127.0.0.1:8080'",
		"":                      "''",
		"it's $(rm -rf /)":      `'it'\''s $(rm -rf /)'`,
	} {
		if got := shellQuote(text); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestAnEmptyVariableCountsAsUnset(t *testing.T) {
	t.Parallel()
	env := environment{"A=1", "B=", "A=2", "AB=3"}
	got := []string{env.get("A", "x"), env.get("B", "x"), env.get("C", "x")}
	if diff := cmp.Diff(got, []string{"2", "x", "x"}); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(env.with([]string{"A=4"}, "AB"), environment{"B=", "A=4"}); diff != "" {
		t.Errorf("with (-got +want):\n%s", diff)
	}
}
