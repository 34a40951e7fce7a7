package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/onceward/onceward/client"
)

const (
	topic = "payments"
	group = "ledger"
	// batchMessages is how many messages are begun in one call.
	batchMessages = 100
)

type consumer struct {
	onceward *client.Client
	kafka    *kgo.Client
	ledger   *ledger
	lease    time.Duration
}

type payment struct {
	ID     string `json:"id"`
	Amount int    `json:"amount"` // in cents
}

// run polls, books and commits, in this order: what is committed is booked.
func (c *consumer) run(ctx context.Context) error {
	for {
		fetches := c.kafka.PollRecords(ctx, batchMessages)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop
		}
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("poll: %w", err)
		}
		records := fetches.Records()
		results := c.book(ctx, records)
		done := decided(results)
		if err := c.kafka.CommitRecords(ctx, records[:done]...); err != nil && ctx.Err() == nil {
			return fmt.Errorf("commit: %w", err)
		}
		if done < len(records) {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // it was told to stop
			}
			// The group delivers the rest again, here or elsewhere.
			return fmt.Errorf("message %d of the batch: %w", done, results[done].Err)
		}
	}
}

// book books each message once.
func (c *consumer) book(ctx context.Context, records []*kgo.Record) []client.BatchResult {
	payments := make([]payment, len(records))
	ops := make([]client.Operation, len(records))
	for i, record := range records {
		// A message that cannot be read has no key, and so an error for result.
		if json.Unmarshal(record.Value, &payments[i]) != nil {
			continue
		}
		// The payment's own id, which its producer gave it, and not the offset:
		// a producer that retries writes the same payment at two offsets.
		key, err := client.Key("payment", payments[i].ID)
		if err != nil {
			continue
		}
		ops[i] = client.Operation{
			Key: key, Name: "kafka:" + topic, Request: &client.Request{ContentType: "application/json", Body: record.Value},
			Lease: c.lease,
			// The ledger does a key once, so that a broken attempt can be taken up.
			Resumable: true,
		}
	}
	return c.onceward.Batch(ctx, ops, func(ctx context.Context, i int, lease *client.Lease) (client.Response, error) {
		entry, err := c.ledger.book(ctx, lease.DownstreamKey("ledger", "book"), payments[i])
		if err != nil {
			return client.Response{}, err
		}
		return client.JSONResponse(200, entry)
	})
}

// decided is how many messages, from the first, need no redelivery: they are
// booked, or nothing can ever come of them. A message that may yet be booked
// holds back all behind it, since a commit is a place in the log.
func decided(results []client.BatchResult) int {
	for i, r := range results {
		switch {
		case r.Err == nil:
		case errors.Is(r.Err, client.ErrMissingKey), errors.Is(r.Err, client.ErrMismatch), errors.Is(r.Err, client.ErrOutcomeUnknown):
			// For a person: a real consumer puts it on a queue of its own.
			slog.Error("a message is passed over", slog.Any("error", r.Err))
		default:
			return i
		}
	}
	return len(results)
}

// ledger stands for a system of record that does an idempotency key once.
type ledger struct {
	mu      sync.Mutex // guards what follows
	byKey   map[string]entry
	entries map[string]int // by payment
	calls   int
	// afterBook, where set, is called after each booking, before anybody hears of it.
	afterBook func(calls int)
}

type entry struct {
	Payment string `json:"payment"`
	Number  int    `json:"number"`
}

func newLedger() *ledger {
	return &ledger{byKey: make(map[string]entry), entries: make(map[string]int)}
}

func (l *ledger) book(ctx context.Context, key string, p payment) (entry, error) {
	if err := ctx.Err(); err != nil {
		return entry{}, client.NotDone(err)
	}
	made, calls := l.enter(key, p)
	if l.afterBook != nil {
		l.afterBook(calls)
	}
	return made, nil
}

func (l *ledger) enter(key string, p payment) (entry, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if made, done := l.byKey[key]; done {
		return made, l.calls
	}
	made := entry{Payment: p.ID, Number: len(l.byKey) + 1}
	l.byKey[key] = made
	l.entries[p.ID]++
	return made, l.calls
}
