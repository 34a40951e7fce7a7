//go:build unix

package deploy

import (
	"bytes"
	"context"
	"crypto/tls"
	"debug/elf"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/certificatetest"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

// instruction is one of a Dockerfile, its continuations joined.
type instruction struct{ word, rest string }

func dockerfile(t *testing.T) (stages [][]instruction) {
	t.Helper()
	text := strings.ReplaceAll(string(read(t, deployed, "container", "Dockerfile")), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		if word == "FROM" || len(stages) == 0 {
			stages = append(stages, nil)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], instruction{word, strings.TrimSpace(rest)})
	}
	return stages
}

func all(stage []instruction, word string) (rests []string) {
	for _, i := range stage {
		if i.word == word {
			rests = append(rests, i.rest)
		}
	}
	return rests
}

func TestTheImageHoldsTheProgramsAloneAndRunsThemAsNobody(t *testing.T) {
	t.Parallel()
	stages := dockerfile(t)
	last := stages[len(stages)-1]
	for _, want := range []struct{ word, rest string }{
		{"FROM", "scratch"},
		{"USER", "65532:65532"},
		{"STOPSIGNAL", "SIGTERM"},
		{"ENTRYPOINT", `["/usr/local/bin/api"]`},
	} {
		if got := all(last, want.word); !slices.Equal(got, []string{want.rest}) {
			t.Errorf("%s %q, want %q", want.word, got, want.rest)
		}
	}
	if health := all(last, "HEALTHCHECK"); len(health) != 1 || !strings.HasSuffix(health[0], `CMD ["/usr/local/bin/api", "probe"]`) {
		t.Errorf("HEALTHCHECK %q", health)
	}
	if len(all(last, "RUN")) > 0 {
		t.Error("the last stage runs something, and has no shell")
	}
	var names []string
	for _, assigned := range strings.Fields(strings.Join(all(last, "ENV"), " ")) {
		name, _, _ := strings.Cut(assigned, "=")
		names = append(names, name)
	}
	wantKnown(t, "Dockerfile", "api", slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, "WORKER") }))
	wantKnown(t, "Dockerfile", "worker", slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.Contains(n, "WORKER") }))

	build := stages[len(stages)-2]
	if !slices.ContainsFunc(all(build, "ENV"), func(env string) bool { return strings.Contains(env, "CGO_ENABLED=0") }) {
		t.Error("the programs are not built with CGO_ENABLED=0")
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, root, "go.mod"))
	if want := "GO_VERSION=" + string(goVersion[1]); !slices.Contains(all(stages[0], "ARG"), want) {
		t.Errorf("built by %v, want %s", all(stages[0], "ARG"), want)
	}
}

// What a build needs is sent to it: .dockerignore leaves out nothing that the
// programs are made of, nor what COPY names.
func TestWhatTheImageIsBuiltFromIsNotIgnored(t *testing.T) {
	t.Parallel()
	var patterns []string
	for line := range strings.Lines(string(read(t, root, ".dockerignore"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, line)
		}
	}
	ignored := func(file string) string {
		for _, pattern := range patterns {
			if base, everywhere := strings.CutPrefix(pattern, "**/"); everywhere {
				for _, part := range strings.Split(file, "/") {
					if ok, _ := path.Match(base, part); ok {
						return pattern
					}
				}
			} else if file == pattern || strings.HasPrefix(file, pattern+"/") {
				return pattern
			}
		}
		return ""
	}
	for _, stage := range dockerfile(t) {
		for _, args := range all(stage, "COPY") {
			fields := strings.Fields(args)
			if strings.HasPrefix(fields[0], "--from=") {
				continue
			}
			for _, source := range fields[:len(fields)-1] {
				if _, err := os.Stat(filepath.Join(root, source)); err != nil {
					t.Errorf("COPY %s: %v", args, err)
				}
				if pattern := ignored(path.Clean(source)); pattern != "" {
					t.Errorf("COPY %s: ignored by %s", args, pattern)
				}
			}
		}
	}
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	const files = `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", files, "./cmd/api", "./cmd/worker")
	list.Dir = top
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range strings.Fields(string(out)) {
		file, ours := strings.CutPrefix(file, top+"/")
		if !ours || strings.HasPrefix(file, "web/dist/") { // which a stage of the image makes
			continue
		}
		seen++
		if pattern := ignored(file); pattern != "" {
			t.Errorf("%s is built into a program, and ignored by %s", file, pattern)
		}
	}
	if seen < 100 {
		t.Errorf("%d files are built into the programs: the test looks past them", seen)
	}
}

// A process of the image as it runs there: in a root that has the programs and
// nothing else, as a user who can write nowhere.
func inTheImage(t *testing.T, dir string, args []string, environ ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.Env = environ
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	return cmd
}

func freeAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestTheProgramsRunInAnEmptyRootAsNobody(t *testing.T) {
	t.Parallel()
	if underRace() {
		t.Skip("the race detector needs libc")
	}
	if os.Getuid() != 0 {
		t.Skip("only root changes the root of a process")
	}
	databaseURL := postgrestest.NewURL(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // for others to look into
		t.Fatal(err)
	}
	for _, program := range []string{"api", "worker"} {
		from := filepath.Join(processtest.BinFolder(), program)
		binary, err := elf.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
			t.Errorf("%s is not static", program)
		}
		if err := binary.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, program), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	certificatetest.Write(t, dir, 1, time.Now())
	for _, name := range []string{certificatetest.CertFile, certificatetest.KeyFile} {
		if err := os.Chown(filepath.Join(dir, name), 65532, 65532); err != nil {
			t.Fatal(err)
		}
	}
	ofAPI := []string{"ONCEWARD_OPS_LISTEN_ADDR=127.0.0.1:0", "ONCEWARD_DB_MAX_CONNS=4"}
	for _, c := range []struct {
		name, program, variable, scheme string
		further                         []string
	}{
		{"api", "api", "ONCEWARD_LISTEN_ADDR", "http", ofAPI},
		{
			"api with TLS", "api", "ONCEWARD_LISTEN_ADDR", "https",
			append(slices.Clone(ofAPI), "ONCEWARD_TLS_CERT_FILE=/"+certificatetest.CertFile, "ONCEWARD_TLS_KEY_FILE=/"+certificatetest.KeyFile),
		},
		{"worker", "worker", "ONCEWARD_WORKER_LISTEN_ADDR", "http", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr := freeAddr(t)
			environ := append([]string{"ONCEWARD_DATABASE_URL=" + databaseURL, c.variable + "=" + addr}, c.further...)
			run := func(args ...string) (string, error) {
				out, err := inTheImage(t, dir, append([]string{"/" + c.program}, args...), environ...).CombinedOutput()
				return string(out), err
			}
			if out, err := run("probe"); err == nil {
				t.Fatalf("a process that is not there lives: %s", out)
			}
			var log bytes.Buffer
			process := inTheImage(t, dir, []string{"/" + c.program}, environ...)
			process.Stderr = &log
			if err := process.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- process.Wait() }()
			t.Cleanup(func() { _ = process.Process.Kill() })
			client := http.Client{Transport: &http.Transport{
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // its issuer is nobody
			}}
			processtest.Eventually(t, "it is ready", func() bool {
				select {
				case err := <-ended:
					t.Fatalf("it ended: %v\n%s", err, log.String())
				default:
				}
				answer, err := client.Get(fmt.Sprintf("%s://%s/readyz", c.scheme, addr))
				if err != nil {
					return false
				}
				_ = answer.Body.Close()
				return answer.StatusCode == http.StatusOK
			})
			if out, err := run("probe"); err != nil {
				t.Errorf("probe: %v: %s", err, out)
			}
			if err := process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("after SIGTERM: %v\n%s", err, log.String())
			}
		})
	}
}
