//go:build unix

package e2e_test

import (
	"sync"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// B073: a thousand begins wait for a hundred keys; meanwhile others are served
// and the process needs no more connections than before. Once the keys are
// completed each waiter has the response of its own key.
func TestAThousandWaitersAreAnsweredAndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	w := processtest.New(t)
	process := w.API(t)
	c := process.Client(w.Tenant.Service)
	const records, each = 100, 10
	type answer struct {
		key string
		a   *apitest.Answer
		err error
	}
	answers := make(chan answer, records*each)
	held := map[string]apitest.Acquired{}
	var waiters sync.WaitGroup
	for range records {
		key := processtest.NewKey()
		held[key] = c.Begin(t, apitest.Charge(key)).Acquired(t)
		for range each {
			waiter := process.Client(w.Tenant.Service)
			waiters.Go(func() {
				a, err := processtest.Begin(t.Context(), waiter, apitest.Charge(key), "Prefer: wait=30")
				answers <- answer{key, a, err}
			})
		}
	}
	// Each waiting request has a goroutine of its own at least.
	processtest.Eventually(t, "all wait", func() bool { return process.Metric(t, "go_goroutines") > records*each })
	if got, most := w.Connections(t), 6+4; got > most {
		t.Errorf("%d connections while a thousand wait, want at most the %d of the pool and the batchers", got, most)
	}
	c.Begin(t, apitest.Charge(processtest.NewKey())).Acquired(t)

	for key, a := range held {
		c.Complete(t, a, processtest.Done("the response of "+key)).Completion(t)
	}
	waiters.Wait()
	close(answers)
	for got := range answers {
		if got.err == nil {
			got.err = processtest.IsDone(got.a, "the response of "+got.key)
		}
		if got.err != nil {
			t.Errorf("who waited for %s got %v", got.key, got.err)
		}
	}
}
