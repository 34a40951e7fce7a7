package main

import (
	"context"
	"errors"
	"flag"
	"io"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/telemetry"
)

// runCommand administers and ends.
func runCommand(ctx context.Context, c *command, args, environ []string, stdout, stderr io.Writer) error {
	do, err := c.parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	cfg, err := loadConfig(environ)
	if err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, postgres.Config{URL: cfg.Database.URL(), MaxConns: int32(cfg.DBMaxConns), ApplicationName: "onceward-api-" + c.words})
	if err != nil {
		return err
	}
	logger := telemetry.NewLogger(stderr, cfg.LogLevel.Slog())
	defer closePool(pool, logger)
	if !c.isOfSchema() {
		if err := postgres.CheckSchema(ctx, pool); err != nil {
			return err
		}
	}
	a, err := newAdministration(pool, cfg, logger)
	if err != nil {
		return err
	}
	return told(do(ctx, a, stdout))
}

// probe asks the process that serves with this environment. Only where it
// listens counts: the rest that process has read at its start, and what has
// become of a mounted file since then is not its death.
func probe(ctx context.Context, environ []string) error {
	cfg, err := loadConfig(environ)
	if cfg.ListenAddr == "" {
		return err
	}
	return telemetry.Probe(ctx, string(cfg.ListenAddr), cfg.TLSCertFile != "")
}

func isHelp(word string) bool {
	return word == "help" || word == "-h" || word == "-help" || word == "--help"
}

// isPlain finds the commands that take no flags.
func isPlain(word string) bool {
	return word == "config" || word == "probe"
}
