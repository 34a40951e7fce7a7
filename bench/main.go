//go:build linux

// Command bench measures the service as it is run, side by side with plain
// statements on the same database.
//
// It owns the load, the comparisons and their report. It starts a PostgreSQL
// with every promise of durability kept, and the real API; it changes nothing
// of either for the figures' sake. A wrong answer, a count that does not agree,
// or a setting without durability ends it: it measures no errors.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	if err := start(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, args []string) error {
	if len(args) == 1 && args[0] == naiveCommand {
		return serveNaive(ctx)
	}
	opts, err := readOptions(args, os.Stderr)
	if err != nil {
		return err
	}
	nowFunc := time.Now //nolint:forbidigo // where the clock comes in
	b := &bench{opts: opts, out: os.Stdout, nowFunc: nowFunc, unique: nowFunc().Unix() % 1_000_000}
	return b.run(ctx)
}
