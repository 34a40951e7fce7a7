package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Batches are the figures of group commit, by what batches are made of.
type Batches struct {
	entries, durations []prometheus.Observer // by kind
}

// Batches shows a kind for each name, and numbers them from 0. It is called once.
func (m *Metrics) Batches(kinds ...string) *Batches {
	entries := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "onceward_batch_entries", Help: "Calls that shared a transaction, by what they do: begin, read, complete or lease.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10), // to 512, which is the most
	}, []string{"kind"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "onceward_batch_duration_seconds", Help: "How long such a transaction took, repetitions included.",
		Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
	}, []string{"kind"})
	m.registry.MustRegister(entries, durations)
	b := &Batches{}
	for _, kind := range kinds {
		b.entries = append(b.entries, entries.WithLabelValues(kind))
		b.durations = append(b.durations, durations.WithLabelValues(kind))
	}
	return b
}

// Observe counts a batch of the kind with that number.
func (b *Batches) Observe(kind, entries int, took time.Duration) {
	b.entries[kind].Observe(float64(entries))
	b.durations[kind].Observe(took.Seconds())
}

// QueueStats are the figures of one queue.
type QueueStats struct {
	Kind    string // a name of a batch
	Waiting int
	Refused int64 // since the process began
}

// StoreStats are figures that are read at a scrape.
type StoreStats struct {
	Queues                 []QueueStats
	CacheHits, CacheMisses int64 // since the process began
}

// WatchStore shows what read returns at each scrape; queueLimit is how many
// entries wait in a queue at most. It is called once.
func (m *Metrics) WatchStore(queueLimit int, read func() StoreStats) {
	m.registry.MustRegister(&storeFigures{
		read: read, limit: queueLimit,
		queued:  prometheus.NewDesc("onceward_queue_length", "Calls that wait for the next batch, by what they do.", []string{"kind"}, nil),
		limits:  prometheus.NewDesc("onceward_queue_limit", "Calls that may wait for each kind of batch. No tenant has more than a quarter.", nil, nil),
		refused: prometheus.NewDesc("onceward_queue_refused_total", "Calls answered 503 because the queue, or their tenant's share of it, was full.", []string{"kind"}, nil),
		hits:    prometheus.NewDesc("onceward_replay_cache_hits_total", "Begins answered from the replay cache.", nil, nil),
		misses:  prometheus.NewDesc("onceward_replay_cache_misses_total", "Begins that asked the database; those of new keys are among them.", nil, nil),
	})
}

type storeFigures struct {
	read                                  func() StoreStats
	limit                                 int
	queued, limits, refused, hits, misses *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (f *storeFigures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{f.queued, f.limits, f.refused, f.hits, f.misses} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (f *storeFigures) Collect(ch chan<- prometheus.Metric) {
	s := f.read()
	for _, q := range s.Queues {
		ch <- prometheus.MustNewConstMetric(f.queued, prometheus.GaugeValue, float64(q.Waiting), q.Kind)
		ch <- prometheus.MustNewConstMetric(f.refused, prometheus.CounterValue, float64(q.Refused), q.Kind)
	}
	ch <- prometheus.MustNewConstMetric(f.limits, prometheus.GaugeValue, float64(f.limit))
	ch <- prometheus.MustNewConstMetric(f.hits, prometheus.CounterValue, float64(s.CacheHits))
	ch <- prometheus.MustNewConstMetric(f.misses, prometheus.CounterValue, float64(s.CacheMisses))
}
