//go:build unix

// Package deploy holds what lies below deploy/ against what it is for: the
// chart is rendered and its objects read as Kubernetes reads them, Prometheus'
// rules are parsed and run by Prometheus' own engine, every metric that a rule
// or a panel names is looked for in what real processes export, and every
// statement of a dashboard is run by the role that will run it.
//
// It is a module of its own, so that nobody who builds the service gets these
// libraries. Docker, Kubernetes, Prometheus and Grafana themselves run nowhere
// here. It must not import anything into the service.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/onceward/onceward/test/processtest"
)

// root is the repository, and deployed what lies in deploy/.
const (
	root     = "../.."
	deployed = root + "/deploy"
)

func TestMain(m *testing.M) {
	// As the image has them, and they are not built twice. The race detector
	// needs C.
	if !underRace() {
		if err := os.Setenv("CGO_ENABLED", "0"); err != nil {
			panic(err)
		}
	}
	processtest.Main(m, "api", "worker")
}

func underRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// readYAML is a whole file as T; what T does not know fails the test.
func readYAML[T any](t *testing.T, parts ...string) (into T) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(string(read(t, parts...))))
	decoder.KnownFields(true)
	if err := decoder.Decode(&into); err != nil {
		t.Fatalf("%s: %v", filepath.Join(parts...), err)
	}
	return into
}

// known are the variables that a program's help lists.
func known(t *testing.T, program string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), filepath.Join(processtest.BinFolder(), program), "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, environment, found := strings.Cut(string(out), "\nEnvironment:\n")
	if !found {
		t.Fatalf("%s help has no list of variables:\n%s", program, out)
	}
	names := regexp.MustCompile(`(?m)^\s+([A-Z][A-Z0-9_]+)\s`).FindAllStringSubmatch(environment, -1)
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n[1]
	}
	if !slices.Contains(list, "ONCEWARD_DATABASE_URL") {
		t.Fatalf("%s help lists %v", program, list)
	}
	return list
}

// wantKnown fails for each variable that the program would not read.
func wantKnown(t *testing.T, where, program string, names []string) {
	t.Helper()
	helped := known(t, program)
	for _, name := range names {
		if !slices.Contains(helped, name) {
			t.Errorf("%s: %s does not know %s", where, program, name)
		}
	}
}
