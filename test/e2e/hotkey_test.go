package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/test/processtest"
)

// B069: whoever hammers one key is told to come back at moments that differ,
// and callers of another tenant get all that they ask for meanwhile. What it
// costs them in time is in the bench.
func TestAHammeredKeyHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	const loud, quiet, rounds = 100, 8, 20
	w := processtest.New(t)
	process := w.API(t)
	other := w.NewTenant(t)
	hot := apitest.Charge(processtest.NewKey())
	process.Client(w.Tenant.Service).Begin(t, hot).Acquired(t)

	var mu sync.Mutex // guards waits
	waits := map[string]int{}
	hammering := clients([]*processtest.API{process}, w.Tenant.Service, loud)
	quietly := clients([]*processtest.API{process}, other.Service, quiet)
	processtest.AtOnce(loud+quiet, func(worker int) {
		for range rounds {
			if worker >= loud {
				if _, err := processtest.Acquire(t.Context(), quietly[worker-loud], apitest.Charge(processtest.NewKey())); err != nil {
					t.Errorf("another tenant's %v", err)
				}
				continue
			}
			a, err := processtest.Begin(t.Context(), hammering[worker], hot)
			if err != nil || a.Status != http.StatusConflict {
				t.Errorf("a begin of the hot key got %s", processtest.Say(a, err))
				return
			}
			mu.Lock()
			waits[a.Header.Get("Retry-After")]++
			mu.Unlock()
		}
	})
	told := 0
	for wait, n := range waits {
		if wait != "" {
			told += n
		}
	}
	if told != loud*rounds || len(waits) < 2 {
		t.Errorf("of %d refusals %d say when to come back; they say %s", loud*rounds, told, fmt.Sprint(waits))
	}
}
