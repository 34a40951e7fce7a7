package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onceward/onceward/internal/settings"
	"github.com/onceward/onceward/internal/settings/settingstest"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestTheEnvironmentIsRead(t *testing.T) {
	t.Parallel()
	got, err := loadConfig([]string{
		"ONCEWARD_DATABASE_URL=postgres://ann@db/shop", "ONCEWARD_WORKER_DB_MAX_CONNS=9", "ONCEWARD_WORKER_POLL_ONLY=true",
		"ONCEWARD_WORKER_LISTEN_ADDR=:9", "ONCEWARD_WORKER_ADDR_FILE=/tmp/a", "ONCEWARD_PRUNE_BATCH=100", "ONCEWARD_PRUNE_PAUSE=1s", "ONCEWARD_LOG_LEVEL=warn",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		Database: settings.Database{DatabaseURL: "postgres://ann@db/shop"}, DBMaxConns: 9, PollOnly: true, ListenAddr: ":9", AddrFile: "/tmp/a",
		PruneBatch: 100, PrunePause: prunePause(time.Second), LogLevel: settings.LogLevel(slog.LevelWarn),
	}
	if diff := cmp.Diff(got, want, cmpopts.IgnoreUnexported(config{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if got, err = loadConfig([]string{"ONCEWARD_DATABASE_URL=postgres://db/shop", "ONCEWARD_PRUNE_PAUSE= "}); err != nil {
		t.Fatal(err)
	}
	want = config{Database: settings.Database{DatabaseURL: "postgres://db/shop"}, DBMaxConns: 8, ListenAddr: "127.0.0.1:8082", PruneBatch: 5000, PrunePause: prunePause(100 * time.Millisecond)}
	if diff := cmp.Diff(got, want, cmpopts.IgnoreUnexported(config{})); diff != "" {
		t.Errorf("defaults (-got +want):\n%s", diff)
	}
}

func TestABadValueIsOneSentenceThatNamesTheVariable(t *testing.T) {
	t.Parallel()
	const databaseURL = "ONCEWARD_DATABASE_URL=postgres://ann:hunter2@db/shop"
	missing := filepath.Join(t.TempDir(), "missing")
	for _, tt := range []struct {
		environ []string
		want    string // how the sentence begins
	}{
		{nil, "ONCEWARD_DATABASE_URL is not set: "},
		{[]string{"ONCEWARD_DATABASE_URL=postgres://ann:hunter2@db:x/shop"}, "ONCEWARD_DATABASE_URL cannot be read: "},
		{[]string{"ONCEWARD_DATABASE_URL_FILE=" + missing}, "ONCEWARD_DATABASE_URL_FILE names a file that cannot be read: "},
		{[]string{databaseURL, "ONCEWARD_DATABASE_URL_FILE=config.go"}, "ONCEWARD_DATABASE_URL and ONCEWARD_DATABASE_URL_FILE are both set: "},
		{[]string{databaseURL, "ONCEWARD_WORKER_DB_MAX_CONNS=3"}, `ONCEWARD_WORKER_DB_MAX_CONNS is "3": give a whole number from 4 to 10000`},
		{[]string{databaseURL, "ONCEWARD_WORKER_DB_MAX_CONNS=many"}, `ONCEWARD_WORKER_DB_MAX_CONNS is "many": give a whole number from 4 to 10000`},
		{[]string{databaseURL, "ONCEWARD_WORKER_POLL_ONLY=maybe"}, `ONCEWARD_WORKER_POLL_ONLY is "maybe": give true or false`},
		{[]string{databaseURL, "ONCEWARD_WORKER_LISTEN_ADDR=here"}, `ONCEWARD_WORKER_LISTEN_ADDR is "here": give host:port`},
		{[]string{databaseURL, "ONCEWARD_WORKER_LISTEN_ADDR=:70000"}, `ONCEWARD_WORKER_LISTEN_ADDR is ":70000": give host:port`},
		{[]string{databaseURL, "ONCEWARD_PRUNE_BATCH=99"}, `ONCEWARD_PRUNE_BATCH is "99": give a whole number from 100 to 50000`},
		{[]string{databaseURL, "ONCEWARD_PRUNE_PAUSE=-1s"}, `ONCEWARD_PRUNE_PAUSE is "-1s": give a duration`},
		{[]string{databaseURL, "ONCEWARD_PRUNE_PAUSE=2m"}, `ONCEWARD_PRUNE_PAUSE is "2m": give a duration`},
		{[]string{databaseURL, "ONCEWARD_LOG_LEVEL=loud"}, `ONCEWARD_LOG_LEVEL is "loud": give debug, info, warn or error`},
		{[]string{databaseURL, "OTEL_EXPORTER_OTLP_HEADERS=hunter2"}, "OTEL_EXPORTER_OTLP_HEADERS is no list of headers: "},
	} {
		_, err := loadConfig(tt.environ)
		settingstest.AssertSentence(t, tt.environ, err, tt.want)
	}
	_, err := loadConfig([]string{"ONCEWARD_PRUNE_BATCH=x", "ONCEWARD_LOG_LEVEL=y"})
	if got := strings.Split(fmt.Sprint(err), "\n"); len(got) != 3 {
		t.Errorf("%d sentences, want 3: %q", len(got), got)
	}
}

func TestHelpAndTheDocumentSayWhatIsRead(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"help"}, nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	settingstest.AssertSaid(t, "worker", config{}, out.String())
	for _, args := range [][]string{{"work"}, {"help", "me"}} {
		if err := run(t.Context(), args, nil, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}

func TestConfigShowsWhatHoldsAndNoSecret(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte("postgres://ann:hunter2@db/shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := run(t.Context(), []string{"config"}, []string{
		"ONCEWARD_DATABASE_URL_FILE=" + file, "ONCEWARD_PRUNE_PAUSE=59500ms", "OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization=hunter2",
		"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=https://ann:hunter2@collector/x", "OTEL_BSP_SCHEDULE_DELAY=10",
	}, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(out.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		got[name] = strings.TrimSpace(value)
	}
	want := map[string]string{
		"ONCEWARD_DATABASE_URL": "not set", "ONCEWARD_DATABASE_URL_FILE": "[set]", "ONCEWARD_PRUNE_PAUSE": "59.5s", "ONCEWARD_PRUNE_BATCH": "5000",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "[set]", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "https://collector/x", "OTEL_BSP_SCHEDULE_DELAY": "10",
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	if len(got) != len(settings.Variables(config{})) || strings.Contains(out.String(), "hunter2") {
		t.Errorf("shown:\n%s", out.String())
	}
}
