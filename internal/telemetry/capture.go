package telemetry

import "github.com/prometheus/client_golang/prometheus"

// CaptureStats are the figures about the capture of analytics in one process.
type CaptureStats struct {
	Flushes, FlushFailures, DroppedEvents, FoldedSeries, LostCounts int64
}

// WatchCapture shows what read returns at each scrape. It is called once.
func (m *Metrics) WatchCapture(read func() CaptureStats) {
	counter := func(name, help string, of func(CaptureStats) int64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(of(read())) }))
	}
	counter("onceward_analytics_flushes_total", "Flushes of analytics that reached the database.",
		func(s CaptureStats) int64 { return s.Flushes })
	counter("onceward_analytics_flush_failures_total", "Flushes of analytics that failed. Each is tried again.",
		func(s CaptureStats) int64 { return s.FlushFailures })
	counter("onceward_analytics_events_dropped_total", "Single events that found the buffer full. They are counted all the same.",
		func(s CaptureStats) int64 { return s.DroppedEvents })
	counter("onceward_analytics_folded_total", "Outcomes whose operation or caller found no room to be counted apart.",
		func(s CaptureStats) int64 { return s.FoldedSeries })
	counter("onceward_analytics_lost_total", "Outcomes that are in no figure. Must stay at zero.",
		func(s CaptureStats) int64 { return s.LostCounts })
}
