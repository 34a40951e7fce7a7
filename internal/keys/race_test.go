package keys

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

// processes are n Services with a pool each, as n API processes have, on the
// database of h.
func (h *house) processes(n int) []*Service {
	h.t.Helper()
	services := make([]*Service, n)
	for i := range services {
		pool, err := postgres.Open(h.t.Context(), postgres.Config{URL: h.pool.Config().ConnString(), MaxConns: 4})
		if err != nil {
			h.t.Fatal(err)
		}
		h.t.Cleanup(pool.Close)
		services[i] = h.process(pool)
	}
	return services
}

// B001: of any number of begins at the same instant exactly one acquires.
func TestOneOfManyBeginsAcquires(t *testing.T) {
	t.Parallel()
	h := setup(t)
	services := h.processes(2)
	const callers, rounds = 50, 40
	for round := range rounds {
		req := charge()
		var acquired, busy atomic.Int32
		atOnce(callers, func(i int) {
			outcome, err := services[i%2].Begin(background(t), h.caller, anew(req))
			switch o := outcome.(type) {
			case Acquired:
				acquired.Add(1)
			case InProgress:
				if busy.Add(1); o.RetryAfter < time.Second {
					t.Errorf("no hint: %+v", o)
				}
			default:
				t.Errorf("round %d: %v %v", round, outcome, err)
			}
		})
		if acquired.Load() != 1 || busy.Load() != callers-1 {
			t.Fatalf("round %d: %d acquired, %d in progress", round, acquired.Load(), busy.Load())
		}
	}
}

func TestOneOfManyTakesOver(t *testing.T) {
	t.Parallel()
	h := setup(t)
	services := h.processes(2)
	req := charge()
	last := h.acquire(h.caller, req)
	for round := range 20 {
		h.pass(61 * time.Second)
		var mu sync.Mutex
		var takers []Acquired
		atOnce(20, func(i int) {
			outcome, err := services[i%2].Begin(background(t), h.caller, anew(req))
			if err != nil {
				t.Error(err)
			}
			if a, ok := outcome.(Acquired); ok {
				mu.Lock()
				defer mu.Unlock()
				takers = append(takers, a)
			}
		})
		if len(takers) != 1 || !takers[0].TakenOver || takers[0].Attempt != round+2 || takers[0].Lease.Fence <= last.Lease.Fence {
			t.Fatalf("round %d: %+v after %+v", round, takers, last)
		}
		last = takers[0]
	}
	if history := h.inspect(last).History; len(history) != historyLength || history[historyLength-1].Attempt != 21 || history[0].Attempt != 2 {
		t.Errorf("the history has %d attempts, from %d on", len(history), history[0].Attempt)
	}
}

func TestAStaleTokenLosesAgainstTheTakeover(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for range 20 {
		req := charge()
		former := h.acquire(h.caller, req)
		h.pass(61 * time.Second)
		var completed, acquired atomic.Bool
		atOnce(2, func(i int) {
			if i == 0 {
				_, err := h.service.Complete(background(t), h.caller, CompleteRequest{ID: former.ID.String(), Token: string(former.Lease.Token), Response: created})
				completed.Store(err == nil)
				return
			}
			outcome, err := h.service.Begin(background(t), h.caller, anew(req))
			if err != nil {
				t.Error(err)
			}
			_, ok := outcome.(Acquired)
			acquired.Store(ok)
		})
		if completed.Load() == acquired.Load() {
			t.Fatalf("the late completion succeeded: %v, the takeover: %v; exactly one may", completed.Load(), acquired.Load())
		}
	}
}

// B029: releases and deletions that race with begins never lose a claim.
func TestBeginsAgainstReleasesAndDeletions(t *testing.T) {
	t.Parallel()
	h := setup(t)
	services := h.processes(2)
	req := charge()
	stop := make(chan struct{})
	var holders atomic.Int32
	var work sync.WaitGroup
	work.Go(func() { // what pruning does to an expired record, without the wait
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := h.pool.Exec(background(t), `delete from idempotency_keys where state = 2`); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var acquired atomic.Int32
	atOnce(12, func(i int) {
		for range 60 {
			outcome, err := services[i%2].Begin(background(t), h.caller, anew(req))
			switch o := outcome.(type) {
			case Acquired:
				acquired.Add(1)
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d live owners", n)
				}
				holders.Add(-1)
				if err := services[i%2].Release(background(t), h.caller, o.ID.String(), string(o.Lease.Token)); err != nil {
					t.Error(err)
				}
			case InProgress:
			default:
				t.Errorf("got %v, %v", outcome, err)
			}
		}
	})
	close(stop)
	work.Wait()
	if acquired.Load() < 12 {
		t.Errorf("only %d acquisitions", acquired.Load())
	}
}

// Batches that name the same records in every order neither deadlock nor
// acquire a record twice.
func TestBatchesInEveryOrder(t *testing.T) {
	t.Parallel()
	h := setup(t)
	services := h.processes(2)
	reqs := make([]BeginRequest, 60)
	for i := range reqs {
		reqs[i] = charge()
	}
	var acquired atomic.Int32
	atOnce(8, func(worker int) {
		entries := make([]BatchEntry, len(reqs))
		for i := range reqs {
			entries[i].Request = anew(reqs[(i*7+worker*13)%len(reqs)])
		}
		err := services[worker%2].BeginBatch(background(t), h.caller, entries, func(_ int, outcome Outcome, err error) error {
			if err != nil {
				t.Error(err)
			}
			if _, ok := outcome.(Acquired); ok {
				acquired.Add(1)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if int(acquired.Load()) != len(reqs) {
		t.Errorf("%d acquired of %d records", acquired.Load(), len(reqs))
	}
}

// B071: what some clients' cancellations do to their connections never
// reaches the clients that do not cancel.
func TestCancelledCallersHarmNobodyElse(t *testing.T) {
	t.Parallel()
	h := setup(t)
	atOnce(16, func(i int) {
		for n := range 50 {
			ctx, cancel := cancelAfter(background(t), i, n)
			_, err := h.service.Begin(ctx, h.caller, charge())
			cancel()
			if err != nil && i%2 == 1 {
				t.Errorf("a client that never cancels got %v", err)
			}
			if err != nil && i%2 == 0 {
				wantKind(t, err, problem.KindUnavailable)
			}
		}
	})
}
