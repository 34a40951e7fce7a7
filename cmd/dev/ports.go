//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// listener is an address that the api will listen on.
type listener struct {
	variable string // that chooses it
	addr     string
	instead  string // an example of another choice
}

// listeners are the addresses that the environment chooses, with the defaults
// of cmd/api.
func listeners(env environment) []listener {
	return []listener{
		{"ONCEWARD_LISTEN_ADDR", env.get("ONCEWARD_LISTEN_ADDR", "127.0.0.1:8080"), "127.0.0.1:8090"},
		{"ONCEWARD_OPS_LISTEN_ADDR", env.get("ONCEWARD_OPS_LISTEN_ADDR", "127.0.0.1:8081"), "127.0.0.1:8091"},
	}
}

// checkPorts says in one sentence, and before anything is started, what would
// stop the api from listening. The addresses are free again when it returns.
func checkPorts(ctx context.Context, wanted []listener) error {
	var config net.ListenConfig
	held := map[string]string{}
	for _, l := range wanted {
		open, err := config.Listen(ctx, "tcp", l.addr)
		if other := held[l.addr]; err != nil && other != "" {
			return fmt.Errorf("%s and %s are both %s: give them different ports", other, l.variable, l.addr)
		}
		if err != nil {
			return l.explain(err)
		}
		held[l.addr] = l.variable
		defer func() { _ = open.Close() }()
	}
	return nil
}

func (l listener) explain(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use: stop what listens there, or choose another address, as in `%s=%s make run` (port 0 takes a free one)",
			l.addr, l.variable, l.instead)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("this user may not listen on %s: choose a port above 1023, as in `%s=%s make run`", l.addr, l.variable, l.instead)
	default:
		return fmt.Errorf("%s is %q, where nothing can listen (%w): give host:port, as in `%s=%s make run`", l.variable, l.addr, err, l.variable, l.instead)
	}
}
