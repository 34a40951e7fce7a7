// Package settingstest holds what a process reads against what it says of it:
// its help and docs/configuration.md. It knows no process. Only tests import it.
package settingstest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/settings"
)

// document is seen from the folder of a command.
const document = "../../docs/configuration.md"

// AssertSaid fails unless the help of a process lists exactly the variables of
// cfg, and the document has exactly one row for each, with the same default, unit
// and meaning, that names the process, or both.
func AssertSaid(t *testing.T, process string, cfg any, help string) {
	t.Helper()
	_, environment, _ := strings.Cut(help, "\nEnvironment:\n")
	var helped, read []string
	for line := range strings.Lines(environment) {
		helped = append(helped, strings.Join(strings.Fields(line), " "))
	}
	for _, v := range settings.Variables(cfg) {
		if v.Help == "" || v.Unit == "-" {
			t.Errorf("%s has no help, or no unit", v.Name)
		}
		read = append(read, strings.Join([]string{v.Name, v.Default, v.Unit, v.Help}, " "))
	}
	if diff := cmp.Diff(helped, read); diff != "" {
		t.Errorf("the variables of the help (-got +read):\n%s", diff)
	}
	rows := rowsOf(t)
	for name, row := range rows {
		if (row.process == process || row.process == "both") && !slices.ContainsFunc(settings.Variables(cfg), func(v settings.Variable) bool { return v.Name == name }) {
			t.Errorf("%s has a row for %s, which %s does not read", filepath.Base(document), name, process)
		}
	}
	for _, v := range settings.Variables(cfg) {
		row, found := rows[v.Name]
		want := rowOf(v, row.process)
		switch {
		case !found:
			t.Errorf("%s has no row for it; it should be:\n%s", filepath.Base(document), rowOf(v, process).text)
		case row.process != process && row.process != "both", row.text != want.text:
			t.Errorf("the row is\n%s\nand should be, of %s or both,\n%s", row.text, process, want.text)
		}
	}
}

// Secret stands for one in environments that are wrong.
const Secret = "hunter2"

// AssertSentence fails unless an environment was refused in one sentence that
// begins so and does not have Secret.
func AssertSentence(t *testing.T, environ []string, err error, beginning string) {
	t.Helper()
	switch {
	case err == nil:
		t.Errorf("%v: no error", environ)
	case !strings.HasPrefix(err.Error(), beginning) || strings.Contains(err.Error(), "\n"):
		t.Errorf("%v: got %q, want one sentence that begins %q", environ, err, beginning)
	case strings.Contains(err.Error(), Secret):
		t.Errorf("%v: %q shows a secret", environ, err)
	}
}

type row struct{ process, text string }

func rowOf(v settings.Variable, process string) row {
	byDefault := v.Default
	if byDefault != "-" {
		byDefault = "`" + byDefault + "`"
	}
	return row{process, fmt.Sprintf("| `%s` | %s | %s | %s | %s |", v.Name, process, v.Help, byDefault, v.Unit)}
}

// rowsOf are the rows of the document by their variables, each there once.
func rowsOf(t *testing.T) map[string]row {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for _, found := range regexp.MustCompile("(?m)^\\| `([A-Z][A-Z0-9_]+)` \\| (api|worker|both) \\| .*$").FindAllStringSubmatch(string(text), -1) {
		name := found[1]
		if _, twice := rows[name]; twice {
			t.Errorf("%s has two rows for %s", filepath.Base(document), name)
		}
		rows[name] = row{found[2], found[0]}
	}
	if all := strings.Count(string(text), "\n| `"); all != len(rows) {
		t.Errorf("%s has %d rows, of which %d can be read", filepath.Base(document), all, len(rows))
	}
	return rows
}
