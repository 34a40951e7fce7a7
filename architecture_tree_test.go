package onceward_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// tree is what the guards look at.
type tree struct {
	files     []file
	libraries map[string]string // reason by module, of the list
}

type file struct {
	path, dir string
	pkg       string
	comment   string // of the package, in this file
	imports   []string
	lines     int
	test      bool
}

// readTree parses the head of every Go file of the project.
func readTree(from fs.FS) (tree, error) {
	var t tree
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && isForeign(entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		f, err := readFile(from, name)
		t.files = append(t.files, f)
		return err
	})
	if err != nil {
		return tree{}, err
	}
	t.libraries, err = readLibraries(from)
	return t, err
}

// isForeign says of a folder that what lies in it is not the project's code.
func isForeign(folder string) bool {
	return strings.HasPrefix(folder, ".") || slices.Contains([]string{"bin", "dist", "node_modules", "testdata"}, folder)
}

func readFile(from fs.FS, name string) (file, error) {
	source, err := fs.ReadFile(from, name)
	if err != nil {
		return file{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return file{}, err
	}
	f := file{
		path:    name,
		dir:     path.Dir(name),
		pkg:     parsed.Name.Name,
		comment: parsed.Doc.Text(),
		lines:   strings.Count(string(source), "\n"),
		test:    strings.HasSuffix(name, "_test.go"),
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, fmt.Errorf("%s: %w", name, err)
		}
		f.imports = append(f.imports, imported)
	}
	return f, nil
}

// readLibraries reads the lines "- `module/path`: reason".
func readLibraries(from fs.FS) (map[string]string, error) {
	text, err := fs.ReadFile(from, libraries)
	if err != nil {
		return nil, err
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "- `"); ok {
			library, reason, _ := strings.Cut(rest, "`")
			listed[library] = strings.Trim(reason, ": \n")
		}
	}
	return listed, nil
}

// ours are the folders of this project that the file imports.
func (f file) ours() (folders []string) {
	for _, imported := range f.imports {
		if folder, ok := strings.CutPrefix(imported, module+"/"); ok {
			folders = append(folders, folder)
		}
	}
	return folders
}

// forTests says of a file that no binary for production holds it.
func (f file) forTests() bool { return f.test || isTestSupport(f.dir) }

// isTestSupport goes by the name of the folder, as in internal/api/apitest.
func isTestSupport(folder string) bool {
	name := path.Base(folder)
	return strings.HasSuffix(name, "test") && name != "test"
}

func isThirdParty(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && !within(imported, module)
}

// within says whether a path is the folder or lies in it.
func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

func withinAny(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return within(name, folder) })
}

func orNothing(folders []string) string {
	if len(folders) == 0 {
		return "nothing"
	}
	return strings.Join(folders, ", ")
}

func firstWords(text string) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(2, len(words))], " ")
}

// TestEachGuardCanFail holds the guards against small trees that break one rule
// each, and against one that breaks none.
func TestEachGuardCanFail(t *testing.T) {
	t.Parallel()
	const ours, pgx, mux = module + "/", "github.com/jackc/pgx/v5", "github.com/go-chi/chi/v5"
	for name, tt := range map[string]struct {
		files map[string]string
		want  []string // the beginnings of the sentences, in any order
	}{
		"nothing is wrong": {
			files: map[string]string{
				"internal/api/api.go":                        source("api", ours+"internal/keys", ours+"internal/api/reference", "net/http", mux),
				"internal/api/reference/reference.go":        source("reference", ours+"api", mux),
				"internal/pruning/prune_test.go":             source("pruning_test", ours+"internal/keys"),
				"internal/pruning/prune.go":                  source("pruning"),
				"internal/api/api_test.go":                   source("api_test", ours+"internal/postgres/postgrestest", ours+"internal/api/apitest", "testing"),
				"internal/api/apitest/apitest.go":            source("apitest", ours+"internal/postgres/postgrestest", ours+"internal/tenants", pgx, "testing"),
				"internal/keys/store_begin.go":               source("keys", pgx, ours+"internal/tenants", ours+"client/fingerprint"),
				"internal/postgres/postgrestest/cluster.go":  source("postgrestest", ours+"internal/postgres/devpg", ours+"migrations"),
				"internal/postgres/devpg/withpg/main.go":     "// Command withpg is.\npackage main\nimport _ \"" + ours + "internal/postgres/devpg\"\n",
				"client/client.go":                           source("client", ours+"client/fingerprint", "net/http"),
				"internal/worker/testdata/src/main.go":       "not even Go",
				"examples/charges/main.go":                   "// Command charges is.\npackage main\nimport _ \"example.com/queue\"\nimport _ \"" + ours + "client\"\n",
				"web/node_modules/some/thing.go":             "package thing",
				"internal/keys/testdata/generated/broken.go": "package",
				"cmd/api/main.go":                            "// Command api is.\npackage main\nimport _ \"" + ours + "internal/api\"\n",
				"internal/analytics/job.go":                  source("analytics", "github.com/riverqueue/river"),
				"test/end_to_end_test.go":                    source("test_test", ours+"internal/api/apitest"),
				"internal/postgres/pool.go":                  source("postgres", pgx),
				"internal/postgres/pool_external_test.go":    "// No package comment here.\npackage postgres_test",
			},
		},
		"an arrow runs back": {
			files: map[string]string{"internal/auth/key.go": source("auth", ours+"internal/tenants")},
			want:  []string{"internal/auth/key.go imports internal/tenants, but of ours internal/auth may import only internal/postgres,"},
		},
		"problem imports something of ours": {
			files: map[string]string{"internal/problem/kind.go": source("problem", ours+"internal/telemetry")},
			want:  []string{"internal/problem/kind.go imports internal/telemetry, but of ours internal/problem may import only nothing"},
		},
		"the client imports the server": {
			files: map[string]string{"client/client.go": source("client", ours+"internal/problem")},
			want:  []string{"client/client.go imports internal/problem, but of ours client may import only nothing"},
		},
		"the fingerprint is not pure any more": {
			files: map[string]string{"client/fingerprint/form.go": source("fingerprint", ours+"client")},
			want:  []string{"client/fingerprint/form.go imports client, but"},
		},
		"a test runs an arrow back": {
			files: map[string]string{"internal/keys/begin_test.go": source("keys_test", ours+"internal/api"), "internal/keys/begin.go": source("keys")},
			want:  []string{"internal/keys/begin_test.go imports internal/api, but"},
		},
		"a folder that nobody has thought of": {
			files: map[string]string{"internal/util/strings.go": source("util")},
			want:  []string{"internal/util/strings.go: the folder internal/util has no arrow"},
		},
		"the API speaks SQL": {
			files: map[string]string{"internal/api/begin.go": source("api", pgx+"/pgxpool", ours+"internal/postgres")},
			want: []string{
				"internal/api/begin.go imports internal/postgres, but",
				"internal/api/begin.go imports github.com/jackc/pgx/v5/pgxpool, which stays in",
			},
		},
		"SQL outside of a store": {
			files: map[string]string{"internal/keys/begin.go": source("keys", pgx, pgx+"/pgconn", pgx+"/pgxpool")},
			want: []string{
				"internal/keys/begin.go imports github.com/jackc/pgx/v5, which stays in internal/postgres, internal/worker, cmd, store.go, store_*.go: move the statement",
				"internal/keys/begin.go imports github.com/jackc/pgx/v5/pgconn, which stays in",
			},
		},
		"HTTP in the domain": {
			files: map[string]string{"internal/keys/begin.go": source("keys", "net/http")},
			want:  []string{"internal/keys/begin.go imports net/http, which stays in internal/api,"},
		},
		"a router of its own": {
			files: map[string]string{"internal/telemetry/pages.go": source("telemetry", mux)},
			want:  []string{"internal/telemetry/pages.go imports github.com/go-chi/chi/v5, which stays in internal/api: add a row"},
		},
		"a job outside of job.go": {
			files: map[string]string{"internal/pruning/prune.go": source("pruning", "github.com/riverqueue/river")},
			want:  []string{"internal/pruning/prune.go imports github.com/riverqueue/river, which stays in internal/worker, internal/postgres, job.go"},
		},
		"tokens read elsewhere": {
			files: map[string]string{"internal/api/authorization.go": source("api", "github.com/golang-jwt/jwt/v5")},
			want:  []string{"internal/api/authorization.go imports github.com/golang-jwt/jwt/v5, which stays in internal/auth"},
		},
		"traces set up elsewhere": {
			files: map[string]string{"cmd/api/serve.go": "// Command api is.\npackage main\nimport _ \"go.opentelemetry.io/otel/sdk/trace\"\n"},
			want:  []string{"cmd/api/serve.go imports go.opentelemetry.io/otel/sdk/trace, which stays in internal/telemetry"},
		},
		"test support in production": {
			files: map[string]string{"internal/api/api.go": source("api", ours+"internal/api/apitest", "testing")},
			want: []string{
				"internal/api/api.go imports internal/api/apitest, which is for tests",
				"internal/api/api.go imports testing: move test support into a folder called internal/apitest",
			},
		},
		"a local server in production": {
			files: map[string]string{"internal/postgres/pool.go": source("postgres", ours+"internal/postgres/devpg")},
			want:  []string{"internal/postgres/pool.go imports internal/postgres/devpg, which is for development: beside tests only cmd/dev and bench and internal/postgres/devpg may"},
		},
		"a library that is not listed": {
			files: map[string]string{"internal/keys/begin.go": source("keys", "example.com/left/pad/v2/sub")},
			want:  []string{"internal/keys/begin.go imports example.com/left/pad/v2/sub, whose module is not in docs/decisions/libraries.md"},
		},
		"a list that is not true": {
			files: map[string]string{libraries: "- `example.com/gone`: it was good\n- `example.com/why`:\n", "internal/keys/begin.go": source("keys", "example.com/why/not")},
			want: []string{
				"docs/decisions/libraries.md lists example.com/gone, which nothing imports",
				"docs/decisions/libraries.md lists example.com/why without a reason",
			},
		},
		"large files": {
			files: map[string]string{
				"internal/keys/begin.go": source("keys") + strings.Repeat("\n", maxFileLines),
				"cmd/api/main.go":        "// Command api is.\npackage main\n" + strings.Repeat("\n", maxMainLines-1),
				"cmd/worker/main.go":     "// Command worker is.\npackage main\n" + strings.Repeat("\n", maxMainLines-2),
			},
			want: []string{
				"internal/keys/begin.go has 502 lines, and 500 are the most",
				"cmd/api/main.go has 81 lines, and 80 are the most for a main",
			},
		},
		"packages without a word": {
			files: map[string]string{
				"internal/keys/begin.go":      "package keys",
				"internal/keys/begin_test.go": source("keys"),
				"internal/auth/key.go":        "// Keys are here.\npackage auth",
				"cmd/api/main.go":             "// Package main is.\npackage main",
			},
			want: []string{
				"internal/keys: no file of the package has a package comment",
				`internal/auth/key.go: the package comment begins with "Keys are", want "Package auth"`,
				`cmd/api/main.go: the package comment begins with "Package main", want "Command api"`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := sentences(t, tt.files)
			for i, sentence := range got {
				if j := slices.IndexFunc(tt.want, func(want string) bool { return strings.HasPrefix(sentence, want) }); j >= 0 {
					got[i] = tt.want[j]
				}
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}

// sentences is what all guards say of a tree. Its list of libraries, unless it
// has one, names just what it imports.
func sentences(t *testing.T, files map[string]string) (all []string) {
	t.Helper()
	memory := fstest.MapFS{}
	for name, text := range files {
		memory[name] = &fstest.MapFile{Data: []byte(text)}
	}
	if memory[libraries] == nil {
		list := "# Libraries\n"
		for _, library := range []string{"github.com/jackc/pgx/v5", "github.com/go-chi/chi/v5", "github.com/golang-jwt/jwt/v5", "github.com/riverqueue/river", "go.opentelemetry.io/otel/sdk"} {
			if slices.ContainsFunc(slices.Collect(maps.Values(files)), func(text string) bool { return strings.Contains(text, library) }) {
				list += "- `" + library + "`: it is used\n"
			}
		}
		memory[libraries] = &fstest.MapFile{Data: []byte(list)}
	}
	read, err := readTree(memory)
	if err != nil {
		t.Fatal(err)
	}
	for _, find := range guards() {
		all = append(all, find(read)...)
	}
	return all
}

// source is a file with a package comment and imports.
func source(pkg string, imports ...string) string {
	text := "// Package " + pkg + " is.\npackage " + pkg + "\n"
	for _, imported := range imports {
		text += "import _ " + strconv.Quote(imported) + "\n"
	}
	return text
}
