//go:build unix

package fault_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

// behindProxy is a world whose process finds its database behind a proxy.
func behindProxy(t *testing.T) (*processtest.World, *proxy, *processtest.API) {
	t.Helper()
	base := apitest.On(t, postgrestest.New(t))
	p := newProxy(t, base.Pool.Config().ConnString())
	w := processtest.On(t, base, p.url)
	return w, p, w.API(t)
}

// answer is what a call from beside the test came to.
type answer struct {
	a   *apitest.Answer
	err error
}

// beside makes a call from a goroutine of its own.
func beside(call func() (*apitest.Answer, error)) <-chan answer {
	came := make(chan answer, 1)
	go func() {
		a, err := call()
		came <- answer{a, err}
	}()
	return came
}

// A begin whose COMMIT is done while its acknowledgement is lost on the way is
// answered as the acquisition that it is, if the database can be reached again
// within two seconds; and else, when its caller repeats it with its owner.
func TestABeginWhoseCommitIsNotAcknowledgedKeepsItsLease(t *testing.T) {
	t.Parallel()
	for name, comesBack := range map[string]bool{"the database comes back at once": true, "the caller repeats": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, p, process := behindProxy(t)
			w.Expect(refused)
			c := process.Client(w.Tenant.Service)
			c.Begin(t, apitest.Charge(processtest.NewKey())).Acquired(t) // connections are up
			key := processtest.NewKey()
			begin := apitest.Charge(key).With(apitest.Object{"owner": processtest.NewOwner()})

			p.add(t, swallowAnswers)
			first := beside(func() (*apitest.Answer, error) { return processtest.Begin(t.Context(), c, begin) })
			processtest.Eventually(t, "the begin is committed", func() bool { return fenceOf(t, w, key) != 0 })
			p.cut()
			p.heal()
			if comesBack {
				p.mend(t, w.Pool.Config().ConnString())
			}
			got := <-first
			if got.err != nil {
				t.Fatal(got.err)
			}
			if !comesBack {
				if got.a.Problem(t, http.StatusServiceUnavailable, "unavailable"); got.a.Header.Get("Retry-After") == "" {
					t.Error("503 without Retry-After")
				}
				p.mend(t, w.Pool.Config().ConnString())
				got.a = untilAvailable(t, func() *apitest.Answer { return c.Begin(t, begin) })
			}
			held := got.a.Acquired(t)
			if held.Attempt != 1 || held.TakenOver || held.Lease.Fence != fenceOf(t, w, key) || !comesBack && !held.Resumed {
				t.Errorf("got %+v, want the lease that was committed, with the fence %d", held, fenceOf(t, w, key))
			}
			// Another attempt is not let in, and the lease is good.
			c.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")
			c.Complete(t, held, processtest.Done("done")).Completion(t)
		})
	}
}

// The same for a completion, a renewal and a release: the acknowledgement is
// lost, the call is repeated as it was, and answers as if it had been the first.
func TestACallOnALeaseWhoseCommitIsNotAcknowledgedCanBeRepeated(t *testing.T) {
	t.Parallel()
	w, p, process := behindProxy(t)
	w.Expect(refused)
	c := process.Client(w.Tenant.Service)
	for name, call := range map[string]struct {
		do    func(ctx context.Context, held apitest.Acquired) (*apitest.Answer, error)
		done  string // what the record is once it is committed
		right int
	}{
		"complete": {
			func(ctx context.Context, held apitest.Acquired) (*apitest.Answer, error) {
				return processtest.Complete(ctx, c, held, processtest.Done("done"))
			},
			`state = 3`, http.StatusOK,
		},
		"release": {
			func(ctx context.Context, held apitest.Acquired) (*apitest.Answer, error) {
				return processtest.Release(ctx, c, held)
			},
			`state = 2`, http.StatusNoContent,
		},
		"renew": {
			func(ctx context.Context, held apitest.Acquired) (*apitest.Answer, error) {
				return c.Try(ctx, http.MethodPatch, "/v1/keys/"+held.ID+"/lease", apitest.Object{"lease_seconds": 3000}, processtest.Lease(held))
			},
			`lease_expires_at > now() + interval '2000 s'`, http.StatusOK,
		},
		"unknown": {
			func(ctx context.Context, held apitest.Acquired) (*apitest.Answer, error) {
				return c.Try(ctx, http.MethodPost, "/v1/keys/"+held.ID+"/unknown", nil, processtest.Lease(held))
			},
			`state = 4`, http.StatusNoContent,
		},
		"recovery point": {
			func(ctx context.Context, held apitest.Acquired) (*apitest.Answer, error) {
				return c.Try(ctx, http.MethodPut, "/v1/keys/"+held.ID+"/recovery-point", `{"name":"charged","data":{"id":1}}`, processtest.Lease(held))
			},
			`recovery_name = 'charged'`, http.StatusNoContent,
		},
	} {
		key := processtest.NewKey()
		held := untilAvailable(t, func() *apitest.Answer { return c.Begin(t, apitest.Charge(key)) }).Acquired(t)
		// The same call on another record first: its connection is up.
		other := c.Begin(t, apitest.Charge(processtest.NewKey())).Acquired(t)
		if a := repeated(t, func() (*apitest.Answer, error) { return call.do(t.Context(), other) }); a.Status != call.right {
			t.Fatalf("%s: %s", name, processtest.Say(a, nil))
		}
		p.add(t, swallowAnswers)
		first := beside(func() (*apitest.Answer, error) { return call.do(t.Context(), held) })
		processtest.Eventually(t, name+" is committed", func() bool {
			var is bool
			err := w.Pool.QueryRow(t.Context(), `select exists (select from idempotency_keys where key = $1 and `+call.done+`)`, key).Scan(&is)
			return err == nil && is
		})
		p.cut()
		p.heal()
		if got := <-first; got.err != nil || got.a.Status != http.StatusServiceUnavailable {
			t.Errorf("%s: %s, want 503 while the database is away", name, processtest.Say(got.a, got.err))
		}
		p.mend(t, w.Pool.Config().ConnString())
		again := repeated(t, func() (*apitest.Answer, error) { return call.do(t.Context(), held) })
		if again.Status != call.right {
			t.Errorf("%s again: %s, want %d", name, processtest.Say(again, nil), call.right)
		}
	}
}

// A slow network makes the service slow and nothing else: every answer is
// right, and a connection that is cut while nothing is under way is made anew
// without anybody noticing.
func TestASlowNetworkChangesNoAnswer(t *testing.T) {
	t.Parallel()
	w, p, process := behindProxy(t)
	c := process.Client(w.Tenant.Service)
	p.add(t, `{"name": "slow", "type": "latency", "stream": "downstream", "attributes": {"latency": 40, "jitter": 30}}`)
	const workers, rounds = 8, 2
	processtest.AtOnce(workers, func(int) {
		c := process.Client(w.Tenant.Service)
		for range rounds {
			key := processtest.NewKey()
			held, err := processtest.Acquire(t.Context(), c, apitest.Charge(key))
			if err != nil {
				t.Error(err)
				return
			}
			if a, err := processtest.Begin(t.Context(), c, apitest.Charge(key)); err != nil || a.Status != http.StatusConflict {
				t.Errorf("begin again: %s, want 409", processtest.Say(a, err))
			}
			if a, err := processtest.Complete(t.Context(), c, held, processtest.Done(key)); err != nil || a.Status != http.StatusOK {
				t.Errorf("complete: %s", processtest.Say(a, err))
			}
			a, err := processtest.Begin(t.Context(), c, apitest.Charge(key))
			if err == nil {
				err = processtest.IsDone(a, key)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	p.heal()
	p.cut()
	p.mend(t, w.Pool.Config().ConnString())
	c.Begin(t, apitest.Charge(processtest.NewKey())).Acquired(t)
}

// untilAvailable repeats a call until it is not refused with 503.
func untilAvailable(t *testing.T, call func() *apitest.Answer) (a *apitest.Answer) {
	t.Helper()
	processtest.Eventually(t, "the service is available again", func() bool {
		a = call()
		return a.Status != http.StatusServiceUnavailable
	})
	return a
}

// repeated is untilAvailable for a call that must be answered.
func repeated(t *testing.T, call func() (*apitest.Answer, error)) *apitest.Answer {
	t.Helper()
	return untilAvailable(t, func() *apitest.Answer {
		a, err := call()
		if err != nil {
			t.Fatal(err)
		}
		return a
	})
}

// fenceOf is the fence of the record of the key, as the database has it; 0
// where there is none.
func fenceOf(t *testing.T, w *processtest.World, key string) (fence int64) {
	t.Helper()
	if err := w.Pool.QueryRow(t.Context(), `select coalesce(max(fence), 0) from idempotency_keys where key = $1`, key).Scan(&fence); err != nil {
		t.Fatal(err)
	}
	return fence
}
