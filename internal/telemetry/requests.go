package telemetry

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/internal/problem"
)

// statusClasses are the values of the label class; none: the request was cut
// off before it was answered.
const statusClasses = 6

func classOf(status int) (i int, name string) {
	names := [statusClasses]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}
	if i = status / 100; i < 0 || i >= statusClasses {
		i = 0
	}
	return i, names[i]
}

// RouteMetrics are the figures of one route. Its series appear with the first
// request that needs them; from then on it allocates nothing.
type RouteMetrics struct {
	metrics *Metrics
	route   string
	latency atomic.Pointer[prometheus.Observer]
	classes [statusClasses]atomic.Pointer[prometheus.Counter]
}

// Route makes the figures of a route. route is the method and the template,
// such as PUT /v1/keys/{id}/response, or one fixed word for requests that match
// none; never the path as sent. It is called once for each route and listener.
func (m *Metrics) Route(route string) *RouteMetrics {
	return &RouteMetrics{metrics: m, route: route}
}

// Observe counts an answered request; status is 0 where it was cut off. code is
// the code of the problem that it was answered with, or anything else.
func (r *RouteMetrics) Observe(status int, code string, latency time.Duration) {
	i, name := classOf(status)
	count := r.classes[i].Load()
	if count == nil {
		c := r.metrics.requests.WithLabelValues(r.route, name)
		count = &c
		r.classes[i].Store(count)
	}
	(*count).Inc()
	observe := r.latency.Load()
	if observe == nil {
		o := r.metrics.latencies.WithLabelValues(r.route)
		observe = &o
		r.latency.Store(observe)
	}
	(*observe).Observe(latency.Seconds())
	if status == http.StatusConflict {
		if c, known := r.metrics.conflicts[problem.Kind(code)]; known {
			c.Inc()
		}
	}
}
