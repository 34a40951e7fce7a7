package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onceward/onceward/internal/problem"
)

// BeginOutcome is the label of an answered begin. The six of them add up to all
// begins (wire contract, section 6); 400, 401, 403, 429 and 503 are none.
type BeginOutcome int

// The outcomes of a begin.
const (
	BeginAcquired BeginOutcome = iota
	BeginResumed
	BeginReplay
	BeginInProgress
	BeginMismatch
	BeginUnknown
	beginOutcomes
)

// String is the value of the label.
func (o BeginOutcome) String() string {
	names := [beginOutcomes]string{"acquired", "resumed", "replay", "in_progress", "mismatch", "unknown"}
	if o < 0 || o >= beginOutcomes {
		return "invalid"
	}
	return names[o]
}

// Metrics are the figures of one process. It is safe for use by many
// goroutines and never blocks.
type Metrics struct {
	process

	begins          [beginOutcomes]prometheus.Counter
	takeovers       prometheus.Counter
	lateCompletions prometheus.Counter
	corruptRecords  prometheus.Counter
	replayAges      prometheus.Histogram
	requests        *prometheus.CounterVec
	latencies       *prometheus.HistogramVec
	conflicts       map[problem.Kind]prometheus.Counter
	tenants         *tenantMetrics // nil: no tenant is in a label
}

// NewMetrics makes the figures, all at zero, in a registry of their own beside
// those of the Go runtime, the process and the build.
func NewMetrics() *Metrics {
	begins := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onceward_begins_total",
		Help: "Begins answered, by outcome.",
	}, []string{"outcome"})
	m := &Metrics{
		process:   newProcess(),
		conflicts: make(map[problem.Kind]prometheus.Counter),
		takeovers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_takeovers_total",
			Help: "Begins that acquired a record whose lease had lapsed. They are among the acquired ones.",
		}),
		lateCompletions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_late_completions_total",
			Help: "Completions by a former holder, or after a resolution: each may mean work done twice.",
		}),
		corruptRecords: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "onceward_corrupt_records_total",
			Help: "Begins refused because the stored record had another identity than its id says. Must stay at zero.",
		}),
		replayAges: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "onceward_replay_age_seconds",
			Help:    "Time from the creation of a record to its replay.",
			Buckets: []float64{0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400},
		}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "onceward_http_requests_total",
			Help: "HTTP requests answered, by route template and class of status.",
		}, []string{"route", "class"}),
		latencies: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "onceward_http_request_duration_seconds",
			Help:    "Time from the header of a request to the end of its answer, by route template. Waits asked for are in it.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
	}
	conflicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "onceward_conflicts_total",
		Help: "Requests answered 409, by code of the problem. Entries of a batch are in onceward_begins_total alone.",
	}, []string{"code"})
	for _, e := range problem.Table() {
		if e.Status == http.StatusConflict {
			m.conflicts[e.Kind] = conflicts.WithLabelValues(string(e.Kind))
		}
	}
	for o := range beginOutcomes {
		m.begins[o] = begins.WithLabelValues(o.String())
	}
	m.registry.MustRegister(
		begins, conflicts, m.takeovers, m.lateCompletions, m.corruptRecords, m.replayAges, m.requests, m.latencies,
	)
	return m
}

// Begin counts an answered begin of a tenant.
func (m *Metrics) Begin(tenant [16]byte, outcome BeginOutcome) {
	m.begins[outcome].Inc()
	if m.tenants != nil {
		m.tenants.of(tenant).begins[outcome].Inc()
	}
}

// Takeover counts a begin that took a lapsed lease over; it is also an acquired one.
func (m *Metrics) Takeover() { m.takeovers.Inc() }

// ReplayAge notes how old a record was when it was replayed.
func (m *Metrics) ReplayAge(age time.Duration) { m.replayAges.Observe(age.Seconds()) }

// LateCompletion counts a late completion.
func (m *Metrics) LateCompletion() { m.lateCompletions.Inc() }

// CorruptRecord counts a record that is not what its id says.
func (m *Metrics) CorruptRecord() { m.corruptRecords.Inc() }
