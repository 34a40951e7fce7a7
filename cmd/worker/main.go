// Command worker runs the jobs: pruning, the roll-ups of analytics, and their
// housekeeping.
//
// It owns the environment, the signals, the operator's listener and the wiring
// of one process, and decides nothing else: what runs when is in
// internal/worker, what a job does below it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/settings"
	"github.com/onceward/onceward/internal/telemetry"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the process in good order; a second one at once.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// run is the whole process: it returns when ctx ends, or when it cannot go on.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("%q is one argument too many; worker help shows what there is", args[1])
	case len(args) == 1 && (args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help"):
		return printHelp(stdout)
	case len(args) == 1 && args[0] != "probe" && args[0] != "config":
		return fmt.Errorf("there is no command %q; worker help shows what there is", args[0])
	}
	cfg, err := loadConfig(environ)
	if len(args) == 1 && args[0] == "probe" && cfg.ListenAddr != "" {
		// Only where it listens counts: what has become of a mounted file
		// since the process read it is not its death.
		return telemetry.Probe(ctx, string(cfg.ListenAddr), false)
	}
	if err != nil {
		return err
	}
	if len(args) == 1 {
		return settings.Show(stdout, cfg)
	}
	logger := telemetry.NewLogger(stderr, cfg.LogLevel.Slog())
	metrics := telemetry.NewWorkerMetrics()
	failed := metrics.StoreErrors(postgres.ErrorKinds()...)
	exporter, err := metrics.Export(ctx, cfg.targets, "onceward-worker", logger)
	if err != nil {
		return err
	}
	defer flush(exporter, logger) //nolint:contextcheck // after everything else: ctx has ended by then
	logger = exporter.Logger(logger)
	database := postgres.Config{
		URL: cfg.Database.URL(), MaxConns: int32(cfg.DBMaxConns), ApplicationName: "onceward-worker",
		OnError: func(kind postgres.ErrorKind) { failed(string(kind)) },
	}
	if statements := exporter.Statements(); statements != nil {
		database.Tracer = statements
	}
	pool, err := postgres.Open(ctx, database)
	if err != nil && ctx.Err() != nil {
		return nil // told to end before it had begun
	}
	if err != nil {
		return err
	}
	defer pool.Close()
	metrics.WatchPool(pool)
	return serve(ctx, cfg, pool, instruments{metrics, exporter}, logger)
}
