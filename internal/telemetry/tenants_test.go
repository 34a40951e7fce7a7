package telemetry

import (
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/problem"
)

// series are the values of all that have the label tenant, by tenant.
func tenantSeries(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "tenant" {
					sums[label.GetValue()] += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return sums
}

func TestNoTenantIsInALabelUnlessTheyAreAllowed(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	tenant := uuid.New()
	m.Begin(tenant, BeginMismatch)
	m.TenantConflict(tenant, string(problem.FingerprintMismatch))
	if got := tenantSeries(t, m); len(got) != 0 {
		t.Errorf("series %v, want none", got)
	}
}

func TestTheFirstTenantsAreCountedApartAndTheOthersTogether(t *testing.T) {
	t.Parallel()
	m := NewMetrics()
	m.AllowTenants()
	tenants := make([]uuid.UUID, mostTenants+50)
	for i := range tenants {
		tenants[i] = uuid.New()
	}
	for _, tenant := range tenants[:mostTenants] {
		m.Begin(tenant, BeginAcquired)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, tenant := range tenants {
				m.Begin(tenant, BeginReplay)
				m.TenantConflict(tenant, string(problem.InProgress))
				m.TenantConflict(tenant, "no code")
			}
		})
	}
	all.Wait()
	got := tenantSeries(t, m)
	if len(got) != mostTenants+1 || got[otherTenants] != 50*4*2 || got[tenants[0].String()] != 1+4*2 || got[tenants[mostTenants-1].String()] != 1+4*2 {
		t.Errorf("%d tenants, of which other has %v and the first %v", len(got), got[otherTenants], got[tenants[0].String()])
	}
	if _, there := got[uuid.Nil.String()]; there {
		t.Error("nobody has a series")
	}
}
