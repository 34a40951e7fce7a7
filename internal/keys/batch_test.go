package keys

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/problem"
)

func (h *house) batch(reqs ...BeginRequest) []result {
	h.t.Helper()
	entries := make([]BatchEntry, len(reqs))
	for i, r := range reqs {
		entries[i].Request = r
	}
	return h.batchOf(entries)
}

func (h *house) batchOf(entries []BatchEntry) []result {
	h.t.Helper()
	var results []result
	err := h.service.BeginBatch(h.t.Context(), h.caller, entries, func(i int, outcome Outcome, err error) error {
		if i != len(results) {
			h.t.Errorf("result %d came as number %d", i, len(results))
		}
		results = append(results, result{outcome, err})
		return nil
	})
	if err != nil || len(results) != len(entries) {
		h.t.Fatalf("%d results for %d entries: %v", len(results), len(entries), err)
	}
	return results
}

// B075: a key twice in one batch is decided as if its begins had come one
// after the other.
func TestABatchDecidesInOrder(t *testing.T) {
	t.Parallel()
	h := setup(t)
	k1, k2 := charge(), charge()
	other := with(anew(k2), func(r *BeginRequest) { r.Request = payload("{}") })
	reqs := []BeginRequest{k1, k2}
	for range 96 {
		reqs = append(reqs, charge())
	}
	reqs = append(reqs, anew(k1), other)
	want := make([]string, len(reqs))
	for i := range want {
		want[i] = "keys.Acquired"
	}
	want[98], want[99] = "keys.InProgress", "keys.Mismatch"
	var got []string
	for _, r := range h.batch(reqs...) {
		got = append(got, describe(r.outcome))
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Error(diff)
	}
}

func TestEntriesOfOneBatchNeverResumeEachOther(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	for round, resumed := range []bool{false, true} { // the second round repeats the batch after a lost answer
		results := h.batch(req, req, req)
		if a := as[Acquired](t, results[0].outcome); a.Resumed != resumed || a.Attempt != 1 {
			t.Errorf("round %d: got %+v", round, a)
		}
		as[InProgress](t, results[1].outcome)
		as[InProgress](t, results[2].outcome)
	}
}

func TestABadEntryFailsNoOther(t *testing.T) {
	t.Parallel()
	h := setup(t)
	unreadable := errors.New("no JSON")
	results := h.batchOf([]BatchEntry{
		{Request: charge()},
		{Err: unreadable},
		{Request: with(charge(), func(r *BeginRequest) { r.Key = new("short") })},
		{Request: charge()},
	})
	as[Acquired](t, results[0].outcome)
	if !errors.Is(results[1].err, unreadable) {
		t.Errorf("got %v", results[1].err)
	}
	wantKind(t, results[2].err, problem.InvalidKey)
	as[Acquired](t, results[3].outcome)
}

func TestABatchOfLargeReplaysIsLoadedInSlices(t *testing.T) {
	t.Parallel()
	h := setup(t)
	var reqs []BeginRequest
	for i := range 20 { // 20 MiB, more than one slice
		req := charge()
		h.complete(h.caller, h.acquire(h.caller, req), Response{Status: 200, Body: bytes.Repeat([]byte{byte(i)}, 1<<20)})
		reqs = append(reqs, anew(req))
	}
	for i, r := range h.batch(reqs...) {
		if body := as[Replay](t, r.outcome).Response.Body; len(body) != 1<<20 || body[0] != byte(i) {
			t.Errorf("entry %d has %d bytes", i, len(body))
		}
	}
}

func TestAnErrorOfEmitEndsTheBatch(t *testing.T) {
	t.Parallel()
	h := setup(t)
	gone := errors.New("the client is gone")
	err := h.service.BeginBatch(t.Context(), h.caller, []BatchEntry{{Request: charge()}, {Request: charge()}}, func(int, Outcome, error) error { return gone })
	if !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestABatchOfCompletionsDecidesInOrder(t *testing.T) {
	t.Parallel()
	h := setup(t)
	entry := func(a Acquired, r Response) CompleteEntry {
		return CompleteEntry{Request: CompleteRequest{ID: a.ID.String(), Token: string(a.Lease.Token), Response: r}}
	}
	a, b := h.acquire(h.caller, charge()), h.acquire(h.caller, charge())
	other := Response{Status: 500}
	results := h.service.CompleteBatch(t.Context(), h.caller, []CompleteEntry{
		entry(a, created), entry(a, created), entry(a, other), {Err: fmt.Errorf("unreadable")}, entry(b, Response{Status: 99}), entry(b, other),
	})
	for _, i := range []int{0, 1, 5} {
		if results[i].Err != nil {
			t.Errorf("entry %d: %v", i, results[i].Err)
		}
	}
	if diff := cmp.Diff(results[1].Completion, results[0].Completion); diff != "" {
		t.Errorf("the repeat answers otherwise: %s", diff)
	}
	wantKind(t, results[2].Err, problem.AlreadyCompleted)
	if results[3].Err == nil {
		t.Error("an unreadable entry succeeded")
	}
	wantKind(t, results[4].Err, problem.InvalidRequest)
}
