package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/tenants"
)

func TestARetryGetsTheStoredResponseByteForByte(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	for _, tc := range []struct {
		name     string
		response client.Response
	}{
		{"text", created()},
		{"an empty body", client.Response{Status: 204}},
		{"every byte there is", client.Response{Status: 200, Body: everyByte()}},
		{"text that JSON must escape", client.Response{Status: 200, Body: []byte("\"\\\x00\x1f\u2028é\r\n\r\n</script>")}},
		{"headers in order, repeated, in their letter case", client.Response{Status: 202, Headers: []client.Header{
			{Name: "x-b", Value: "2"}, {Name: "X-A", Value: "1"}, {Name: "x-b", Value: ""}, {Name: "Link", Value: "<a>; rel=\"b\", é"},
		}}},
		{"a body that was not kept", client.Response{Status: 200, BodyOmitted: true, BodyRef: "s3://bucket/key"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			op := charge(newKey())
			acquired := acquire(t, c, op)
			completion, err := c.Complete(t.Context(), acquired.Held(), tc.response)
			if err != nil {
				t.Fatal(err)
			}
			if completion.Released || completion.StoredHeaders != len(tc.response.Headers) {
				t.Errorf("completion %+v, want all %d headers stored", completion, len(tc.response.Headers))
			}
			replay := replayOf(t, c, op)
			if diff := cmp.Diff(tc.response, replay.Response, equateEmptyBytes()); diff != "" {
				t.Errorf("the replay is another response (-stored +replayed):\n%s", diff)
			}
			if replay.ID != acquired.ID || replay.Attempt != 1 || !replay.FingerprintMatched || replay.Age <= 0 || replay.CompletedAt.Before(replay.CreatedAt) {
				t.Errorf("replay %+v of record %s", replay, acquired.ID)
			}
		})
	}
}

func equateEmptyBytes() cmp.Option {
	return cmp.FilterValues(func(a, b []byte) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())
}

func everyByte() []byte {
	body := make([]byte, 256)
	for i := range body {
		body[i] = byte(i)
	}
	return body
}

// TestALostAnswerDoesNotCostTheLease cuts off the answer to a begin that the
// service has done: the retry carries the same owner and gets the same lease.
func TestALostAnswerDoesNotCostTheLease(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network))
	lose := true
	network.cut(func(*http.Request) fault {
		if lose {
			lose = false
			return answerLost
		}
		return passes
	})

	op := charge(newKey())
	op.Hold = true // where a lost lease would end in unknown
	acquired := acquire(t, c, op)
	if acquired.Attempt != 1 || !acquired.Resumed {
		t.Errorf("attempt %d, resumed %v; want the first attempt, resumed", acquired.Attempt, acquired.Resumed)
	}
	begins := network.requests(http.MethodPost, "/v1/keys")
	if len(begins) != 2 || begins[0].body != begins[1].body {
		t.Errorf("%d begins, want 2 with the same body, and so the same owner", len(begins))
	}
	if _, err := c.Complete(t.Context(), acquired.Held(), created()); err != nil {
		t.Error(err)
	}
}

func TestEveryBeginHasAnOwnerOfItsOwn(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network))
	op := charge(newKey())
	acquire(t, c, op)
	// The same process, the same key, at once: with the same owner it would be
	// handed the running attempt's lease.
	_, err := c.Begin(t.Context(), op)
	wantCode(t, err, client.ErrInProgress)
}

// TestACallerThatGoesAwayLeavesNoLeaseBehind cancels a begin whose answer is
// lost: what it acquired is given back, so that the next begin need not wait
// for a lease that nobody holds.
func TestACallerThatGoesAwayLeavesNoLeaseBehind(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network))
	ctx, leave := context.WithCancel(t.Context())
	network.cut(func(r *http.Request) fault {
		if ctx.Err() == nil {
			leave() // the service does it all the same
			return answerLost
		}
		return passes
	})
	op := charge(newKey())
	if _, err := c.Begin(ctx, op); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want context.Canceled", err)
	}
	eventually(t, "the lease was given back", func() bool {
		releases := network.requests(http.MethodDelete, "/lease")
		return len(releases) == 1 && releases[0].status == http.StatusNoContent
	})
	if acquired := acquire(t, newClient(t, w), op); acquired.TakenOver {
		t.Error("the next begin had to take the record over")
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network))
	op := charge(newKey())
	acquired := acquire(t, c, op)

	// The second comes while the first is at work, and waits for its response.
	type ended struct {
		outcome client.Outcome
		err     error
	}
	second := make(chan ended, 1)
	go func() {
		waiting := op
		waiting.Wait = 25 * time.Second
		outcome, err := c.Begin(context.WithoutCancel(t.Context()), waiting)
		second <- ended{outcome, err}
	}()
	eventually(t, "the second is on its way", func() bool { return network.started("Prefer") == 1 })

	// The third has another payload, and fails at once although it would wait.
	other := charge(op.Key)
	other.Request.Body = []byte(`{"amount":1}`)
	other.Wait = 25 * time.Second
	before := len(network.requests(http.MethodPost, "/v1/keys"))
	_, err := c.Begin(t.Context(), other)
	wantCode(t, err, client.ErrMismatch)
	if e, _ := errors.AsType[*client.Error](err); !cmp.Equal(e.Differs, []string{"body"}) || e.RetryAfter != 0 {
		t.Errorf("the mismatch differs in %v, Retry-After %v; want body, and none", e.Differs, e.RetryAfter)
	}
	if n := len(network.requests(http.MethodPost, "/v1/keys")) - before; n != 1 {
		t.Errorf("the mismatch took %d requests, want 1", n)
	}

	if _, err := c.Complete(t.Context(), acquired.Held(), created()); err != nil {
		t.Fatal(err)
	}
	got := <-second
	if replay, ok := got.outcome.(*client.Replay); !ok || string(replay.Response.Body) != string(created().Body) {
		t.Errorf("the second got %#v, %v; want the first one's response", got.outcome, got.err)
	}
	if n := len(network.requests(http.MethodPost, "/v1/keys")); n != 3 {
		t.Errorf("%d begins in all, want 3: who waits does not ask again and again", n)
	}
}

// TestWhoCannotWaitAtTheServiceWaitsAsTold leaves the service no room for
// waiters: its Retry-After is then kept to by the client's own clock.
func TestWhoCannotWaitAtTheServiceWaitsAsTold(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	clock := newManualClock()
	c := newClient(t, w, over(dropsPrefer{network}), onClock(clock))
	op := charge(newKey())
	acquired := acquire(t, c, op)
	done := make(chan error, 1)
	go func() {
		waiting := op
		waiting.Wait = 20 * time.Second
		outcome, err := c.Begin(context.WithoutCancel(t.Context()), waiting)
		if _, ok := outcome.(*client.Replay); err == nil && !ok {
			err = errors.New("it was not a replay")
		}
		done <- err
	}()
	clock.waitForTimer(t, 20*time.Second)
	if n := len(network.requests(http.MethodPost, "/v1/keys")); n != 2 {
		t.Fatalf("%d begins before Retry-After has passed, want 2", n)
	}
	if _, err := c.Complete(t.Context(), acquired.Held(), created()); err != nil {
		t.Fatal(err)
	}
	clock.advance(20 * time.Second)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := len(network.requests(http.MethodPost, "/v1/keys")); n != 3 {
		t.Errorf("%d begins, want 3", n)
	}
}

// dropsPrefer is a proxy that does not know the header.
type dropsPrefer struct{ http.RoundTripper }

func (d dropsPrefer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Del("Prefer")
	return d.RoundTripper.RoundTrip(r)
}

// TestALeaseOf30SecondsIs30SecondsLong holds the units against each other
// (B099).
func TestALeaseOf30SecondsIs30SecondsLong(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	network := newWire(t)
	c := newClient(t, w, over(network))
	op := charge(newKey())
	op.Lease = 30 * time.Second
	acquired := acquire(t, c, op)
	if got := acquired.Lease.ExpiresAt.Sub(acquired.CreatedAt); got != 30*time.Second {
		t.Errorf("the lease is %v long, want 30s", got)
	}
	w.Advance(t, string(acquired.ID), 15*time.Second)
	_, err := c.Begin(t.Context(), op)
	wantCode(t, err, client.ErrInProgress)
	w.Advance(t, string(acquired.ID), 16*time.Second)
	if next := acquire(t, c, op); !next.TakenOver || next.Attempt != 2 || next.Lease.Fence <= acquired.Lease.Fence {
		t.Errorf("at 31 s: %+v, want a takeover with a greater fence", next)
	}
}

func TestADurationThatIsNoWholeNumberOfSecondsIsRefusedAndNotRounded(t *testing.T) {
	t.Parallel()
	c := newClient(t, apitest.New(t))
	op := charge(newKey())
	op.Lease = 1500 * time.Millisecond
	_, err := c.Begin(t.Context(), op)
	wantCode(t, err, client.ErrInvalidRequest)
}

// TestKeys sends keys of every length and kind (B061). A key is never made up:
// no record exists afterwards that was not asked for.
func TestKeys(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	for _, tc := range []struct {
		name, key string
		want      client.Code
	}{
		{"none", "", client.ErrMissingKey},
		{"7 characters", "1234567", client.ErrInvalidKey},
		{"8 characters", "12345678", ""},
		{"255 characters", strings.Repeat("k", 255), ""},
		{"256 characters", strings.Repeat("k", 256), client.ErrInvalidKey},
		{"a letter that is not ASCII", "schlüssel", client.ErrInvalidKey},
		{"a control character", "12345678\x00", client.ErrInvalidKey},
		{"a line end", "12345678\n", client.ErrInvalidKey},
		{"a space inside", "1234 5678", ""},
		{"a space first", " 12345678", client.ErrInvalidKey},
		{"a space last", "12345678 ", client.ErrInvalidKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := c.Begin(t.Context(), charge(tc.key))
			if got := client.CodeOf(err); got != tc.want {
				t.Fatalf("error %v, want the code %q", err, string(tc.want))
			}
			if tc.want == "" {
				return
			}
			// What the client refuses the service refuses too, with the same code.
			raw := w.Client(w.Tenant.Service).Begin(t, apitest.Charge(tc.key).With(emptyKeyIsNone(tc.key)))
			raw.Problem(t, http.StatusBadRequest, string(tc.want))
		})
	}
}

func emptyKeyIsNone(key string) apitest.Object {
	if key == "" {
		return apitest.Object{"key": nil}
	}
	return apitest.Object{}
}

func TestTermsOfABegin(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	op := charge(newKey())
	op.Caller, op.Retention, op.Hold, op.Metadata = "cus_1", 2*time.Hour, true, map[string]string{"order": "42"}
	acquired := acquire(t, c, op)
	if acquired.Lease.OnLeaseExpiry != client.OnLeaseExpiryHold || !acquired.ExpiresAt.IsZero() {
		t.Errorf("%+v, want hold, and no expiry", acquired)
	}
	if _, err := c.Complete(t.Context(), acquired.Held(), created()); err != nil {
		t.Fatal(err)
	}
	record := inspect(t, c, acquired.ID)
	if got := record.ExpiresAt.Sub(record.CompletedAt); got != 2*time.Hour {
		t.Errorf("it is kept for %v, want 2h", got)
	}
	if record.Caller != "cus_1" || record.Operation != op.Name || record.Key != op.Key || record.Metadata["order"] != "42" || record.State != client.StateCompleted || record.Response == nil {
		t.Errorf("record %+v", record)
	}
	other := op
	other.Caller = "cus_2"
	if acquire(t, c, other).ID == acquired.ID {
		t.Error("two callers share a record")
	}
}

// TestALocalFingerprintIsTheServices begins by digest what was begun by
// request: the same record, and nothing differs.
func TestALocalFingerprintIsTheServices(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.SetPolicy(t, tenants.Override{Operation: "POST /v1/charges", IgnorePointers: &[]string{"/sent_at"}})
	c := newClient(t, w)
	contract, err := c.Contract(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(contract.Operations) != 1 || contract.Limits.BatchEntries != 500 || contract.Namespace.KeyScope != "operation" || contract.Defaults.LeaseSeconds != 60 {
		t.Fatalf("contract %+v", contract)
	}
	op := charge(newKey())
	op.Request.Body = []byte(`{"amount":4999, "sent_at":1}`)
	acquired := acquire(t, c, op)
	if _, err := c.Complete(t.Context(), acquired.Held(), created()); err != nil {
		t.Fatal(err)
	}
	again := charge(op.Key)
	again.Request.Body = []byte(`{"sent_at":2,"amount":4999.0}`)
	again.Fingerprint, again.Request = again.Request.Fingerprint(contract.Operations[0].IgnorePointers...), nil
	if !replayOf(t, c, again).FingerprintMatched {
		t.Error("the digests differ")
	}
}
