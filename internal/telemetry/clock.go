package telemetry

import "github.com/prometheus/client_golang/prometheus"

// WatchClock shows how often the database's clock has jumped, and whether it is
// believed, at each scrape. It is called once.
func (m *Metrics) WatchClock(steps func() int64, doubtful func() bool) {
	watchClock(m.registry, steps, doubtful)
}

// WatchClock shows the same for a worker. It is called once.
func (m *WorkerMetrics) WatchClock(steps func() int64, doubtful func() bool) {
	watchClock(m.registry, steps, doubtful)
}

func watchClock(registry *prometheus.Registry, steps func() int64, doubtful func() bool) {
	registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "onceward_database_clock_steps_total",
			Help: "Jumps of the database's clock by more than five seconds, as this process saw them.",
		}, func() float64 { return float64(steps()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "onceward_database_clock_doubtful",
			Help: "1 while begins are refused because the database's clock jumped, else 0.",
		}, func() float64 {
			if doubtful() {
				return 1
			}
			return 0
		}))
}
