package telemetry

import (
	"net/http"
	"sync"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/internal/problem"
)

const (
	// mostTenants have series of their own in one process: each is some twenty
	// of them for whoever collects.
	mostTenants = 1000

	// otherTenants is the label of those that came later.
	otherTenants = "other"
)

// tenantMetrics are the figures by tenant, which are there only where the
// operator allows them.
type tenantMetrics struct {
	begins, conflicts *prometheus.CounterVec
	other             *tenantFigures

	mu    sync.RWMutex
	known map[[16]byte]*tenantFigures // guarded by mu; at most mostTenants
}

type tenantFigures struct {
	begins    [beginOutcomes]prometheus.Counter
	conflicts map[problem.Kind]prometheus.Counter
}

// AllowTenants adds figures by tenant: of the first mostTenants that are seen,
// and of all others together. Before it no tenant is in any label. It is called
// at most once, before anything is counted.
func (m *Metrics) AllowTenants() {
	t := &tenantMetrics{
		begins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_tenant_begins_total",
			Help: "Begins answered, by tenant and outcome. Only where ONCEWARD_METRICS_TENANTS is true.",
		}, []string{"tenant", "outcome"}),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_tenant_conflicts_total",
			Help: "Requests answered 409, by tenant and code of the problem. Only where ONCEWARD_METRICS_TENANTS is true.",
		}, []string{"tenant", "code"}),
		known: make(map[[16]byte]*tenantFigures),
	}
	t.other = t.figures(otherTenants)
	m.registry.MustRegister(t.begins, t.conflicts)
	m.tenants = t
}

// TenantConflict counts a request of a tenant that was answered with a problem
// whose status is 409; code is its code. It counts nothing unless tenants are
// allowed.
func (m *Metrics) TenantConflict(tenant [16]byte, code string) {
	if m.tenants == nil {
		return
	}
	if c, known := m.tenants.of(tenant).conflicts[problem.Kind(code)]; known {
		c.Inc()
	}
}

// of finds the figures of a tenant, or makes them while there is room.
func (t *tenantMetrics) of(tenant [16]byte) *tenantFigures {
	t.mu.RLock()
	f, full := t.known[tenant], len(t.known) >= mostTenants
	t.mu.RUnlock()
	switch {
	case f != nil:
		return f
	case full || tenant == [16]byte{}:
		return t.other
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.known[tenant]; f != nil {
		return f
	}
	if len(t.known) >= mostTenants {
		return t.other
	}
	f = t.figures(uuid.UUID(tenant).String())
	t.known[tenant] = f
	return f
}

func (t *tenantMetrics) figures(label string) *tenantFigures {
	f := &tenantFigures{conflicts: make(map[problem.Kind]prometheus.Counter)}
	for o := range beginOutcomes {
		f.begins[o] = t.begins.WithLabelValues(label, o.String())
	}
	for _, e := range problem.Table() {
		if e.Status == http.StatusConflict {
			f.conflicts[e.Kind] = t.conflicts.WithLabelValues(label, string(e.Kind))
		}
	}
	return f
}
