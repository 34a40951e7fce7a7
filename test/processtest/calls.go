//go:build unix

package processtest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"github.com/onceward/onceward/internal/api/apitest"
)

// The calls of tests that make many at a time, from beside the goroutine of the
// test: nothing here ends the test.

// AtOnce runs n functions that all start at the same moment, and returns when
// all have ended.
func AtOnce(n int, run func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			run(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// Begin sends a begin.
func Begin(ctx context.Context, c *apitest.Client, body any, headers ...string) (*apitest.Answer, error) {
	return c.Try(ctx, http.MethodPost, "/v1/keys", body, headers...)
}

// Acquire sends a begin whose answer must be an acquisition; the error says
// what else it was.
func Acquire(ctx context.Context, c *apitest.Client, body any) (apitest.Acquired, error) {
	a, err := Begin(ctx, c, body)
	if err != nil || a.Status != http.StatusCreated {
		return apitest.Acquired{}, fmt.Errorf("begin: %s, want 201", Say(a, err))
	}
	return Decode[apitest.Acquired](a)
}

// Complete sends a completion.
func Complete(ctx context.Context, c *apitest.Client, held apitest.Acquired, body any, headers ...string) (*apitest.Answer, error) {
	return c.Try(ctx, http.MethodPut, "/v1/keys/"+held.ID+"/response", body, append(headers, Lease(held))...)
}

// Expecting is a header with which a process says that it reads the body, which
// Arriving counts: the call is then under way there.
const Expecting = "Expect: 100-continue"

// Arriving is a context for calls with the header Expecting.
func Arriving(ctx context.Context, arrived *atomic.Int64) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got100Continue: func() { arrived.Add(1) }})
}

// Release sends a release.
func Release(ctx context.Context, c *apitest.Client, held apitest.Acquired) (*apitest.Answer, error) {
	return c.Try(ctx, http.MethodDelete, "/v1/keys/"+held.ID+"/lease", nil, Lease(held))
}

// Decode reads the body of an answer.
func Decode[T any](a *apitest.Answer) (body T, err error) {
	if err := json.Unmarshal(a.Body, &body); err != nil {
		return body, fmt.Errorf("read the answer: %w: %.1000s", err, a.Body)
	}
	return body, nil
}

// Lease is the header that proves the lease.
func Lease(held apitest.Acquired) string { return "Onceward-Lease: " + held.Lease.Token }

// Charging is a begin that differs from apitest.Charge in the body of its
// request.
func Charging(key, body string) apitest.Object {
	charge := apitest.Charge(key)
	request, _ := charge["request"].(apitest.Object)
	return charge.With(apitest.Object{"request": request.With(apitest.Object{"body": body})})
}

// Done is a response to be stored, with that body.
func Done(body string) apitest.Object {
	return apitest.Object{"status": 201, "headers": [][2]string{{"Content-Type", "text/plain"}, {"X-Order", "first"}, {"X-Order", "second"}}, "body": body}
}

// IsDone says what differs between a replay and what was stored with Done;
// nil where nothing does.
func IsDone(a *apitest.Answer, body string) error {
	if a.Status != http.StatusOK {
		return fmt.Errorf("%s, want the replay", Say(a, nil))
	}
	replay, err := Decode[apitest.Replay](a)
	if err != nil {
		return err
	}
	got := replay.Response
	if replay.Outcome != "replay" || got.Status != http.StatusCreated || string(got.Bytes()) != body ||
		fmt.Sprint(got.Headers) != fmt.Sprint(Done(body)["headers"]) {
		return fmt.Errorf("replayed %.1000s, want what was stored, with the body %q", a.Body, body)
	}
	return nil
}

// Say shows what came of a call.
func Say(a *apitest.Answer, err error) string {
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %.1000s", a.Status, a.Body)
}
