//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/onceward/onceward/internal/postgres/devpg"
)

// start starts the server, unless a signal comes first. It is nil where there is
// no PostgreSQL to be had.
func start(signals <-chan os.Signal) (*devpg.Server, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("stopped by signal: %v", s))
		case <-started:
		}
	}()
	server, err := devpg.Start(ctx, devpg.Options{
		Fast:     true,
		Progress: func(line string) { fmt.Fprintln(os.Stderr, "withpg:", line) },
	})
	switch cause := context.Cause(ctx); {
	case cause == nil && errors.Is(err, devpg.ErrNotFound):
		fmt.Fprintln(os.Stderr, "withpg:", err)
		return nil, nil //nolint:nilnil // no server is an answer here
	case cause == nil:
		return server, err
	case server != nil:
		_, err := stop(server, signals, 0, cause)
		return nil, err
	default:
		return nil, cause
	}
}

// stop ends the server. After a failure under ONCEWARD_TEST_KEEP=1 it waits for
// a signal first.
func stop(server *devpg.Server, signals <-chan os.Signal, status int, err error) (int, error) {
	if status != 0 && os.Getenv("ONCEWARD_TEST_KEEP") == "1" {
		fmt.Fprintf(os.Stderr, "withpg: the server stays up until you press Ctrl-C: psql '%s'\n", server.URL("postgres"))
		select {
		case <-signals:
		case <-server.Done():
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return status, errors.Join(err, server.Stop(ctx))
}
