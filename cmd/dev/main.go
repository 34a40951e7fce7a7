//go:build unix

// Command dev is `make run`: a local Onceward from nothing.
//
// It owns the life of what it starts: a PostgreSQL where none is named, and the
// real api and worker processes on top of it. It migrates, makes a demo tenant with its
// credentials once, says in .onceward/dev.json what is running, and leaves
// nothing running behind. It answers no request itself, and nothing that it
// does is meant for production.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = `usage: dev [run | env | demo | reset]

  run    start PostgreSQL and Onceward, until Ctrl-C (make run)
  env    print shell exports for what is running (eval "$(make -s env)")
  demo   send half a minute of traffic to what is running, with clients that misbehave (make demo)
  reset  delete the local data and credentials (make reset)
`

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // it is, under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	// Signals after the first change nothing: the way down has a time limit of
	// its own, and under make one signal can arrive twice.
	ctx, cancel := signal.NotifyContext(context.Background(), ends...)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "✗", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	command := "run"
	if len(args) > 0 {
		command = args[0]
	}
	if len(args) > 1 {
		return fmt.Errorf("%q is one argument too many\n\n%s", args[1], usage)
	}
	here := checkout(".onceward")
	switch command {
	case "run":
		return serve(ctx, here, environ, &printer{out: stdout, nowFunc: time.Now})
	case "env":
		return printEnv(here, stdout)
	case "demo":
		return sendDemo(ctx, here, &printer{out: stdout, nowFunc: time.Now})
	case "reset":
		return reset(ctx, here, environ, stderr)
	case "help", "-h", "-help", "--help":
		_, err := io.WriteString(stdout, usage)
		return err
	}
	return fmt.Errorf("there is no command %q\n\n%s", command, usage)
}
