// Package onceward_test guards the shape of the tree: which package may import
// which, where each library is spoken to, and how large a file may grow. It reads
// the sources and runs nothing, so a new file is covered without being told.
package onceward_test

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// arrow is a folder of ours and what of ours it may import, beside what lies
// inside the folder itself. Outermost first: nothing imports what stands above.
// docs/architecture.md draws it.
type arrow struct {
	folder string
	may    []string
}

func arrows() []arrow {
	const (
		api, worker                      = "internal/api", "internal/worker"
		keys, tenants, auth              = "internal/keys", "internal/tenants", "internal/auth"
		pruning, analytics               = "internal/pruning", "internal/analytics"
		audit, limits                    = "internal/audit", "internal/limits"
		postgres, problem                = "internal/postgres", "internal/problem"
		telemetry, freshcache            = "internal/telemetry", "internal/freshcache"
		settings                         = "internal/settings"
		migrations, fingerprint, openapi = "migrations", "client/fingerprint", "api"
		guides                           = "docs"
	)
	ground := []string{postgres, problem, telemetry, freshcache}
	domain := domainFolders()
	all := func(lists ...[]string) []string { return slices.Concat(lists...) }
	return []arrow{
		// The worker's desk: enqueues jobs and shows them, and runs none.
		{"cmd/api", all(domain, ground, []string{api, worker, settings})},
		{"cmd/worker", all(domain, ground, []string{worker, settings})},
		{"cmd/dev", []string{tenants, auth, audit, postgres, problem}},

		{api, all(domain, []string{problem, telemetry, freshcache, openapi, fingerprint, guides, "web"})},
		{worker, all(domain, ground)},

		// The domain: what stands below may be known above, and never the other
		// way. Everything else meets through an interface that its user declares.
		{keys, all(ground, []string{tenants, auth, audit, fingerprint})},
		{pruning, all(ground, []string{tenants, auth, audit})},
		{analytics, all(ground, []string{tenants, auth, audit})},
		{limits, all(ground, []string{tenants, auth, audit})},
		{tenants, all(ground, []string{auth, audit})},
		{auth, all(ground, []string{audit})},
		{audit, ground},

		{telemetry, []string{problem, settings}},
		{postgres, []string{migrations}},
		{problem, nil},
		{freshcache, nil},
		{settings, nil},

		{migrations, nil},
		{openapi, nil},
		{guides, nil},
		{"web", nil},
		{"client/fingerprint", nil},
		{"client", nil},
		{"bench", all(domain, ground, []string{"client"})},
		{"examples", []string{"client"}},
		{"test/deploy", nil},
		{"test", all(domain, ground, []string{api, worker, "client", fingerprint, openapi, migrations})},
		{"tools", nil},
	}
}

// domainFolders know their neighbours by the arrows, and each other in tests: a
// record to prune is best made by who makes records.
func domainFolders() []string {
	return []string{"internal/keys", "internal/tenants", "internal/auth", "internal/pruning", "internal/analytics", "internal/limits", "internal/audit"}
}

// modulesApart have go.mod files that nobody gets by using the service or the
// client: what they import is their own affair.
func modulesApart() []string { return []string{"tools", "examples", "test/deploy"} }

// supportOnly names packages for development and tests, and who may import them
// outside of tests. A folder whose name ends in test needs no line here.
func supportOnly() map[string][]string {
	return map[string][]string{
		"internal/postgres/devpg": {"cmd/dev", "bench", "internal/postgres/devpg"},
	}
}

// fence is a library, or a part of one, and where it may be spoken to outside
// of tests.
type fence struct {
	library string
	folders []string
	files   []string // patterns of base names
	instead string
}

func fences() []fence {
	return []fence{
		{
			"net/http",
			[]string{"internal/api", "internal/problem", "internal/telemetry", "cmd", "client", "bench"},
			nil,
			"take and return values of the domain, and let internal/api speak HTTP",
		},
		{"github.com/go-chi/chi", []string{"internal/api"}, nil, "add a row to the route table of internal/api"},
		{"riverqueue.com", []string{"internal/worker"}, nil, "mount it in internal/worker"},
		{"github.com/golang-jwt/jwt", []string{"internal/auth"}, nil, "let internal/auth read tokens"},
		// internal/postgres runs River's migrations and nothing else of it.
		{"github.com/riverqueue", []string{"internal/worker", "internal/postgres"}, []string{"job.go"}, "declare the job in a file called job.go"},
		{"go.opentelemetry.io/otel/sdk", []string{"internal/telemetry"}, nil, "let internal/telemetry set traces and metrics up"},
		{"github.com/prometheus/client_golang", []string{"internal/telemetry"}, nil, "declare the metric in internal/telemetry"},
		{"github.com/caarlos0/env", []string{"internal/settings"}, nil, "give the process's struct to internal/settings"},
		{"database/sql", []string{"internal/postgres"}, nil, "use the pgx pool"},
		// The pool is a handle that constructors pass on; statements are not.
		{
			"github.com/jackc/pgx/v5/pgxpool",
			slices.Concat(domainFolders(), []string{"internal/postgres", "internal/worker", "internal/telemetry", "cmd", "bench"}),
			nil,
			"take what the domain offers: SQL ends there",
		},
		{
			"github.com/jackc/pgx",
			[]string{"internal/postgres", "internal/worker", "cmd"},
			[]string{"store.go", "store_*.go"},
			"move the statement into a file called store.go or store_<what>.go",
		},
	}
}

const (
	maxFileLines = 500
	maxMainLines = 80

	module = "github.com/onceward/onceward"

	// libraries says of each module that is imported why it is there.
	libraries = "docs/decisions/libraries.md"
)

// guard finds what breaks one rule, as sentences that say what to do.
type guard func(tree) []string

func guards() map[string]guard {
	return map[string]guard{
		"arrows":           arrowsRunOneWay,
		"support":          supportStaysOutOfProduction,
		"fences":           librariesStayBehindTheirFences,
		"listed libraries": librariesAreListedWithAReason,
		"sizes":            filesStaySmall,
		"package comments": packagesSayWhatTheyOwn,
	}
}

func TestTheTreeKeepsItsShape(t *testing.T) {
	t.Parallel()
	ours, err := readTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, landmark := range []string{"cmd/api/main.go", "internal/keys/service.go", "client/fingerprint/fingerprint.go"} {
		if !slices.ContainsFunc(ours.files, func(f file) bool { return f.path == landmark }) {
			t.Errorf("%s is not among the %d files that were read: the guard looks past the tree", landmark, len(ours.files))
		}
	}
	for name, find := range guards() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, sentence := range find(ours) {
				t.Error(sentence)
			}
		})
	}
}

func arrowsRunOneWay(t tree) (broken []string) {
	for _, f := range t.files {
		from, known := arrowOf(f.dir)
		if !known {
			broken = append(broken, fmt.Sprintf("%s: the folder %s has no arrow: add a line to arrows in architecture_test.go that says what it may import of ours", f.path, f.dir))
			continue
		}
		for _, to := range f.ours() {
			if within(to, from.folder) || slices.ContainsFunc(from.may, func(may string) bool { return reaches(may, to) }) ||
				f.forTests() && (isTestSupport(to) || within(to, "internal/postgres") || slices.Contains(domainFolders(), from.folder) && withinAny(to, domainFolders())) {
				continue
			}
			broken = append(broken, fmt.Sprintf("%s imports %s, but of ours %s may import only %s: declare an interface in %s for what it needs, or move what both need below them",
				f.path, to, from.folder, orNothing(from.may), from.folder))
		}
	}
	return broken
}

// arrowOf is the line of the innermost folder that holds dir.
func arrowOf(dir string) (arrow, bool) {
	if dir == "." {
		return arrow{folder: dir}, true
	}
	var found arrow
	for _, a := range arrows() {
		if within(dir, a.folder) && len(a.folder) > len(found.folder) {
			found = a
		}
	}
	return found, found.folder != ""
}

// reaches says whether leave to import one folder covers another, which is so
// for what lies inside it unless that has a line of its own.
func reaches(may, to string) bool {
	a, _ := arrowOf(to)
	return a.folder == may
}

func supportStaysOutOfProduction(t tree) (broken []string) {
	for _, f := range t.files {
		if f.forTests() {
			continue
		}
		for _, to := range f.ours() {
			allowed, listed := supportOnly()[to]
			switch {
			case isTestSupport(to):
				broken = append(broken, fmt.Sprintf("%s imports %s, which is for tests: only files called _test.go and folders called …test may", f.path, to))
			case listed && !withinAny(f.dir, allowed):
				broken = append(broken, fmt.Sprintf("%s imports %s, which is for development: beside tests only %s may", f.path, to, strings.Join(allowed, " and ")))
			}
		}
		if slices.Contains(f.imports, "testing") {
			broken = append(broken, fmt.Sprintf("%s imports testing: move test support into a folder called %stest", f.path, f.dir))
		}
	}
	return broken
}

func librariesStayBehindTheirFences(t tree) (broken []string) {
	for _, f := range t.files {
		if f.forTests() || withinAny(f.dir, modulesApart()) {
			continue
		}
		for _, imported := range f.imports {
			i := slices.IndexFunc(fences(), func(fence fence) bool { return within(imported, fence.library) })
			if i < 0 {
				continue
			}
			if fence := fences()[i]; !fence.admits(f) {
				broken = append(broken, fmt.Sprintf("%s imports %s, which stays in %s: %s", f.path, imported, fence.where(), fence.instead))
			}
		}
	}
	return broken
}

func (f fence) admits(by file) bool {
	return withinAny(by.dir, f.folders) || slices.ContainsFunc(f.files, func(pattern string) bool {
		matches, _ := path.Match(pattern, path.Base(by.path))
		return matches
	})
}

func (f fence) where() string {
	return strings.Join(slices.Concat(f.folders, f.files), ", ")
}

// librariesAreListedWithAReason holds the imports against the list, both ways. A
// line of the list is "- `module/path`: reason".
func librariesAreListedWithAReason(t tree) (broken []string) {
	used := map[string]bool{}
	for _, f := range t.files {
		for _, imported := range f.imports {
			if !isThirdParty(imported) || withinAny(f.dir, modulesApart()) {
				continue
			}
			listed := ""
			for library := range t.libraries {
				if within(imported, library) && len(library) > len(listed) {
					listed = library
				}
			}
			if listed == "" {
				broken = append(broken, fmt.Sprintf("%s imports %s, whose module is not in %s: do without it, or add a line with the reason", f.path, imported, libraries))
			}
			used[listed] = true
		}
	}
	for library, reason := range t.libraries {
		if !used[library] {
			broken = append(broken, fmt.Sprintf("%s lists %s, which nothing imports: delete its line", libraries, library))
		}
		if len(strings.Fields(reason)) < 2 {
			broken = append(broken, fmt.Sprintf("%s lists %s without a reason", libraries, library))
		}
	}
	return broken
}

func filesStaySmall(t tree) (broken []string) {
	for _, f := range t.files {
		if f.lines > maxFileLines && !strings.HasSuffix(f.path, "_test.go") {
			broken = append(broken, fmt.Sprintf("%s has %d lines, and %d are the most: divide it by what it is about", f.path, f.lines, maxFileLines))
		}
		if matches, _ := path.Match("cmd/*/main.go", f.path); matches && f.lines > maxMainLines {
			broken = append(broken, fmt.Sprintf("%s has %d lines, and %d are the most for a main: move what is not wiring into the package below", f.path, f.lines, maxMainLines))
		}
	}
	return broken
}

func packagesSayWhatTheyOwn(t tree) (broken []string) {
	said, testsAlone := map[string]bool{}, map[string]bool{}
	for _, f := range t.files {
		_, seen := testsAlone[f.dir]
		testsAlone[f.dir] = f.test && (!seen || testsAlone[f.dir])
	}
	for _, f := range t.files {
		if f.comment == "" || f.test && !testsAlone[f.dir] {
			continue
		}
		said[f.dir] = true
		want := "Package " + f.pkg
		if f.pkg == "main" {
			want = "Command " + path.Base(f.dir)
		}
		if !strings.HasPrefix(f.comment, want+" ") {
			broken = append(broken, fmt.Sprintf("%s: the package comment begins with %q, want %q", f.path, firstWords(f.comment), want))
		}
	}
	for dir := range testsAlone {
		if !said[dir] {
			broken = append(broken, fmt.Sprintf("%s: no file of the package has a package comment: say what it owns and what it must not do", dir))
		}
	}
	return broken
}
