//go:build unix

package fault_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
	"github.com/onceward/onceward/test/processtest"
)

// The clock of the database jumps by an hour, in either direction: the process
// is not ready and says why, nothing begins and no lease is taken over, what is
// held can be completed, and the operator's word opens it again.
func TestAJumpOfTheDatabasesClockStopsBegins(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]string{"ahead": "1 hour", "back": "-1 hour"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := apitest.On(t, postgrestest.New(t))
			role, databaseURL := roleOf(t, base)
			w := processtest.On(t, base, databaseURL)
			w.Expect(refused, "clock jumped")
			// The role finds this clock_timestamp before PostgreSQL's own.
			statements(
				`create table test_clock as select interval '0' as ahead`,
				`grant select on test_clock to %[1]s`,
				`create function public.clock_timestamp() returns timestamptz language sql as 'select pg_catalog.clock_timestamp() + ahead from test_clock'`,
				`alter role %[1]s set search_path = public, pg_catalog`,
			)(t, w, nil, role)
			process := w.API(t, "ONCEWARD_OPERATOR_TOKEN="+strings.Repeat("operator", 4))
			operator := process.OperatorClientWith(strings.Repeat("operator", 4))
			c := process.Client(w.Tenant.Service)
			key := processtest.NewKey()
			held := c.Begin(t, apitest.Charge(key)).Acquired(t)
			processtest.Eventually(t, "the process is ready", func() bool { ready, _ := readiness(t, process); return ready })

			statements(`update test_clock set ahead = '`+jump+`'`)(t, w, nil, role)
			processtest.Eventually(t, "/readyz says that the clock jumped", func() bool {
				ready, reasons := readiness(t, process)
				return !ready && strings.Contains(reasons, "clock of the database has jumped")
			})
			for _, key := range []string{key, processtest.NewKey()} {
				a := c.Begin(t, apitest.Charge(key))
				a.Problem(t, http.StatusServiceUnavailable, "unavailable")
				if a.Header.Get("Retry-After") == "" {
					t.Error("503 without Retry-After")
				}
			}
			batch := apitest.Object{"operations": []any{apitest.Charge(processtest.NewKey())}}
			if got := c.Do(t, http.MethodPost, "/v1/keys/batch", batch).Results(t)[0].Status; got != http.StatusServiceUnavailable {
				t.Errorf("a begin in a batch: %d, want 503", got)
			}
			c.Complete(t, held, processtest.Done("done")).Completion(t)
			if steps := process.Metric(t, "onceward_database_clock_steps_total"); steps != 1 {
				t.Errorf("%f steps in /metrics, want 1", steps)
			}

			operator.Do(t, http.MethodPost, "/v1/admin/clock/trust", nil).Expect(t, http.StatusOK)
			if err := processtest.IsDone(c.Begin(t, apitest.Charge(key)), "done"); err != nil {
				t.Error(err)
			}
			processtest.Eventually(t, "the process is ready again", func() bool { ready, _ := readiness(t, process); return ready })
		})
	}
}
