package main

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/telemetry"
)

// batches turns what the batchers did into figures.
type batches struct{ figures *telemetry.Batches }

// ObserveBatch implements keys.BatchObserver.
func (b batches) ObserveBatch(kind keys.BatchKind, entries int, took time.Duration) {
	b.figures.Observe(int(kind), entries, took)
}

// watch shows what is read at each scrape.
func watch(metrics *telemetry.Metrics, pool *pgxpool.Pool, service *keys.Service) {
	metrics.WatchPool(pool)
	names := keys.BatchKinds()
	metrics.WatchStore(keys.QueueLimit, func() telemetry.StoreStats {
		s := service.Stats()
		figures := telemetry.StoreStats{CacheHits: s.CacheHits, CacheMisses: s.CacheMisses}
		for kind, q := range s.Queues {
			figures.Queues = append(figures.Queues, telemetry.QueueStats{Kind: names[kind], Waiting: q.Waiting, Refused: q.Refused})
		}
		return figures
	})
}

// storeErrors counts what failed in the database.
func storeErrors(metrics *telemetry.Metrics) func(postgres.ErrorKind) {
	count := metrics.StoreErrors(postgres.ErrorKinds()...)
	return func(kind postgres.ErrorKind) { count(string(kind)) }
}
