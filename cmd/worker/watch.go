package main

import (
	"context"
	"log/slog"

	"github.com/onceward/onceward/internal/telemetry"
)

// instruments are what a process tells its operators with.
type instruments struct {
	metrics  *telemetry.WorkerMetrics
	exporter *telemetry.Exporter // nil: nothing is sent
}

// flush sends what is left to be sent.
func flush(exporter *telemetry.Exporter, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := exporter.Shutdown(ctx); err != nil {
		logger.Warn("the last telemetry could not be sent", slog.Any("error", err))
	}
}
