package client_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

var errProvider = errors.New("the provider timed out")

// charging counts how often the operation ran.
type charging struct{ runs atomic.Int64 }

func (c *charging) do(context.Context, *client.Lease) (client.Response, error) {
	c.runs.Add(1)
	return created(), nil
}

func TestDoRunsOnceOverAllRetries(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	op := charge(newKey())
	var charged charging
	const callers = 20
	results := make(chan client.Result, callers)
	for range callers {
		go func() {
			result, err := c.Do(t.Context(), op, charged.do)
			if err != nil {
				t.Error(err)
			}
			results <- result
		}()
	}
	replays := 0
	for range callers {
		result := <-results
		if diff := cmp.Diff(created(), result.Response); diff != "" || !result.Stored || result.Attempt != 1 {
			t.Errorf("%+v (-want +got):\n%s", result, diff)
		}
		if result.Replay {
			replays++
		}
	}
	if charged.runs.Load() != 1 || replays != callers-1 {
		t.Errorf("it ran %d times and was replayed %d times, want 1 and %d", charged.runs.Load(), replays, callers-1)
	}
}

func TestWhatAFunctionReturnsDecidesWhatIsStored(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	declined := client.Response{Status: 402, Body: []byte("declined")}
	for _, tc := range []struct {
		name    string
		returns func() (client.Response, error)
		hold    bool
		state   client.State
		code    client.Code // of Do's error
		err     error       // found in Do's error
		stored  *client.Response
	}{
		{"a response", func() (client.Response, error) { return declined, nil }, false, client.StateCompleted, "", nil, &declined},
		{"a failure to be stored", func() (client.Response, error) {
			return client.Response{}, client.StoreFailure(declined, errProvider)
		}, false, client.StateCompleted, "", errProvider, &declined},
		{"an error that says that nothing happened", func() (client.Response, error) {
			return client.Response{}, client.NotDone(errProvider)
		}, false, client.StateOpen, "", errProvider, nil},
		{"an error, under takeover", func() (client.Response, error) {
			return client.Response{}, errProvider
		}, false, client.StateUnknown, client.ErrOutcomeUnknown, errProvider, nil},
		{"an error, under hold", func() (client.Response, error) {
			return client.Response{}, errProvider
		}, true, client.StateUnknown, client.ErrOutcomeUnknown, errProvider, nil},
		{"the error of the context", func() (client.Response, error) {
			return client.Response{}, context.DeadlineExceeded
		}, false, client.StateUnknown, client.ErrOutcomeUnknown, context.DeadlineExceeded, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			op := charge(newKey())
			op.Hold = tc.hold
			result, err := c.Do(t.Context(), op, func(context.Context, *client.Lease) (client.Response, error) { return tc.returns() })
			if !errors.Is(err, tc.err) || client.CodeOf(err) != tc.code {
				t.Errorf("error %v, want %v and the code %q", err, tc.err, string(tc.code))
			}
			record := inspect(t, c, result.ID)
			if record.State != tc.state {
				t.Errorf("the record is %s, want %s", record.State, tc.state)
			}
			if diff := cmp.Diff(tc.stored, record.Response, equateEmptyBytes()); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
			if tc.stored != nil {
				if diff := cmp.Diff(*tc.stored, result.Response, equateEmptyBytes()); diff != "" || !result.Stored {
					t.Errorf("result %+v (-want +got):\n%s", result, diff)
				}
			}
		})
	}
}

// TestWhatDoesNotReturnLeavesTheOutcomeUnknown panics in a function, and ends
// its goroutine: neither frees the key.
func TestWhatDoesNotReturnLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	for name, end := range map[string]func(){
		"a panic":        func() { panic("halfway") },
		"runtime.Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			op := charge(newKey())
			var id client.RecordID
			ended := make(chan any)
			go func() {
				defer func() { said := recover(); ended <- said }()
				_, _ = c.Do(t.Context(), op, func(_ context.Context, lease *client.Lease) (client.Response, error) {
					id = lease.ID
					end()
					return created(), nil
				})
			}()
			if said := <-ended; name == "a panic" && said != "halfway" {
				t.Errorf("the panic became %v", said)
			}
			if record := inspect(t, c, id); record.State != client.StateUnknown {
				t.Errorf("the record is %s, want unknown", record.State)
			}
			_, err := c.Do(t.Context(), op, (&charging{}).do)
			wantCode(t, err, client.ErrOutcomeUnknown)
		})
	}
}

func TestABrokenAttemptIsHandedOnlyToAFunctionThatCanGoOn(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	breakOff := func(op client.Operation) client.RecordID {
		first := acquire(t, c, op)
		if err := c.SetRecoveryPoint(t.Context(), first.Held(), "charged", map[string]string{"charge": "ch_1"}); err != nil {
			t.Fatal(err)
		}
		w.Advance(t, string(first.ID), longest)
		return first.ID
	}
	t.Run("not resumable", func(t *testing.T) {
		t.Parallel()
		op := charge(newKey())
		id := breakOff(op)
		var charged charging
		_, err := c.Do(t.Context(), op, charged.do)
		wantCode(t, err, client.ErrOutcomeUnknown)
		if charged.runs.Load() != 0 {
			t.Error("it ran")
		}
		if record := inspect(t, c, id); record.State != client.StateUnknown {
			t.Errorf("the record is %s, want unknown", record.State)
		}
	})
	t.Run("resumable", func(t *testing.T) {
		t.Parallel()
		op := charge(newKey())
		op.Resumable = true
		breakOff(op)
		result, err := c.Do(t.Context(), op, func(_ context.Context, lease *client.Lease) (client.Response, error) {
			if !lease.TakenOver || lease.Attempt != 2 || lease.RecoveryPoint == nil || string(lease.RecoveryPoint.Data) != `{"charge":"ch_1"}` {
				t.Errorf("lease %+v, want what the first attempt left", lease)
			}
			return created(), nil
		})
		if err != nil || result.Attempt != 2 || !result.Stored {
			t.Errorf("%+v, %v", result, err)
		}
	})
}

// TestTheLeaseIsRenewedAtAThirdOfItsLength runs an operation far longer than
// its lease, on a clock of its own, with the record moving with it.
func TestTheLeaseIsRenewedAtAThirdOfItsLength(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"asked for": 30 * time.Second, "the policy's": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := apitest.New(t)
			network, clock := newWire(t), newManualClock()
			c := newClient(t, w, over(network), onClock(clock))
			op := charge(newKey())
			op.Lease = lease
			length := lease
			if length == 0 {
				length = time.Minute
			}
			result, err := c.Do(t.Context(), op, func(ctx context.Context, l *client.Lease) (client.Response, error) {
				for n := 1; n <= 5; n++ {
					clock.waitForTimer(t, length/3)
					if renewals := len(network.requests(http.MethodPatch, "/lease")); renewals != n-1 {
						t.Errorf("%d renewals before third number %d", renewals, n)
					}
					w.Advance(t, string(l.ID), length/3)
					before := l.ExpiresAt()
					clock.advance(length / 3)
					eventually(t, "the lease was renewed", func() bool {
						return l.ExpiresAt().After(before.Add(-time.Second)) && len(network.requests(http.MethodPatch, "/lease")) == n
					})
				}
				return created(), ctx.Err()
			})
			if err != nil || result.Attempt != 1 || !result.Stored {
				t.Errorf("%+v, %v", result, err)
			}
			if lease != 0 && !strings.Contains(network.requests(http.MethodPatch, "/lease")[0].body, "30") {
				t.Error("the renewal does not ask for the same lease")
			}
		})
	}
}

func TestAFunctionWhoseLeaseIsLostIsToldSo(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	clock := newManualClock()
	c, other := newClient(t, w, onClock(clock)), newClient(t, w)
	op := charge(newKey())
	op.Lease = time.Minute

	result, err := c.Do(t.Context(), op, func(ctx context.Context, lease *client.Lease) (client.Response, error) {
		w.Advance(t, string(lease.ID), time.Minute)
		if next := acquire(t, other, op); !next.TakenOver {
			t.Errorf("%+v, want a takeover", next)
		}
		clock.waitForTimer(t, 20*time.Second)
		clock.advance(20 * time.Second)
		<-ctx.Done()
		wantCode(t, context.Cause(ctx), client.ErrLeaseLost)
		return created(), nil // it was done all the same
	})
	wantCode(t, err, client.ErrLeaseLost)
	if result.Response.Status != 201 || result.Stored {
		t.Errorf("%+v, want the response, not stored", result)
	}
	record, err := newClient(t, w, withKey(w.Tenant.Admin)).Inspect(t.Context(), result.ID, client.IncludeLate)
	if err != nil || len(record.Late) != 1 || record.State != client.StateInProgress {
		t.Errorf("%+v, %v; want it in progress, with one late completion", record, err)
	}
}

// TestALeaseThatCannotBeRenewedEndsTheWorkUnderTakeoverOnly cuts the network
// for longer than the lease. Under takeover another attempt may run from then
// on; under hold none can, and to stop halfway would help nobody.
func TestALeaseThatCannotBeRenewedEndsTheWorkUnderTakeoverOnly(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	for _, hold := range []bool{false, true} {
		name := "takeover"
		if hold {
			name = "hold"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network, clock := newWire(t), newManualClock()
			c := newClient(t, w, over(network), onClock(clock))
			op := charge(newKey())
			op.Hold, op.Lease = hold, time.Minute
			result, err := c.Do(t.Context(), op, func(ctx context.Context, lease *client.Lease) (client.Response, error) {
				network.cut(func(r *http.Request) fault {
					if r.Method == http.MethodPatch {
						return neverComes
					}
					return passes
				})
				for passed := time.Duration(0); passed < 70*time.Second && ctx.Err() == nil; passed += 5 * time.Second {
					eventually(t, "the keeper waits on the clock, or has given up", func() bool { return ctx.Err() != nil || clock.hasTimer(25*time.Second) })
					clock.advance(5 * time.Second)
				}
				if !hold {
					<-ctx.Done()
					wantCode(t, context.Cause(ctx), client.ErrLeaseLost)
				}
				w.Advance(t, string(lease.ID), 70*time.Second)
				return created(), context.Cause(ctx)
			})
			if hold && (err != nil || !result.Stored) {
				t.Errorf("%+v, %v; want it done and stored", result, err)
			}
			if !hold {
				wantCode(t, err, client.ErrOutcomeUnknown) // it said neither that it did nor that it did not
			}
		})
	}
}

func TestACallerThatIsGoneBeforeTheStartRunsNothing(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	var charged charging
	op := charge(newKey())
	if _, err := c.Do(ctx, op, charged.do); !errors.Is(err, context.Canceled) || charged.runs.Load() != 0 {
		t.Errorf("error %v, %d runs", err, charged.runs.Load())
	}
	acquire(t, c, op) // the key is free
}
