package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// WorkerMetrics are the figures of one worker process. The label kind is that
// of a job: a fixed list.
type WorkerMetrics struct {
	process
	nowFunc func() time.Time

	runs      *prometheus.CounterVec
	durations *prometheus.HistogramVec
	pruned    prometheus.Counter
	left      prometheus.Gauge
	rolledUp  prometheus.Counter
	pending   prometheus.Gauge

	mu          sync.Mutex // guards lastSuccess
	lastSuccess map[string]time.Time
}

var lastSuccessDesc = prometheus.NewDesc( //nolint:gochecknoglobals // a constant that Go cannot declare
	"onceward_job_last_success_timestamp_seconds",
	"When a job of the kind last ended well, on any worker. Absent until it has.", []string{"kind"}, nil)

var lastSuccessAgeDesc = prometheus.NewDesc( //nolint:gochecknoglobals // as above
	"onceward_job_last_success_age_seconds",
	"How long ago a job of the kind last ended well, on any worker. Absent until it has.", []string{"kind"}, nil)

// NewWorkerMetrics makes the figures in a registry of their own beside those of
// the Go runtime, the process and the build.
func NewWorkerMetrics() *WorkerMetrics {
	m := &WorkerMetrics{
		process: newProcess(),
		nowFunc: time.Now,
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_job_runs_total", Help: "Jobs that this process ran, by kind and by how they ended: done, failed or unfinished.",
		}, []string{"kind", "result"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "onceward_job_duration_seconds", Help: "How long jobs ran, by kind.",
			Buckets: []float64{0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 120, 300},
		}, []string{"kind"}),
		pruned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_pruned_records_total", Help: "Expired records that this process removed.",
		}),
		left: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_expired_records_left", Help: "Expired records that the last run of this process left behind: its backlog.",
		}),
		rolledUp: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_analytics_rolled_up_rows_total", Help: "Flushed rows of analytics that this process rolled up.",
		}),
		pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "onceward_analytics_pending_rows", Help: "Flushed rows of analytics that were not rolled up when this process last looked.",
		}),
		lastSuccess: make(map[string]time.Time),
	}
	m.registry.MustRegister(
		m.runs, m.durations, m.pruned, m.left, m.rolledUp, m.pending, lastSuccesses{m},
	)
	return m
}

// JobResult is how a job ended.
type JobResult string

// The results of a job. Unfinished: its time was up, and it goes on later.
const (
	JobDone       JobResult = "done"
	JobFailed     JobResult = "failed"
	JobUnfinished JobResult = "unfinished"
)

// Job counts a job that ended.
func (m *WorkerMetrics) Job(kind string, result JobResult, took time.Duration) {
	m.runs.WithLabelValues(kind, string(result)).Inc()
	m.durations.WithLabelValues(kind).Observe(took.Seconds())
}

// JobLastSuccess notes when a job of the kind last ended well, on any worker.
func (m *WorkerMetrics) JobLastSuccess(kind string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastSuccess[kind] = at
}

// Pruned counts a run of pruning and what it left.
func (m *WorkerMetrics) Pruned(records, left int64) {
	m.pruned.Add(float64(records))
	m.left.Set(float64(left))
}

// RolledUp counts a roll-up and what was pending after it.
func (m *WorkerMetrics) RolledUp(rows, pending int64) {
	m.rolledUp.Add(float64(rows))
	m.pending.Set(float64(pending))
}

// lastSuccesses shows the ages as of the moment of the scrape.
type lastSuccesses struct{ m *WorkerMetrics }

// Describe implements prometheus.Collector.
func (lastSuccesses) Describe(ch chan<- *prometheus.Desc) {
	ch <- lastSuccessDesc
	ch <- lastSuccessAgeDesc
}

// Collect implements prometheus.Collector.
func (l lastSuccesses) Collect(ch chan<- prometheus.Metric) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	now := l.m.nowFunc()
	for kind, at := range l.m.lastSuccess {
		ch <- prometheus.MustNewConstMetric(lastSuccessDesc, prometheus.GaugeValue, float64(at.UnixMicro())/1e6, kind)
		ch <- prometheus.MustNewConstMetric(lastSuccessAgeDesc, prometheus.GaugeValue, now.Sub(at).Seconds(), kind)
	}
}
