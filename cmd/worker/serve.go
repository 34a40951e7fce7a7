package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/pruning"
	"github.com/onceward/onceward/internal/tenants"
	"github.com/onceward/onceward/internal/worker"
)

const (
	migrationsPoll    = time.Second
	shutdownTimeout   = 2 * time.Second
	readHeaderTimeout = 5 * time.Second
	requestTimeout    = 10 * time.Second
)

// serve wires one process together and works until ctx ends. It never
// migrates: while the schema is too old it waits and /readyz says no.
func serve(ctx context.Context, cfg config, pool *pgxpool.Pool, told instruments, logger *slog.Logger) error {
	metrics := told.metrics
	clock := &postgres.Clock{}
	metrics.WatchClock(clock.Steps, func() bool { return clock.Doubt() != nil })
	pause := time.Duration(cfg.PrunePause)
	if pause == 0 {
		pause = -1 // none, where pruning takes zero for its default
	}
	w, err := worker.New(worker.Config{
		Pool:       pool,
		Pruner:     pruning.New(pruning.Config{Pool: pool, Clock: clock, Logger: logger, Batch: int(cfg.PruneBatch), Pause: pause}),
		Aggregator: analytics.NewAggregator(pool),
		Upkeep:     tenants.NewUpkeep(pool, keys.NewRetentions(pool)),
		Usage:      limits.NewUsage(pool),
		Search:     keys.NewSearchUpkeep(pool),
		Metrics:    metrics,
		Tracing:    told.exporter.Provider(),
		Logger:     logger,
		PollOnly:   bool(cfg.PollOnly),
	})
	if err != nil {
		return err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", string(cfg.ListenAddr))
	if err != nil {
		return fmt.Errorf("listen for the operator: %w", err)
	}
	page := &pages{pool: pool, clock: clock, worker: w, ctx: ctx}
	server := &http.Server{
		Handler:           page.handler(metrics.Handler(logger)),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      requestTimeout,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	broken := make(chan error, 1)
	go func() { broken <- server.Serve(listener) }()
	defer shutDown(context.WithoutCancel(ctx), server, logger)
	logger.InfoContext(ctx, "listening", slog.String("ops_addr", listener.Addr().String()))
	remove, err := writeAddr(cfg.AddrFile, listener.Addr(), logger)
	if err != nil {
		return err
	}
	defer remove()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := <-broken; !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serve the operator: %w", err))
		}
	}()
	var watching sync.WaitGroup
	watching.Go(func() { clock.Watch(ctx, pool, time.Now, logger) })
	defer watching.Wait()
	defer cancel(nil) // before the wait
	if err := waitForMigrations(ctx, pool, logger); err != nil {
		return err
	}
	if ctx.Err() == nil {
		if err := w.Run(ctx); err != nil {
			return err
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	logger.Info("stopped")
	return nil
}

// waitForMigrations returns when the schema is new enough, or ctx ends.
func waitForMigrations(ctx context.Context, pool *pgxpool.Pool, logger *slog.Logger) error {
	ticker := time.NewTicker(migrationsPoll)
	defer ticker.Stop()
	postgres.LogSchema(ctx, pool, logger)
	for {
		s, err := postgres.ReadSchema(ctx, pool)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && s.TooOld() == nil:
			return nil
		case err != nil && !postgres.IsConnectionError(err):
			return fmt.Errorf("look at the schema: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func shutDown(ctx context.Context, server *http.Server, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		logger.Warn("the operator's listener did not end in time", slog.Any("error", err))
		_ = server.Close()
	}
}

// pages are what the operator's listener shows.
type pages struct {
	pool   *pgxpool.Pool
	clock  *postgres.Clock
	worker *worker.Worker
	ctx    context.Context //nolint:containedctx // of the process: its end is what /readyz tells
}

func (p *pages) handler(metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
	})
	mux.HandleFunc("GET /readyz", p.readyz)
	mux.Handle("GET /metrics", metrics)
	return mux
}

// readiness is the answer of /readyz: why not, and when each job last ran.
type readiness struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitzero"`
	Jobs   []job  `json:"jobs"`
}

type job struct {
	Kind          string     `json:"kind"`
	LastSucceeded *time.Time `json:"last_succeeded_at"`
	LastFailed    *time.Time `json:"last_failed_at"`
	AgeSeconds    *float64   `json:"age_seconds"`
	Runs          int64      `json:"runs"`
	Failures      int64      `json:"failures"`
}

func (p *pages) readyz(w http.ResponseWriter, r *http.Request) {
	answer := readiness{Ready: true, Jobs: []job{}}
	err := postgres.CheckSchema(r.Context(), p.pool)
	switch {
	case p.ctx.Err() != nil:
		answer.Ready, answer.Reason = false, "the process is shutting down"
	case err != nil:
		answer.Ready, answer.Reason = false, err.Error()
	case p.clock.Doubt() != nil:
		answer.Ready, answer.Reason = false, p.clock.Doubt().Error()
	}
	if answer.Ready {
		jobs, err := p.worker.Jobs(r.Context())
		if err != nil {
			answer.Ready, answer.Reason = false, err.Error()
		}
		for _, j := range jobs {
			line := job{Kind: j.Kind, LastSucceeded: orNull(j.LastSucceeded), LastFailed: orNull(j.LastFailed), Runs: j.Runs, Failures: j.Failures}
			if !j.LastSucceeded.IsZero() {
				age := j.Age.Seconds()
				line.AgeSeconds = &age
			}
			answer.Jobs = append(answer.Jobs, line)
		}
	}
	status := http.StatusOK
	if !answer.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever asked is gone
}

// writeAddr tells whoever started the process where it listens, in a file that
// is whole or not there, readable for this user only.
func writeAddr(path string, addr net.Addr, logger *slog.Logger) (remove func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	text, err := json.Marshal(struct {
		OpsURL string `json:"ops_url"`
	}{"http://" + addr.String()})
	if err != nil {
		return nil, fmt.Errorf("write ONCEWARD_WORKER_ADDR_FILE: %w", err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // its mode is 0600
	if err != nil {
		return nil, fmt.Errorf("write ONCEWARD_WORKER_ADDR_FILE: %w", err)
	}
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write ONCEWARD_WORKER_ADDR_FILE: %w", err), os.Remove(temp.Name()))
	}
	return func() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			logger.Warn("remove the address file", slog.Any("error", err))
		}
	}, nil
}
