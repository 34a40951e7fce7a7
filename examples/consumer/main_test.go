package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// cable is the consumer's network to Onceward. A process that has crashed says
// nothing any more: pulling the cable is that.
type cable struct {
	*http.Transport

	pulled atomic.Bool
}

func (c *cable) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.pulled.Load() {
		return nil, errors.New("the process is gone")
	}
	return c.Transport.RoundTrip(r)
}

// TestEveryPaymentIsBookedOnce crashes a consumer in the middle of a batch,
// after it has booked and before anybody knows, and lets another one take over
// what the broker delivers again. Some payments are in the topic twice.
func TestEveryPaymentIsBookedOnce(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	const payments = 40
	produce(t, broker, payments)
	books := newLedger()
	consumerConfig := func(transport http.RoundTripper) config {
		return config{
			brokers: broker.ListenAddrs(), closeWithin: time.Millisecond,
			lease: 2 * time.Second, // long enough for the work, short enough to wait for
			onceward: client.Config{
				BaseURL: w.URL, APIKey: w.Tenant.Service, HTTP: transport, StoreTimeout: time.Millisecond, RetryFor: -1, Logger: slog.New(slog.DiscardHandler),
			},
		}
	}

	// The first dies when it has booked a third of them.
	wire := &cable{Transport: &http.Transport{}}
	t.Cleanup(wire.CloseIdleConnections)
	books.afterBook = func(calls int) {
		if calls == payments/3 {
			wire.pulled.Store(true)
			runtime.Goexit()
		}
	}
	crashed := make(chan struct{})
	go func() {
		defer close(crashed)
		err := run(t.Context(), consumerConfig(wire), books)
		t.Errorf("it did not crash, but ended with %v", err)
	}()
	<-crashed
	if n := len(books.entries); n == 0 || n == payments {
		t.Fatalf("%d of %d payments are booked, want it halfway", n, payments)
	}

	// The second finishes, taking over what the first left.
	books.afterBook = nil
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, consumerConfig(nil), books) }()
	deadline := time.Now().Add(time.Minute)
	for committed(broker) < payments+payments/4 {
		select {
		case err := <-ended:
			t.Fatalf("it ended with %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the second consumer did not get to the end within a minute")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	if len(books.entries) != payments {
		t.Errorf("%d payments are booked, want %d", len(books.entries), payments)
	}
	for id, times := range books.entries {
		if times != 1 {
			t.Errorf("payment %s is booked %d times", id, times)
		}
	}
	if books.calls <= payments || books.calls > payments+payments/3 {
		t.Errorf("the ledger was asked %d times for %d payments; want only what the first had booked and not told asked again", books.calls, payments)
	}
}

// produce writes the payments, every fourth of them twice.
func produce(t *testing.T, broker *kfake.Cluster, payments int) {
	t.Helper()
	producer, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for i := range payments {
		value := fmt.Appendf(nil, `{"id":"pay_%d","amount":%d}`, i, 100*i)
		for range 2 - min(i%4, 1) {
			if err := producer.ProduceSync(t.Context(), &kgo.Record{Key: fmt.Appendf(nil, "%d", i), Value: value}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// committed is how many messages the group has committed.
func committed(broker *kfake.Cluster) (n int64) {
	info := broker.GroupInfo(group)
	if info == nil {
		return 0
	}
	for _, commit := range info.Commits[topic] {
		n += commit.Offset
	}
	return n
}
