package client_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// messages are n operations of a consumer.
func messages(n int) []client.Operation {
	ops := make([]client.Operation, n)
	for i := range ops {
		ops[i] = client.Operation{Key: newKey(), Name: "kafka:payments", Request: &client.Request{Body: []byte(strconv.Itoa(i))}}
	}
	return ops
}

func numbered(i int) client.Response {
	return client.Response{Status: 200, Body: []byte(strconv.Itoa(i))}
}

func TestABatchRunsEachMessageOnceInItsOrder(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network))
	ops := messages(50)
	ops = append(ops, ops[7], client.Operation{Key: "short"}) // one of them twice, and one that is not valid
	var order []int
	run := func(context.Context) []client.BatchResult {
		return c.Batch(t.Context(), ops, func(_ context.Context, i int, lease *client.Lease) (client.Response, error) {
			order = append(order, i)
			if lease.Attempt != 1 || lease.Operation != "kafka:payments" {
				t.Errorf("message %d: lease %+v", i, lease)
			}
			return numbered(i), nil
		})
	}
	check := func(results []client.BatchResult, replayed func(i int) bool) {
		t.Helper()
		for i, r := range results[:50] {
			if r.Err != nil || string(r.Response.Body) != strconv.Itoa(i) || !r.Stored || r.Replay != replayed(i) {
				t.Errorf("message %d: %+v", i, r)
			}
		}
		if twin := results[50]; twin.Err != nil || string(twin.Response.Body) != "7" || !twin.Replay || twin.ID != results[7].ID {
			t.Errorf("the twin of message 7: %+v", twin)
		}
		wantCode(t, results[51].Err, client.ErrInvalidKey)
	}
	check(run(t.Context()), func(int) bool { return false })
	want := make([]int, 50)
	for i := range want {
		want[i] = i
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if begins, stores := len(network.requests(http.MethodPost, "/v1/keys/batch")), len(network.requests(http.MethodPut, "/response")); begins != 1 || stores > 10 {
		t.Errorf("%d batches begun, %d responses stored one by one; want them together", begins, stores)
	}
	// The queue delivers them all again.
	check(run(t.Context()), func(int) bool { return true })
	if len(order) != 50 {
		t.Errorf("%d ran in all, want 50", len(order))
	}
}

func TestOneMessageThatFailsFailsNoOther(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	ops := messages(4)
	broken := acquire(t, c, ops[3])
	w.Advance(t, string(broken.ID), time.Minute) // an attempt that broke off
	results := c.Batch(t.Context(), ops, func(_ context.Context, i int, _ *client.Lease) (client.Response, error) {
		switch i {
		case 0:
			return client.Response{}, errProvider
		case 1:
			return client.Response{}, client.NotDone(errProvider)
		default:
			return numbered(i), nil
		}
	})
	wantCode(t, results[0].Err, client.ErrOutcomeUnknown)
	if !errors.Is(results[1].Err, errProvider) || client.CodeOf(results[1].Err) != "" {
		t.Errorf("what was not done: %v", results[1].Err)
	}
	if results[2].Err != nil || !results[2].Stored {
		t.Errorf("what was done: %+v", results[2])
	}
	wantCode(t, results[3].Err, client.ErrOutcomeUnknown)
	for i, state := range []client.State{client.StateUnknown, client.StateOpen, client.StateCompleted, client.StateUnknown} {
		if got := inspect(t, c, results[i].ID).State; got != state {
			t.Errorf("message %d is %s, want %s", i, got, state)
		}
	}
}

// TestTwoConsumersShareABatch hands the same messages to two consumers at once,
// as a queue does around a rebalance.
func TestTwoConsumersShareABatch(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	ops := messages(30)
	var mu sync.Mutex
	runs := make(map[int]int)
	var consumers sync.WaitGroup
	for range 2 {
		c := newClient(t, w)
		consumers.Go(func() {
			for i, r := range c.Batch(t.Context(), ops, func(_ context.Context, i int, _ *client.Lease) (client.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				runs[i]++
				return numbered(i), nil
			}) {
				if r.Err != nil || string(r.Response.Body) != strconv.Itoa(i) {
					t.Errorf("message %d: %+v", i, r)
				}
			}
		})
	}
	consumers.Wait()
	for i := range ops {
		if runs[i] != 1 {
			t.Errorf("message %d ran %d times", i, runs[i])
		}
	}
}

// TestAConsumerThatStopsGivesBackWhatItHasNotRun ends the context, and panics,
// in the middle of a batch.
func TestAConsumerThatStopsGivesBackWhatItHasNotRun(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for name, stop := range map[string]func(cancel func()){
		"its context ends": func(cancel func()) { cancel() },
		"it panics":        func(func()) { panic("halfway") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, w)
			ops := messages(10)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ids := make([]client.RecordID, len(ops))
			func() {
				defer func() { _ = recover() }()
				results := c.Batch(ctx, ops, func(_ context.Context, i int, lease *client.Lease) (client.Response, error) {
					ids[i] = lease.ID
					if i == 4 {
						stop(cancel)
					}
					return numbered(i), nil
				})
				for i, r := range results {
					if i > 4 != errors.Is(r.Err, context.Canceled) {
						t.Errorf("message %d: %v", i, r.Err)
					}
				}
			}()
			other := newClient(t, w)
			begun, err := other.BeginBatch(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range begun {
				_, done := r.Outcome.(*client.Replay)
				acquired, free := r.Outcome.(*client.Acquired)
				switch {
				case i < 4 && !done, i > 4 && (!free || acquired.TakenOver):
					t.Errorf("message %d: %T, %v", i, r.Outcome, r.Err)
				case i == 4 && name == "it panics":
					wantCode(t, r.Err, client.ErrOutcomeUnknown)
				}
			}
		})
	}
}

// TestABatchThatIsTooLargeForOneCallIsSentInSeveral sends more than the service
// takes at once, in entries and in bytes.
func TestABatchThatIsTooLargeForOneCallIsSentInSeveral(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for name, ops := range map[string][]client.Operation{"entries": messages(501), "bytes": messages(24)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "bytes" { // six bytes of JSON for one
				for i := range ops {
					ops[i].Request.Body = []byte(strings.Repeat("\x01", 200_000))
				}
			}
			for i, r := range newClient(t, w).Batch(t.Context(), ops, func(_ context.Context, i int, _ *client.Lease) (client.Response, error) {
				return numbered(i), nil
			}) {
				if r.Err != nil || string(r.Response.Body) != strconv.Itoa(i) {
					t.Fatalf("message %d: %+v", i, r)
				}
			}
		})
	}
}

// TestABatchWhoseAnswersAreLostIsRunOnce loses the answer to the batch of begins
// and to that of completions.
func TestABatchWhoseAnswersAreLostIsRunOnce(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network))
	var mu sync.Mutex
	lost := make(map[string]bool)
	network.cut(func(r *http.Request) fault {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPost && !lost[r.URL.Path] {
			lost[r.URL.Path] = true
			return answerLost
		}
		return passes
	})
	runs := 0
	for i, r := range c.Batch(t.Context(), messages(20), func(_ context.Context, i int, lease *client.Lease) (client.Response, error) {
		runs++
		if lease.Attempt != 1 {
			t.Errorf("message %d: attempt %d", i, lease.Attempt)
		}
		return numbered(i), nil
	}) {
		if r.Err != nil || !r.Stored {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	if runs != 20 || !lost["/v1/keys/batch"] || !lost["/v1/responses/batch"] {
		t.Errorf("%d runs, lost %v", runs, lost)
	}
}
