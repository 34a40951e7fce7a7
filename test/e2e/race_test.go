//go:build unix

package e2e_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// B001: of fifty begins of one key that two processes get at the same instant
// exactly one acquires, and every other is told when to ask again.
func TestOneOfFiftyBeginsAtTwoProcessesAcquires(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	const callers, rounds = 50, 60
	callersOf := clients(w.APIs(t, 2), w.Tenant.Service, callers)
	for round := range rounds {
		key := processtest.NewKey()
		var acquired, told atomic.Int32
		processtest.AtOnce(callers, func(i int) {
			a, err := processtest.Begin(t.Context(), callersOf[i], apitest.Charge(key))
			switch {
			case err == nil && a.Status == http.StatusCreated:
				acquired.Add(1)
			case err == nil && a.Status == http.StatusConflict && a.Header.Get("Retry-After") != "":
				told.Add(1)
			default:
				t.Errorf("round %d: %s", round, processtest.Say(a, err))
			}
		})
		if acquired.Load() != 1 || told.Load() != callers-1 {
			t.Fatalf("round %d: %d acquired and %d told to wait, want 1 and %d", round, acquired.Load(), told.Load(), callers-1)
		}
	}
}

// B017: what one process has answered 200 to is a replay on the other, at once
// and to the byte.
func TestACompletionAtOneProcessIsAReplayAtTheOther(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	processes := w.APIs(t, 2)
	const workers, rounds = 8, 60
	processtest.AtOnce(workers, func(worker int) {
		here, there := processes[worker%2].Client(w.Tenant.Service), processes[(worker+1)%2].Client(w.Tenant.Service)
		for round := range rounds {
			key := processtest.NewKey()
			body := fmt.Sprintf("the response of %s, round %d", key, round)
			held, err := processtest.Acquire(t.Context(), here, apitest.Charge(key))
			if err != nil {
				t.Error(err)
				return
			}
			a, err := processtest.Complete(t.Context(), here, held, processtest.Done(body))
			if err != nil || a.Status != http.StatusOK {
				t.Errorf("complete: %s", processtest.Say(a, err))
				return
			}
			a, err = processtest.Begin(t.Context(), there, apitest.Charge(key))
			if err == nil {
				err = processtest.IsDone(a, body)
			}
			if err != nil {
				t.Errorf("begin at the other process: %v", err)
				return
			}
		}
	})
}

// B029: however fast a key is released, and its record deleted as pruning would
// do it, two processes only ever answer acquired or in progress, and never two
// owners at a time.
func TestBeginsAgainstReleasesAndDeletionsAtTwoProcesses(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	const workers, rounds = 20, 25
	callersOf := clients(w.APIs(t, 2), w.Tenant.Service, workers)
	key := processtest.NewKey()

	deleting, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-deleting:
				return
			default:
			}
			if _, err := w.Pool.Exec(t.Context(), `delete from idempotency_keys where state = 2`); err != nil {
				t.Errorf("delete what is open: %v", err)
				return
			}
		}
	}()
	var owners, acquisitions atomic.Int32
	processtest.AtOnce(workers, func(i int) {
		for range rounds {
			a, err := processtest.Begin(t.Context(), callersOf[i], apitest.Charge(key))
			if err != nil || a.Status != http.StatusCreated && a.Status != http.StatusConflict {
				t.Errorf("begin: %s", processtest.Say(a, err))
				return
			}
			if a.Status == http.StatusConflict {
				continue
			}
			held, err := processtest.Decode[apitest.Acquired](a)
			if err != nil {
				t.Error(err)
				return
			}
			acquisitions.Add(1)
			if n := owners.Add(1); n != 1 {
				t.Errorf("%d owners at a time", n)
			}
			owners.Add(-1)
			a, err = processtest.Release(t.Context(), callersOf[i], held)
			// The record may have been deleted, and begun anew by another, only
			// once it was open: never while this one holds it.
			if err != nil || a.Status != http.StatusNoContent {
				t.Errorf("release: %s", processtest.Say(a, err))
			}
		}
	})
	close(deleting)
	<-stopped
	if acquisitions.Load() < workers {
		t.Errorf("only %d acquisitions: the race was none", acquisitions.Load())
	}
}

// B035: a client that dies keeps its key for as long as its lease, not for as
// long as the record. The only test here that waits in real time, for the
// lease of a second.
func TestAKeyIsFreeAgainWhenTheLeaseOfADeadClientEnds(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	processes := w.APIs(t, 2)
	key := processtest.NewKey()
	dead := processes[0].Client(w.Tenant.Service).Begin(t, apitest.Charge(key).With(apitest.Object{"lease_seconds": 1, "retention_seconds": 86400})).Acquired(t)
	processes[0].Kill(t)

	c := processes[1].Client(w.Tenant.Service)
	var a *apitest.Answer
	processtest.Eventually(t, "the key can be acquired again", func() bool {
		asked := time.Now() // the database's clock is this machine's
		if a = c.Begin(t, apitest.Charge(key)); a.Status != http.StatusConflict {
			return true
		}
		if a.Problem(t, http.StatusConflict, "in_progress"); asked.After(dead.Lease.ExpiresAt) {
			t.Errorf("in progress still, %s after the lease", asked.Sub(dead.Lease.ExpiresAt))
		}
		return false
	})
	second := a.Acquired(t)
	if second.Attempt != 2 || !second.TakenOver || second.Lease.Fence <= dead.Lease.Fence {
		t.Errorf("got %+v, want attempt 2, taken over, with a higher fence than %d", second, dead.Lease.Fence)
	}
	if acquired := second.Lease.ExpiresAt.Add(-time.Minute); acquired.Before(dead.Lease.ExpiresAt) {
		t.Errorf("taken over at %s, before the lease ended at %s", acquired, dead.Lease.ExpiresAt)
	}
}
