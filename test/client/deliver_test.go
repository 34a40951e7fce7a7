package client_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// storing are the requests that say how an operation ended.
func storing(r *http.Request) bool {
	return r.Method == http.MethodPut || r.Method == http.MethodDelete || strings.HasSuffix(r.URL.Path, "/unknown")
}

// TestAResponseThatCannotBeStoredIsStoredLater cuts the network between the
// work and its completion: the caller gets the real answer, and the record gets
// it as soon as it can be reached.
func TestAResponseThatCannotBeStoredIsStoredLater(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for name, cut := range map[string]fault{"the completion never comes": neverComes, "its answer is lost": answerLost} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network, logs := newWire(t), new(logbook)
			c := newClient(t, w, over(network), storingWithin(50*time.Millisecond), logging(logs))
			network.cut(func(r *http.Request) fault {
				if storing(r) {
					return cut
				}
				return passes
			})
			op := charge(newKey())
			result, err := c.Do(t.Context(), op, (&charging{}).do)
			if err != nil || result.Stored || result.Response.Status != 201 {
				t.Fatalf("%+v, %v; want the real answer, not known to be stored", result, err)
			}
			if len(logs.said("told so yet")) != 1 {
				t.Errorf("it is not logged once: %s", logs.text())
			}
			network.heal()
			eventually(t, "it is stored", func() bool { return inspect(t, c, result.ID).State == client.StateCompleted })
			if replay := replayOf(t, c, op); string(replay.Response.Body) != string(created().Body) || replay.Attempt != 1 {
				t.Errorf("replay %+v", replay)
			}
		})
	}
}

// TestALeaseIsKeptAliveUntilTheResponseIsStored lets everything through but the
// completion, for far longer than the lease: no other attempt can run what is
// done.
func TestALeaseIsKeptAliveUntilTheResponseIsStored(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network, clock := newWire(t), newManualClock()
	c := newClient(t, w, over(network), onClock(clock))
	network.cut(func(r *http.Request) fault {
		if r.Method == http.MethodPut {
			return neverComes
		}
		return passes
	})
	op := charge(newKey())
	op.Lease = 30 * time.Second
	ended := make(chan client.Result, 1)
	go func() {
		result, _ := c.Do(context.WithoutCancel(t.Context()), op, (&charging{}).do)
		ended <- result
	}()
	var result client.Result
	for passed := time.Duration(0); passed < 2*time.Minute; passed += 2 * time.Second {
		clock.waitForTimer(t, 5*time.Second)
		clock.advance(2 * time.Second)
		select {
		case result = <-ended:
		default:
		}
		if result.ID != "" {
			w.Advance(t, string(result.ID), 2*time.Second)
		}
	}
	if n := len(network.requests(http.MethodPatch, "/lease")); n < 10 {
		t.Errorf("%d renewals in two minutes of a lease of 30 s, want about one each 10 s", n)
	}
	if record := inspect(t, newClient(t, w), result.ID); record.State != client.StateInProgress || record.Attempt != 1 {
		t.Errorf("the record is %s, attempt %d; want it still held", record.State, record.Attempt)
	}
	network.heal()
	eventually(t, "it is stored", func() bool {
		clock.advance(5 * time.Second)
		return inspect(t, newClient(t, w), result.ID).State == client.StateCompleted
	})
}

// TestAnUnknownOutcomeIsDeclaredAsSoonAsItCan is the same for the other ways to
// end: a key that was not freed must not be taken over instead.
func TestAnUnknownOutcomeIsDeclaredAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network), storingWithin(50*time.Millisecond))
	network.cut(func(r *http.Request) fault {
		if storing(r) {
			return neverComes
		}
		return passes
	})
	result, err := c.Do(t.Context(), charge(newKey()), func(context.Context, *client.Lease) (client.Response, error) {
		return client.Response{}, errProvider
	})
	wantCode(t, err, client.ErrOutcomeUnknown)
	network.heal()
	eventually(t, "the record is unknown", func() bool { return inspect(t, c, result.ID).State == client.StateUnknown })
}

// TestWhatCannotBeStoredAsItIsIsKnownToBeDone sends responses that the service
// refuses for themselves: the record is completed all the same, with less.
func TestWhatCannotBeStoredAsItIsIsKnownToBeDone(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BodyLimit(100))
	c := newClient(t, w)
	for name, tc := range map[string]struct {
		response client.Response
		status   int
		headers  int
	}{
		"a body over the limit":     {client.Response{Status: 201, Headers: []client.Header{{Name: "X-A", Value: "1"}}, Body: make([]byte, 101)}, 201, 1},
		"a body over every limit":   {client.Response{Status: 201, Body: make([]byte, 1<<20)}, 201, 0},
		"a status that is none":     {client.Response{Status: 799, Body: []byte("?")}, 599, 0},
		"a reference with controls": {client.Response{Status: 200, BodyOmitted: true, BodyRef: "s3://\x7f"}, 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := charge(newKey())
			result, err := c.Do(t.Context(), op, func(context.Context, *client.Lease) (client.Response, error) { return tc.response, nil })
			if err != nil || !result.Stored {
				t.Fatalf("%+v, %v", result, err)
			}
			replay := replayOf(t, c, op).Response
			if replay.Status != tc.status || !replay.BodyOmitted || len(replay.Headers) != tc.headers {
				t.Errorf("replay %+v, want status %d, %d headers, no body", replay, tc.status, tc.headers)
			}
		})
	}
}

// TestCloseSaysWhatItGaveUp ends the process while the service is away.
func TestCloseSaysWhatItGaveUp(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network, logs := newWire(t), new(logbook)
	c, err := client.New(client.Config{
		BaseURL: w.URL, APIKey: w.Tenant.Service, HTTP: network, StoreTimeout: time.Millisecond, Logger: slog.New(logs.handler()),
	})
	if err != nil {
		t.Fatal(err)
	}
	op := charge(newKey())
	result, err := c.Do(t.Context(), op, func(context.Context, *client.Lease) (client.Response, error) {
		network.cut(func(*http.Request) fault { return neverComes })
		return created(), nil
	})
	if err != nil || result.Stored {
		t.Fatalf("%+v, %v", result, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(over); err == nil {
		t.Error("Close returned no error")
	}
	given := logs.said("given up at shutdown")
	if len(given) != 1 || given[0]["id"] != string(result.ID) || given[0]["status"] != 201.0 {
		t.Errorf("logged %v, want the id %s and the status 201", given, result.ID)
	}
	_, err = c.Begin(t.Context(), op)
	wantCode(t, err, client.ErrClosed)
}

func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network, logs := newWire(t), new(logbook)
	c := newClient(t, w, over(network), storingWithin(50*time.Millisecond), logging(logs))
	network.cut(func(r *http.Request) fault {
		if storing(r) {
			return answerLost
		}
		return passes
	})
	op := charge("secret-key-4242")
	op.Request.Body = []byte(`"payload-4242"`)
	var token string
	result, err := c.Do(t.Context(), op, func(context.Context, *client.Lease) (client.Response, error) {
		return client.Response{Status: 200, Body: []byte("answer-4242")}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the completion is tried", func() bool {
		tried := network.requests(http.MethodPut, "/response")
		if len(tried) > 0 {
			token = tried[0].header.Get("Onceward-Lease")
		}
		return token != ""
	})
	network.heal()
	eventually(t, "it is stored", func() bool { return inspect(t, c, result.ID).State == client.StateCompleted })
	replayOf(t, c, op)
	op.Request.Body = []byte("other")
	_, err = c.Begin(t.Context(), op)
	wantCode(t, err, client.ErrMismatch)

	text := logs.text()
	for _, secret := range []string{op.Key, "4242", token, w.Tenant.Service} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in the log:\n%s", secret, text)
		}
	}
	replays, conflicts := logs.said("idempotency.replay"), logs.said("idempotency.conflict")
	if len(replays) != 1 || replays[0]["key_prefix"] != "secr" || replays[0]["original_status"] != 200.0 || replays[0]["age"] == nil {
		t.Errorf("replays %v", replays)
	}
	if len(conflicts) != 1 || conflicts[0]["key_prefix"] != "secr" || conflicts[0]["code"] != "fingerprint_mismatch" {
		t.Errorf("conflicts %v", conflicts)
	}
}
