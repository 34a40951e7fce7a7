// Command charges is a payment endpoint that charges once, however often "pay"
// is tapped: a chi service, protected by the Onceward middleware.
//
//	ONCEWARD_URL=http://127.0.0.1:8080 ONCEWARD_KEY=... go run ./charges
//	curl -i localhost:8090/v1/charges -H 'Authorization: Bearer tok_alice' \
//	  -H 'Idempotency-Key: order-42-charge' -d '{"amount":4999}'
//
// It owns nothing but the example: its accounts are two demo tokens, and its
// bank forgets everything when it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/onceward/onceward/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := config{oncewardURL: os.Getenv("ONCEWARD_URL"), oncewardKey: os.Getenv("ONCEWARD_KEY"), listenAddr: "127.0.0.1:8090"}
	started := func(addr net.Addr) { slog.Info("charges is listening", slog.String("addr", addr.String())) }
	if err := run(ctx, c, newBank(), started); err != nil {
		slog.Error("charges ended", slog.Any("error", err))
		os.Exit(1)
	}
}

type config struct {
	oncewardURL, oncewardKey string
	listenAddr               string // host:port
}

// run serves until ctx ends. Then it stops taking requests, lets those that run
// end, and gives their records up to ten seconds to hear of it.
func run(ctx context.Context, c config, b *bank, started func(net.Addr)) (err error) {
	onceward, err := client.New(client.Config{BaseURL: c.oncewardURL, APIKey: c.oncewardKey})
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, onceward.Close(ending))
	}()
	handler, err := newHandler(onceward, b)
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", c.listenAddr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	started(listener.Addr())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(ending)
}
