package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/telemetry"
)

// flushTimeout is how long the end of a process waits for the collector.
const flushTimeout = 2 * time.Second

// instruments are what a process tells its operators with.
type instruments struct {
	metrics  *telemetry.Metrics
	exporter *telemetry.Exporter // nil: nothing is sent
	lines    *telemetry.Lines    // of the log
	room     *postgres.Room
}

// database is how the process opens its database.
func (told instruments) database(cfg config) postgres.Config {
	database := postgres.Config{URL: cfg.Database.URL(), MaxConns: int32(cfg.DBMaxConns), ApplicationName: "onceward-api", OnError: storeErrors(told.metrics, told.room)}
	if statements := told.exporter.Statements(); statements != nil {
		database.Tracer = statements
	}
	return database
}

// newInstruments makes them, and begins to send where the environment says so.
// The log goes to stderr, and out as well where logs do.
func newInstruments(ctx context.Context, cfg config, stderr io.Writer) (instruments, *slog.Logger, error) {
	lines := telemetry.NewLines(stderr)
	logger := telemetry.NewLogger(lines, cfg.LogLevel.Slog())
	metrics := telemetry.NewMetrics()
	if cfg.MetricsTenants {
		metrics.AllowTenants()
	}
	exporter, err := metrics.Export(ctx, cfg.targets, "onceward-api", logger)
	return instruments{metrics, exporter, lines, postgres.NewRoom(time.Now)}, exporter.Logger(logger), err
}

// flush sends what is left to be sent.
func (told instruments) flush(logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := told.exporter.Shutdown(ctx); err != nil {
		logger.Warn("the last telemetry could not be sent", slog.Any("error", err))
	}
	_ = told.lines.Flush() // a log that cannot be written is nobody's failure
}

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

// storeErrors counts what failed in the database, and remembers want of room.
func storeErrors(metrics *telemetry.Metrics, room *postgres.Room) func(postgres.ErrorKind) {
	count := metrics.StoreErrors(postgres.ErrorKinds()...)
	return func(kind postgres.ErrorKind) {
		count(string(kind))
		room.Note(kind)
	}
}
