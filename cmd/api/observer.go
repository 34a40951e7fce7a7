package main

import (
	"log/slog"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/telemetry"
)

// observer turns what keys has answered into figures.
type observer struct {
	metrics *telemetry.Metrics
	logger  *slog.Logger
}

// ObserveBegin counts an answered begin.
func (o observer) ObserveBegin(caller auth.Caller, begin keys.BeginObservation) {
	tenant := [16]byte(caller.Tenant)
	switch outcome := begin.Outcome.(type) {
	case keys.Acquired:
		if outcome.Resumed {
			o.metrics.Begin(tenant, telemetry.BeginResumed)
			return
		}
		o.metrics.Begin(tenant, telemetry.BeginAcquired)
		if outcome.TakenOver {
			o.metrics.Takeover()
		}
	case keys.Replay:
		o.metrics.Begin(tenant, telemetry.BeginReplay)
		o.metrics.ReplayAge(outcome.Age)
	case keys.InProgress:
		o.metrics.Begin(tenant, telemetry.BeginInProgress)
	case keys.Mismatch:
		o.metrics.Begin(tenant, telemetry.BeginMismatch)
	case keys.Unknown:
		o.metrics.Begin(tenant, telemetry.BeginUnknown)
	}
}

// ObserveLateCompletion counts a late completion.
func (o observer) ObserveLateCompletion(auth.Caller, keys.LateObservation) {
	o.metrics.LateCompletion()
}

// ObserveCorrupt counts a record that is not what its id says, and says which:
// somebody has to look at it.
func (o observer) ObserveCorrupt(caller auth.Caller, id keys.ID) {
	o.metrics.CorruptRecord()
	o.logger.Error("a stored record has another identity than its id says; its begin was refused",
		slog.String("tenant", caller.Tenant.String()), slog.String("id", id.String()))
}
