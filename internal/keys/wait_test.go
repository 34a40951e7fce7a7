package keys

import (
	"context"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// waited is the answer of a begin that waits, once it is there.
type waited struct {
	outcome Outcome
	applied bool
	err     error
}

func (h *house) wait(ctx context.Context, service *Service, req BeginRequest, d time.Duration) <-chan waited {
	answer := make(chan waited, 1)
	go func() {
		outcome, applied, err := service.BeginOrWait(ctx, h.caller, req, d)
		answer <- waited{outcome, applied, err}
	}()
	return answer
}

// parked returns once n begins are parked in the service.
func parked(t *testing.T, s *Service, n int) {
	t.Helper()
	eventually(t, "begins are parked", func() bool {
		s.waits.mu.Lock()
		defer s.waits.mu.Unlock()
		count := 0
		for _, waiters := range s.waits.records {
			count += len(waiters)
		}
		return count == n
	})
}

func TestAWaitEndsWithTheReplay(t *testing.T) {
	t.Parallel()
	h := setup(t)
	elsewhere := h.process(h.pool)
	for name, service := range map[string]*Service{"this process": h.service, "another process": elsewhere} {
		req := charge()
		a := h.acquire(h.caller, req)
		answer := h.wait(t.Context(), service, anew(req), MaxWait)
		parked(t, service, 1)
		h.complete(h.caller, a, created)
		got := <-answer
		if got.err != nil || !got.applied {
			t.Fatalf("%s: %+v", name, got)
		}
		as[Replay](t, got.outcome)
		parked(t, service, 0)
	}
}

func TestAWaitAcquiresWhatIsReleasedOrLapses(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	answer := h.wait(t.Context(), h.service, anew(req), MaxWait)
	parked(t, h.service, 1)
	if err := h.service.Release(t.Context(), h.caller, a.ID.String(), string(a.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	got := <-answer
	if second := as[Acquired](t, got.outcome); second.Attempt != 2 || second.TakenOver {
		t.Errorf("got %+v", second)
	}
	answer = h.wait(t.Context(), h.service, anew(req), MaxWait)
	parked(t, h.service, 1)
	h.pass(2 * time.Minute)
	got = <-answer
	if third := as[Acquired](t, got.outcome); third.Attempt != 3 || !third.TakenOver {
		t.Errorf("got %+v", third)
	}
}

func TestOnlyOneOfManyWaitersAcquires(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	answers := make([]<-chan waited, MaxWaitersPerRecord)
	for i := range answers {
		answers[i] = h.wait(t.Context(), h.service, anew(req), MaxWait)
	}
	parked(t, h.service, len(answers))
	// One more is answered at once, without Preference-Applied.
	if extra := <-h.wait(t.Context(), h.service, anew(req), MaxWait); extra.applied {
		t.Errorf("the waiter past the limit of the record was parked: %+v", extra)
	} else {
		as[InProgress](t, extra.outcome)
	}
	if err := h.service.Release(t.Context(), h.caller, a.ID.String(), string(a.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	parked(t, h.service, len(answers)-1)
	h.service.Drain()
	acquired := 0
	for _, answer := range answers {
		switch got := <-answer; got.outcome.(type) {
		case Acquired:
			acquired++
		case InProgress:
		default:
			t.Errorf("got %+v", got)
		}
	}
	if acquired != 1 {
		t.Errorf("%d of the waiters acquired, want 1", acquired)
	}
}

func TestAWaitEndsInProgressAtItsTimeAndAtShutdown(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	h.acquire(h.caller, req)
	for _, d := range []time.Duration{0, 20 * time.Millisecond} {
		got := <-h.wait(t.Context(), h.service, anew(req), d)
		if as[InProgress](t, got.outcome); !got.applied {
			t.Error("a wait that was kept to was not said to be applied")
		}
	}
	answer := h.wait(t.Context(), h.service, anew(req), MaxWait)
	parked(t, h.service, 1)
	h.service.Drain()
	as[InProgress](t, (<-answer).outcome)
	as[InProgress](t, (<-h.wait(t.Context(), h.service, anew(req), MaxWait)).outcome)
}

func TestAWaiterWhoseClientIsGoneAcquiresNothing(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	ctx, cancel := context.WithCancel(t.Context())
	answer := h.wait(ctx, h.service, anew(req), MaxWait)
	parked(t, h.service, 1)
	cancel()
	if got := <-answer; got.err == nil {
		t.Errorf("got %+v", got)
	}
	parked(t, h.service, 0)
	if err := h.service.Release(t.Context(), h.caller, a.ID.String(), string(a.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	if record := h.inspect(a); record.State != StateOpen || record.Attempt != 1 {
		t.Errorf("somebody acquired it: %+v", record)
	}
}

func TestWaitersOfATenantAreLimited(t *testing.T) {
	t.Parallel()
	p := newWaits(nil, time.Hour, nil)
	at := func(tenant, n byte) ref { return ref{tenant: auth.TenantID{tenant}, id: ID{n, n}} }
	for i := range MaxWaitersPerTenant {
		if p.park(at(1, byte(i/MaxWaitersPerRecord)), 1) == nil {
			t.Fatalf("waiter %d was refused", i+1)
		}
	}
	if p.park(at(1, 200), 1) != nil {
		t.Error("a waiter past the tenant's limit was parked")
	}
	if p.park(at(2, 200), 1) == nil {
		t.Error("the limit of one tenant refused another's waiter")
	}
}

// B073: a thousand waiters on a hundred keys hold no connection, and all are
// answered with their own key's body when the keys complete.
func TestAThousandWaitersHoldNoConnection(t *testing.T) {
	t.Parallel()
	h := setup(t)
	const records, each = 100, 10
	var reqs [records]BeginRequest
	var held [records]Acquired
	answers := make([]<-chan waited, 0, records*each)
	for i := range reqs {
		reqs[i] = charge()
		held[i] = h.acquire(h.caller, reqs[i])
		for range each {
			answers = append(answers, h.wait(t.Context(), h.service, anew(reqs[i]), MaxWait))
		}
	}
	parked(t, h.service, records*each)
	h.acquire(h.caller, charge()) // the pool is free
	for i := range held {
		h.complete(h.caller, held[i], Response{Status: 200, Body: []byte(*reqs[i].Key)})
	}
	for n, answer := range answers {
		if body := string(as[Replay](t, (<-answer).outcome).Response.Body); body != *reqs[n/each].Key {
			t.Errorf("waiter %d of key %s got %q", n, *reqs[n/each].Key, body)
		}
	}
}

func TestAWaitReportsBadValues(t *testing.T) {
	t.Parallel()
	h := setup(t)
	_, _, err := h.service.BeginOrWait(t.Context(), h.caller, BeginRequest{}, time.Second)
	wantKind(t, err, problem.MissingKey)
}
