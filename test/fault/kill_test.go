//go:build unix

package fault_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// B017: a process that is killed right after its 200 has lost nothing: the
// other one replays.
func TestWhatAKilledProcessHasAnsweredIsAReplayAtTheOther(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	survivor := w.API(t).Client(w.Tenant.Service)
	for range 4 {
		doomed := w.API(t)
		c := doomed.Client(w.Tenant.Service)
		key := processtest.NewKey()
		held := c.Begin(t, apitest.Charge(key)).Acquired(t)
		c.Complete(t, held, processtest.Done("done before the end")).Completion(t)
		doomed.Kill(t)
		if err := processtest.IsDone(survivor.Begin(t, apitest.Charge(key)), "done before the end"); err != nil {
			t.Error(err)
		}
	}
}

// B037: processes are killed at random moments during 1,000 completes. After
// the leases every key replays in full or is acquired again, what was answered
// with 200 replays, and no record is ever completed without a status.
func TestAProcessKilledDuringCompletesLeavesNoHalfRecord(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	survivor := w.API(t).Client(w.Tenant.Service)
	const rounds, perRound = 5, 200
	completed := map[string]bool{} // by key: whether the 200 came
	held := map[string]apitest.Acquired{}
	for range rounds {
		for key, answered := range completeUntilKilled(t, w, survivor, perRound, held) {
			completed[key] = answered
		}
	}
	lapseAll(t, w)
	var half int
	if err := w.Pool.QueryRow(t.Context(), `select count(*) from idempotency_keys where state = 3 and (status is null or completed_at is null or headers is null)`).Scan(&half); err != nil || half != 0 {
		t.Errorf("%d records are completed without a response, %v", half, err)
	}
	var replayed, acquired, lost int
	for key, answered := range completed {
		inspected := survivor.Inspect(t, held[key].ID, "").Expect(t, http.StatusOK)
		record, err := processtest.Decode[struct {
			State  string `json:"state"`
			Status *int   `json:"status"`
		}](inspected)
		if err != nil || record.State != "lapsed" && record.State != "completed" || (record.State == "completed") != (record.Status != nil) {
			t.Errorf("inspect shows %s, %v", inspected.Body, err)
		}
		a := survivor.Begin(t, apitest.Charge(key))
		if a.Status == http.StatusCreated {
			if second := a.Acquired(t); second.Attempt != 2 || !second.TakenOver {
				t.Errorf("acquired as %+v, want a takeover", second)
			}
			if acquired++; answered {
				lost++
			}
			continue
		}
		if err := processtest.IsDone(a, "the response of "+key); err != nil {
			t.Error(err)
		}
		replayed++
	}
	if lost > 0 {
		t.Errorf("%d completions that were answered with 200 are lost", lost)
	}
	if replayed == 0 || acquired == 0 {
		t.Errorf("%d replayed and %d acquired of %d: the kills came too late or too early", replayed, acquired, len(completed))
	}
}

// completeUntilKilled completes n keys at a new process, which is killed at a
// random moment meanwhile. It returns which completions were answered.
func completeUntilKilled(t *testing.T, w *processtest.World, survivor *apitest.Client, n int, held map[string]apitest.Acquired) map[string]bool {
	t.Helper()
	keys := make([]string, n)
	begins := make([]any, n)
	for i := range keys {
		keys[i] = processtest.NewKey()
		begins[i] = apitest.Charge(keys[i])
	}
	results := survivor.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": begins}).Results(t)
	leases := make([]apitest.Acquired, n)
	for i, r := range results {
		r.As(t, &leases[i])
		held[keys[i]] = leases[i]
	}

	doomed := w.API(t)
	const workers = 16
	killAfter := int32(1 + rand.IntN(n-workers))
	var answers atomic.Int32
	var next atomic.Int32
	reached := make(chan struct{})
	answered := make([]bool, n)
	var done sync.WaitGroup
	for range workers {
		c := doomed.Client(w.Tenant.Service)
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				body := "the response of " + keys[i]
				a, err := processtest.Complete(t.Context(), c, leases[i], processtest.Done(body))
				if err == nil && a.Status != http.StatusOK {
					t.Errorf("complete: %s", processtest.Say(a, err))
				}
				answered[i] = err == nil
				if err == nil && answers.Add(1) == killAfter {
					close(reached)
				}
			}
		})
	}
	<-reached
	doomed.Kill(t)
	done.Wait()
	byKey := make(map[string]bool, n)
	for i, key := range keys {
		byKey[key] = answered[i]
	}
	return byKey
}

// lapseAll makes it two minutes later for every record.
func lapseAll(t *testing.T, w *processtest.World) {
	t.Helper()
	const minutes = 2
	_, err := w.Pool.Exec(t.Context(), fmt.Sprintf(`
		update idempotency_keys set
		    created_at = created_at - interval '%[1]d min', acquired_at = acquired_at - interval '%[1]d min',
		    lease_expires_at = lease_expires_at - interval '%[1]d min', completed_at = completed_at - interval '%[1]d min',
		    expires_at = expires_at - interval '%[1]d min'`, minutes))
	if err != nil {
		t.Fatal(err)
	}
}
