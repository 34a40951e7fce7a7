package main

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
		DatabaseURL: "postgres://ann@db/shop", DBMaxConns: 9, PollOnly: true, ListenAddr: ":9", AddrFile: "/tmp/a",
		PruneBatch: 100, PrunePause: time.Second, LogLevel: slog.LevelWarn,
	}
	if diff := cmp.Diff(got, want, cmpopts.IgnoreUnexported(config{})); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if got, err = loadConfig([]string{"ONCEWARD_DATABASE_URL=postgres://db/shop", "ONCEWARD_PRUNE_PAUSE= "}); err != nil {
		t.Fatal(err)
	}
	want = config{DatabaseURL: "postgres://db/shop", DBMaxConns: 8, ListenAddr: "127.0.0.1:8082", PruneBatch: 5000, PrunePause: 100 * time.Millisecond}
	if diff := cmp.Diff(got, want, cmpopts.IgnoreUnexported(config{})); diff != "" {
		t.Errorf("defaults (-got +want):\n%s", diff)
	}
}

func TestWhatIsWrongIsSaidByItsVariable(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"ONCEWARD_DATABASE_URL=", "ONCEWARD_WORKER_DB_MAX_CONNS=3", "ONCEWARD_WORKER_DB_MAX_CONNS=many", "ONCEWARD_WORKER_POLL_ONLY=maybe",
		"ONCEWARD_WORKER_LISTEN_ADDR=here", "ONCEWARD_WORKER_LISTEN_ADDR=:70000", "ONCEWARD_PRUNE_BATCH=99", "ONCEWARD_PRUNE_PAUSE=-1s",
		"ONCEWARD_PRUNE_PAUSE=2m", "ONCEWARD_LOG_LEVEL=loud",
	} {
		name, _, _ := strings.Cut(line, "=")
		_, err := loadConfig([]string{"ONCEWARD_DATABASE_URL=postgres://ann:secret@db/shop", line})
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestHelpNamesEveryVariable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"help"}, nil, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ONCEWARD_DATABASE_URL", "ONCEWARD_PRUNE_PAUSE", "ONCEWARD_WORKER_POLL_ONLY"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("no %s", name)
		}
	}
	for _, args := range [][]string{{"work"}, {"help", "me"}} {
		if err := run(t.Context(), args, nil, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
