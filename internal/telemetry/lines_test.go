package telemetry_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/test/outputtest"
)

func TestALineAloneIsSentAtOnceAndOthersAfterATenthOfASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out outputtest.Buffer
		lines := telemetry.NewLines(&out)
		logger := telemetry.NewLogger(lines, slog.LevelInfo)
		for round := range 2 {
			out.Reset()
			logger.Info("alone")
			if strings.Count(out.String(), "\n") != 1 {
				t.Fatalf("round %d: a line that comes alone waits: %s", round, out.String())
			}
			out.Reset()
			logger.Info("one")
			logger.Info("two")
			time.Sleep(99 * time.Millisecond)
			synctest.Wait()
			if out.String() != "" {
				t.Fatalf("round %d: sent at once: %s", round, out.String())
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `"one"`) || strings.Index(got, `"one"`) > strings.Index(got, `"two"`) {
				t.Fatalf("round %d: %s", round, got)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestAWarningAndAFullBufferAreSentAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out outputtest.Buffer
		lines := telemetry.NewLines(&out)
		logger := telemetry.NewLogger(lines, slog.LevelInfo).With(slog.String("of", "a group"))
		logger.Info("at once")
		logger.Info("before")
		logger.Warn("look here")
		if got := out.String(); !strings.Contains(got, "before") || !strings.Contains(got, "look here") {
			t.Errorf("after a warning: %s", got)
		}
		out.Reset()
		long := strings.Repeat("x", 1<<10)
		for range 100 {
			logger.Info(long)
		}
		if sent := strings.Count(out.String(), "\n"); sent < 50 || sent >= 100 {
			t.Errorf("%d of 100 long lines are sent", sent)
		}
		if err := lines.Flush(); err != nil {
			t.Fatal(err)
		}
		if sent := strings.Count(out.String(), "\n"); sent != 100 {
			t.Errorf("%d of 100 lines are sent in the end", sent)
		}
		time.Sleep(time.Second) // the timer of the first line
	})
}
