//go:build unix

package browser_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/tenants"
	"github.com/onceward/onceward/test/processtest"
)

// made is what a scenario looks for again.
type made struct {
	completed string // id of a completed record
	body      string // of its response
}

// sendTraffic makes 32 begins of three operations:
//
//	POST /v1/charges  21: 13 acquired (one took over), 6 replays, 2 in progress
//	POST /v1/refunds   7: 1 acquired, 6 mismatches
//	POST /v1/payouts   4: 3 acquired, which are unknown by now, 1 unknown
//
// and one late completion. The replays come after 3 s (three), 45 s (two) and
// three hours (one).
func sendTraffic(t *testing.T, w *processtest.World, p *processtest.API) made {
	t.Helper()
	c := p.Client(w.Tenant.Service)
	hold := tenants.OnLeaseExpiryHold
	w.SetPolicy(t, tenants.Override{Operation: "POST /v1/payouts", OnLeaseExpiry: &hold})
	begin := func(operation, caller, key string) apitest.Object {
		return apitest.Charge(key).With(apitest.Object{"operation": operation, "caller": caller, "owner": processtest.NewOwner(), "metadata": apitest.Object{"order": "42"}})
	}
	ages := []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second, 45 * time.Second, 45 * time.Second, 3 * time.Hour}
	m := made{body: `{"charged":4999}`}
	for i := range 10 {
		body := begin("POST /v1/charges", "cus_001", processtest.NewKey())
		held := c.Begin(t, body).Acquired(t)
		c.Complete(t, held, processtest.Done(m.body)).Expect(t, 200)
		m.completed = held.ID
		if i < len(ages) {
			w.Advance(t, held.ID, ages[i])
			c.Begin(t, body).Expect(t, 200)
		}
	}
	// Two begins while the first still runs.
	body := begin("POST /v1/charges", "cus_002", processtest.NewKey())
	c.Begin(t, body).Expect(t, 201)
	for range 2 {
		c.Begin(t, body.With(apitest.Object{"owner": processtest.NewOwner()})).Expect(t, 409)
	}
	// A lease that ended before the work did.
	body = begin("POST /v1/charges", "cus_003", processtest.NewKey())
	late := c.Begin(t, body).Acquired(t)
	w.Advance(t, late.ID, time.Hour)
	c.Begin(t, body.With(apitest.Object{"owner": processtest.NewOwner()})).Expect(t, 201)
	c.Complete(t, late, processtest.Done("too late")).Expect(t, 409)
	// A client that makes one key for everything.
	body = begin("POST /v1/refunds", "cus_importer", processtest.NewKey())
	c.Complete(t, c.Begin(t, body).Acquired(t), processtest.Done("refunded")).Expect(t, 200)
	for i := range 6 {
		c.Begin(t, body.With(apitest.Object{"request": apitest.Object{"method": "POST", "path": "/v1/refunds", "body": string(rune('a' + i))}})).Expect(t, 409)
	}
	// Workers that died before they could say what became of a payout.
	for i := range 3 {
		body := begin("POST /v1/payouts", "cus_007", processtest.NewKey())
		held := c.Begin(t, body).Acquired(t)
		w.Advance(t, held.ID, time.Hour)
		if i == 0 {
			c.Begin(t, body.With(apitest.Object{"owner": processtest.NewOwner()})).Expect(t, 409)
		}
	}
	return m
}
