package telemetry

import (
	"log/slog"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// process is what every process shows of itself, whatever it does: the Go
// runtime, the build, its database pool and what failed there.
type process struct {
	registry    *prometheus.Registry
	storeErrors *prometheus.CounterVec
}

func newProcess() process {
	p := process{
		registry: prometheus.NewRegistry(),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_store_errors_total",
			Help: "Statements, pipelines and connections to PostgreSQL that failed, by kind, also where they were tried again with success.",
		}, []string{"kind"}),
	}
	p.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
		p.storeErrors,
	)
	return p
}

// StoreErrors shows every kind, at zero, and returns what counts one. A kind
// that was not named here counts as the last one.
func (p *process) StoreErrors(kinds ...string) (count func(kind string)) {
	counters := make(map[string]prometheus.Counter, len(kinds))
	for _, kind := range kinds {
		counters[kind] = p.storeErrors.WithLabelValues(kind)
	}
	return func(kind string) {
		c, known := counters[kind]
		if !known {
			c = counters[kinds[len(kinds)-1]]
		}
		c.Inc()
	}
}

// WatchPool shows the pool's own figures, as of the moment of the scrape. It is
// called once.
func (p *process) WatchPool(pool *pgxpool.Pool) { p.registry.MustRegister(newPoolFigures(pool)) }

// Handler serves the figures to Prometheus. What goes wrong in gathering them
// is logged.
func (p *process) Handler(logger *slog.Logger) http.Handler {
	return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{
		Registry: p.registry,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError),
	})
}

// poolFigures reads a pool once for each scrape, so that its figures fit
// together.
type poolFigures struct {
	pool                                                     *pgxpool.Pool
	connections, most, acquires, waits, waited, cancelledAcq *prometheus.Desc
}

func newPoolFigures(pool *pgxpool.Pool) *poolFigures {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &poolFigures{
		pool:         pool,
		connections:  desc("onceward_pool_connections", "Connections of the pool: acquired, idle or being made. The batchers' and listeners' own are beside it.", "state"),
		most:         desc("onceward_pool_max_connections", "Connections that the pool opens at most."),
		acquires:     desc("onceward_pool_acquires_total", "Connections taken from the pool."),
		waits:        desc("onceward_pool_waits_total", "Connections that were waited for because none was idle."),
		waited:       desc("onceward_pool_wait_seconds_total", "Time spent waiting for them."),
		cancelledAcq: desc("onceward_pool_cancelled_acquires_total", "Waits for a connection that were given up."),
	}
}

// Describe implements prometheus.Collector.
func (f *poolFigures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.connections, f.most, f.acquires, f.waits, f.waited, f.cancelledAcq} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *poolFigures) Collect(ch chan<- prometheus.Metric) {
	s := f.pool.Stat()
	show := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	show(f.connections, prometheus.GaugeValue, float64(s.AcquiredConns()), "acquired")
	show(f.connections, prometheus.GaugeValue, float64(s.IdleConns()), "idle")
	show(f.connections, prometheus.GaugeValue, float64(s.ConstructingConns()), "constructing")
	show(f.most, prometheus.GaugeValue, float64(s.MaxConns()))
	show(f.acquires, prometheus.CounterValue, float64(s.AcquireCount()))
	show(f.waits, prometheus.CounterValue, float64(s.EmptyAcquireCount()))
	show(f.waited, prometheus.CounterValue, s.EmptyAcquireWaitTime().Seconds())
	show(f.cancelledAcq, prometheus.CounterValue, float64(s.CanceledAcquireCount()))
}
