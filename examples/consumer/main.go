// Command consumer books payments from a Kafka topic once, although the topic
// delivers them at least once: franz-go, and Onceward around each message.
//
//	ONCEWARD_URL=http://127.0.0.1:8080 ONCEWARD_KEY=... KAFKA_BROKERS=127.0.0.1:9092 go run ./consumer
//
// It owns nothing but the example: its ledger is in memory.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := config{
		onceward: client.Config{BaseURL: os.Getenv("ONCEWARD_URL"), APIKey: os.Getenv("ONCEWARD_KEY")},
		brokers:  strings.Split(os.Getenv("KAFKA_BROKERS"), ","),

		closeWithin: 10 * time.Second,
	}
	if err := run(ctx, c, newLedger()); err != nil {
		slog.Error("consumer ended", slog.Any("error", err))
		os.Exit(1)
	}
}

type config struct {
	onceward client.Config
	brokers  []string      // host:port
	lease    time.Duration // zero: the policy's
	// closeWithin is how long records are given, at the end, to hear of what was
	// booked.
	closeWithin time.Duration
}

// run books until ctx ends. What has not begun by then is given back.
func run(ctx context.Context, c config, l *ledger) (err error) {
	onceward, err := client.New(c.onceward)
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.closeWithin)
		defer cancel()
		err = errors.Join(err, onceward.Close(ending))
	}()
	kafka, err := kgo.NewClient(
		kgo.SeedBrokers(c.brokers...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return err
	}
	defer kafka.Close()
	consumer := &consumer{onceward: onceward, kafka: kafka, ledger: l, lease: c.lease}
	return consumer.run(ctx)
}
