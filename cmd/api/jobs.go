package main

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/pruning"
	"github.com/onceward/onceward/internal/telemetry"
	"github.com/onceward/onceward/internal/tenants"
	"github.com/onceward/onceward/internal/worker"
)

// startCapture begins to count what this process answers. stop is called after
// the last answer: it writes what is left.
func startCapture(pool *pgxpool.Pool, tenantService *tenants.Service, metrics *telemetry.Metrics, logger *slog.Logger) (recorder *analytics.Recorder, stop func()) {
	recorder = analytics.New(analytics.Config{Pool: pool, Tenants: tenantService, Logger: logger})
	metrics.WatchCapture(func() telemetry.CaptureStats { return telemetry.CaptureStats(recorder.Stats()) })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- recorder.Run(ctx) }()
	return recorder, func() {
		cancel()
		if err := <-ended; err != nil {
			logger.Error("the end of analytics", slog.Any("error", err))
		}
	}
}

// onDemand is pruning while a caller waits, and by a job for what takes longer.
type onDemand struct {
	*pruning.Pruner
	*worker.Desk
}
