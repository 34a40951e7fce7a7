// Command webhook receives the webhooks of GitHub, of Stripe and of everybody
// who sends Standard Webhooks, and handles each delivery once: senders deliver
// at least once, and send again whatever is not answered with 2xx in time.
//
//	ONCEWARD_URL=http://127.0.0.1:8080 ONCEWARD_KEY=... GITHUB_SECRET=... go run ./webhook
//
// It owns nothing but the example: what it does with an event is to count it.
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
	c := config{
		oncewardURL: os.Getenv("ONCEWARD_URL"), oncewardKey: os.Getenv("ONCEWARD_KEY"), listenAddr: "127.0.0.1:8091",
		secrets: map[string]string{"github": os.Getenv("GITHUB_SECRET"), "stripe": os.Getenv("STRIPE_SECRET"), "standard": os.Getenv("WEBHOOK_SECRET")},
		nowFunc: time.Now,
	}
	handle := func(_ context.Context, e event) error {
		slog.Info("handled", slog.String("sender", e.sender), slog.String("delivery", e.id))
		return nil
	}
	started := func(addr net.Addr) { slog.Info("webhook is listening", slog.String("addr", addr.String())) }
	if err := run(ctx, c, handle, started); err != nil {
		slog.Error("webhook ended", slog.Any("error", err))
		os.Exit(1)
	}
}

type config struct {
	oncewardURL, oncewardKey string
	listenAddr               string            // host:port
	secrets                  map[string]string // by sender; empty: its webhooks are refused
	nowFunc                  func() time.Time
}

// run serves until ctx ends, lets what runs end, and gives its records up to
// ten seconds to hear of it.
func run(ctx context.Context, c config, handle handleFunc, started func(net.Addr)) (err error) {
	onceward, err := client.New(client.Config{BaseURL: c.oncewardURL, APIKey: c.oncewardKey})
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, onceward.Close(ending))
	}()
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", c.listenAddr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: newHandler(onceward, c, handle), ReadHeaderTimeout: 10 * time.Second}
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
