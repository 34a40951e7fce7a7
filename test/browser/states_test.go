//go:build unix

package browser_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/test/processtest"
)

func TestAnAdminSetsEverythingElseThatThereIs(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	if _, err := w.Pool.Exec(t.Context(), "update tenants set max_live_records = 1000 where tenant_id = $1", w.Tenant.ID); err != nil {
		t.Fatal(err)
	}
	const completed = 3
	var record string
	c := p.Client(w.Tenant.Service)
	for range completed {
		held := c.Begin(t, apitest.Charge(processtest.NewKey())).Acquired(t)
		c.Complete(t, held, processtest.Done("done")).Expect(t, 200)
		record = held.ID
	}
	b.run(t, "settings", map[string]any{
		"url": p.URL, "admin": w.Tenant.Admin, "ops": w.Tenant.Ops, "record": record, "completed": strconv.Itoa(completed), "made": completed,
	})
}

// A view with nothing to show, with one, with very many, and without an answer.
func TestEveryStateOfAViewIsShown(t *testing.T) {
	t.Parallel()
	const operations, batch = 140, 70
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	c := p.Client(w.Tenant.Service)
	long := "POST /" + strings.Repeat("a-very-long-name/", 30)[:506]
	for from := 0; from < operations; from += batch {
		entries := make([]any, 0, batch)
		for i := from; i < from+batch; i++ {
			operation := fmt.Sprintf("GET /operation/%03d", i)
			if i == 0 {
				operation = long
			}
			entries = append(entries, apitest.Charge(processtest.NewKey()).With(apitest.Object{"operation": operation}))
		}
		c.Do(t, "POST", "/v1/keys/batch", apitest.Object{"operations": entries}).Expect(t, 200)
	}
	once := apitest.Charge(processtest.NewKey()).With(apitest.Object{"operation": "GET /one-replay"})
	held := c.Begin(t, once).Acquired(t)
	c.Complete(t, held, processtest.Done("done")).Expect(t, 200)
	w.Advance(t, held.ID, 40*time.Second)
	c.Begin(t, once).Expect(t, 200)
	for _, key := range []string{w.Tenant.Service, w.Tenant.FlatService} {
		unknown := p.Client(key).Begin(t, apitest.Charge(processtest.NewKey())).Acquired(t)
		p.Client(key).DeclareUnknown(t, unknown).Expect(t, 204)
	}
	resolver := w.Issue(t, w.Tenant, auth.IssueParams{Name: "resolver of live", Role: auth.RoleResolver, Namespaces: []auth.NamespaceID{w.Tenant.Live}})
	b.run(t, "states", map[string]any{"url": p.URL, "ops": w.Tenant.Ops, "service": w.Tenant.Service, "resolver": resolver, "long": long})
}

// B111: hours of local time were merged or skipped where clocks change.
func TestDaysOnWhichClocksChangeHaveTwentyFourHours(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	p.Client(w.Tenant.Service).Begin(t, apitest.Charge(processtest.NewKey()))
	processtest.Eventually(t, "the operation is counted", func() bool {
		var n int
		if err := w.Pool.QueryRow(t.Context(), "select count(*) from analytics_series").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
	// Replays (outcome 3) of under 100 ms in the first two hours of both days.
	_, err := w.Pool.Exec(t.Context(), `
insert into analytics_hours (tenant_id, hour, series_id, outcome, bucket, bin, n)
select tenant_id, day + make_interval(hours => hour), series_id, 3, 0, -100, hour + 3
from analytics_series, generate_series(0, 1) as hour,
     unnest(array['2026-10-25 00:00+00', '2026-03-29 00:00+00']::timestamptz[]) as day`)
	if err != nil {
		t.Fatal(err)
	}
	b.run(t, "clock", map[string]any{"url": p.URL, "ops": w.Tenant.Ops})
}

// What a screen reader and somebody with weak eyes need of every view.
func TestEveryViewCanBeReadByEverybody(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := processtest.New(t)
	p := w.API(t)
	made := sendTraffic(t, w, p)
	b.run(t, "access", map[string]any{"url": p.URL, "admin": w.Tenant.Admin, "completed": made.completed})
}
