//go:build unix

// Command withpg runs a command with a throw-away PostgreSQL around it:
//
//	withpg go test ./...
//
// The command finds the server in ONCEWARD_TEST_DATABASE_URL. Where that is set
// already, or ONCEWARD_DATABASE_URL is, no server is started. Its standard
// streams, its exit status and the signals sent to withpg are passed through.
// Without any PostgreSQL the command runs all the same, and whether that is
// enough is up to TEST_DATABASE_REQUIRED. With ONCEWARD_TEST_KEEP=1 a command
// that fails leaves the server up, for a look, until withpg is interrupted.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/onceward/onceward/internal/postgres/devpg"
)

const (
	envTestURL  = "ONCEWARD_TEST_DATABASE_URL"
	stopTimeout = 20 * time.Second
	notStarted  = 127 // the shell's status for a command that is not found
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withpg command [argument ...]")
		os.Exit(2)
	}
	status, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpg:", err)
	}
	os.Exit(status)
}

func run(name string, args []string) (status int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	cmd := exec.Command(name, args...) //nolint:noctx,gosec // what it runs is the caller's choice; ended by the signals that are passed on
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr

	if os.Getenv(envTestURL) == "" && os.Getenv(devpg.EnvURL) == "" {
		server, err := start(signals)
		if err != nil {
			return 1, err
		}
		if server != nil {
			cmd.Env = append(os.Environ(), envTestURL+"="+server.URL("postgres"))
			defer func() { status, err = stop(server, signals, status, err) }()
		}
	}
	if err := cmd.Start(); err != nil {
		return notStarted, err
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s)
			case <-done:
				return
			}
		}
	}()
	_ = cmd.Wait() // the state says all that is of interest
	close(done)
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
