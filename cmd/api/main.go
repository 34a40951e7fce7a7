// Command api serves the public API and the operator's listener.
//
// It owns the environment, the signals and the wiring of one process, and
// decides nothing else: what a call does is in internal/api and below.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/settings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends the process in good order; a second one at once.
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

// run is the whole process: it returns when ctx ends, or when it cannot go on.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	administer, rest := findCommand(args)
	switch {
	case isHelp(word):
		return printHelp(stdout)
	case administer != nil:
		return runCommand(ctx, administer, rest, environ, stdout, stderr)
	case len(args) == 2 && isHelp(args[1]) && (isPlain(word) || isGroup(word)):
		return printHelp(stdout)
	case isGroup(word) && len(args) == 1:
		return fmt.Errorf("api %s needs one more word: %s; api help shows what they do", word, group(word))
	case isGroup(word):
		return fmt.Errorf("there is no command %q; api help shows what there is", strings.Join(args[:min(len(args), 2)], " "))
	case len(args) > 1:
		return fmt.Errorf("%q is one argument too many; api help shows what there is", args[1])
	case word != "" && !isPlain(word):
		return fmt.Errorf("there is no command %q; api help shows what there is", word)
	}
	if word == "probe" {
		return probe(ctx, environ)
	}
	cfg, err := loadServing(environ)
	if err != nil {
		return err
	}
	if word == "config" {
		return settings.Show(stdout, cfg)
	}
	told, logger, err := newInstruments(ctx, cfg, stderr)
	if err != nil {
		return err
	}
	defer told.flush(logger) //nolint:contextcheck // after everything else: ctx has ended by then
	pool, err := postgres.Open(ctx, told.database(cfg))
	if err != nil && ctx.Err() != nil {
		return nil // told to end before it had begun
	}
	if err != nil {
		return err
	}
	defer closePool(pool, logger)
	return serve(ctx, cfg, pool, told, logger)
}
