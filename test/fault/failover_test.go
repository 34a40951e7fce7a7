//go:build unix

package fault_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

// Two hosts in the URL: the first refuses, so the second is used; then the
// second goes away and the first is there. Sessions of the batchers, the pool and the
// listener of the replay cache all follow, and what was answered stays.
func TestAProcessFollowsItsDatabaseToAnotherHost(t *testing.T) {
	t.Parallel()
	base := apitest.On(t, postgrestest.New(t))
	direct := base.Pool.Config().ConnString()
	first, second := newProxy(t, direct), newProxy(t, direct)
	first.cut()
	w := processtest.On(t, base, bothHosts(t, first.url, second.url))
	w.Expect(refused)
	process := w.API(t, "ONCEWARD_REPLAY_CACHE_MIB=8")
	c := process.Client(w.Tenant.Service)
	done := processtest.NewKey()
	c.Complete(t, c.Begin(t, apitest.Charge(done)).Acquired(t), processtest.Done("done")).Completion(t)
	heldKey := processtest.NewKey()
	held := c.Begin(t, apitest.Charge(heldKey)).Acquired(t)

	for range 2 {
		second.cut()
		first.mend(t, direct)
		repeated(t, func() (*apitest.Answer, error) {
			return processtest.Begin(t.Context(), c, apitest.Charge(processtest.NewKey()))
		}).Acquired(t)
		repeated(t, func() (*apitest.Answer, error) {
			return processtest.Begin(t.Context(), c, apitest.Charge(heldKey))
		}).Problem(t, http.StatusConflict, "in_progress")
		a := repeated(t, func() (*apitest.Answer, error) { return processtest.Begin(t.Context(), c, apitest.Charge(done)) })
		if err := processtest.IsDone(a, "done"); err != nil {
			t.Error(err)
		}
		processtest.Eventually(t, "the process is ready", func() bool { ready, _ := readiness(t, process); return ready })
		first, second = second, first // and back
	}
	repeated(t, func() (*apitest.Answer, error) {
		return processtest.Complete(t.Context(), c, held, processtest.Done("done"))
	}).Completion(t)
}

// bothHosts is the URL of the first with the host of the second after its own.
func bothHosts(t *testing.T, first, second string) string {
	t.Helper()
	at, err := url.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(second)
	if err != nil {
		t.Fatal(err)
	}
	at.Host += "," + other.Host
	values := at.Query()
	values.Set("target_session_attrs", "read-write")
	at.RawQuery = values.Encode()
	return at.String()
}
