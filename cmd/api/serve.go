package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/pruning"
	"github.com/onceward/onceward/internal/tenants"
	"github.com/onceward/onceward/internal/worker"
)

// poolCloseTimeout is how long connections may take to come back at the end.
const poolCloseTimeout = time.Second

// serve wires one process together and answers until ctx ends. It never
// migrates: while the schema is too old, /readyz says no.
//
//nolint:funlen // the wiring of one process, in the order in which it ends
func serve(ctx context.Context, cfg config, pool *pgxpool.Pool, told instruments, logger *slog.Logger) error {
	setMemory(cfg)
	postgres.LogSchema(ctx, pool, logger)
	metrics := told.metrics
	authenticator, err := auth.NewAuthenticator(pool)
	if err != nil {
		return fmt.Errorf("set up authentication: %w", err)
	}
	tenantService, err := tenants.New(pool)
	if err != nil {
		return fmt.Errorf("set up tenants: %w", err)
	}
	clock := &postgres.Clock{}
	metrics.WatchClock(clock.Steps, func() bool { return clock.Doubt() != nil })
	log := audit.NewLog(pool)
	signed, err := newTokens(cfg, pool, log)
	if err != nil {
		return err
	}
	if signed != nil {
		authenticator.Accept(signed)
	}

	sessions, err := auth.NewSessions(pool)
	if err != nil {
		return fmt.Errorf("set up the dashboard's sessions: %w", err)
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var file addrFile
	defer func() {
		if err := file.remove(); err != nil {
			logger.Warn("remove the address file", slog.Any("error", err))
		}
	}()
	desk, err := worker.NewDesk(pool, told.exporter.Provider(), logger)
	if err != nil {
		return err
	}
	jobs, err := desk.UI(ctx)
	if err != nil {
		return err
	}
	recorder, stopCapture := startCapture(pool, tenantService, metrics, logger) //nolint:contextcheck // it ends after the last answer, not with the signal
	defer stopCapture()                                                         // after the last answer
	limiter := limits.New(pool)
	keyService := keys.New(keys.Config{ //nolint:contextcheck // Close ends it, after the last answer
		Pool:      pool,
		Tenants:   tenantService,
		Admission: limiter,
		Observer:  api.Capture{Recorder: recorder, Next: observer{metrics: metrics, logger: logger}},
		Tracer:    told.exporter.Tracer(),
		Batches:   batches{metrics.Batches(keys.BatchKinds()...)},
		Clock:     clock,
		Logger:    logger,

		CacheBytes: cacheBytes(cfg.ReplayCacheMiB),
	})
	watch(metrics, pool, keyService)
	defer keyService.Close() // after the listeners: what they took is answered
	var recording sync.WaitGroup
	recording.Go(func() { authenticator.RecordUses(ctx, logger) })
	recording.Go(func() { limiter.Run(ctx, logger) })
	recording.Go(func() { clock.Watch(ctx, pool, time.Now, logger) })
	defer recording.Wait()
	defer cancel(nil) // before the wait: it ends the recording
	err = api.Serve(ctx,
		api.Config{
			BaseURL: string(cfg.PublicURL),
			Auth:    authenticator,
			Tenants: tenantService,
			Keys:    keyService,
			Admin: api.Administration{
				Tenants:     tenantService,
				Credentials: auth.NewCredentials(pool, authenticator.Forget),
				Audit:       log,
				Operators:   auth.NewOperators(cfg.operatorTokens()...),
				Tokens:      signed,
				Retentions:  keys.NewRetentions(pool),
				Records:     keyService,
				Limits:      limiter,
				Usage:       limits.NewUsage(pool),
			},
			Sessions:  sessions,
			Analytics: analytics.NewService(pool),
			Pruning:   onDemand{pruning.New(pruning.Config{Pool: pool, Clock: clock, Logger: logger}), desk},
			Metrics:   metrics.Handler(logger),
			Requests:  metrics,
			Tracer:    told.exporter.Tracer(),
			Jobs:      jobs,
			Clock:     clock,
			Proxies:   api.Proxies{Trusted: cfg.TrustedProxies, Header: api.ForwardedHeader(cfg.ProxyHeader)},
			Checks: append(checks(pool),
				api.Check{Name: "clock", Run: func(context.Context) error { return clock.Doubt() }},
				api.Check{Name: "room", Advisory: true, Run: func(context.Context) error { return told.room.Lack() }}),
			Logger: logger,
		},
		api.ServeConfig{
			PublicAddr:      string(cfg.ListenAddr),
			OperatorAddr:    string(cfg.OpsListenAddr),
			CertFile:        cfg.TLSCertFile,
			KeyFile:         cfg.TLSKeyFile,
			ShutdownTimeout: cfg.ShutdownTimeout.time(),
			Started: func(at api.Addresses) {
				logger.Info("listening",
					slog.String("addr", at.Public.String()), slog.String("ops_addr", at.Operator.String()), slog.String("public_url", at.BaseURL))
				if err := file.write(cfg.AddrFile, at); err != nil {
					cancel(err)
				}
			},
		})
	if cause := context.Cause(ctx); errors.Is(cause, errAddrFile) {
		return errors.Join(cause, err)
	}
	if err != nil {
		return err
	}
	logger.Info("stopped")
	return nil
}

// cacheBytes is the setting as keys takes it, where zero means the default.
func cacheBytes(mib count) int64 {
	if mib == 0 {
		return -1
	}
	return int64(mib) << 20
}

// newTokens makes tokens as the environment says; nil: none.
func newTokens(cfg config, pool *pgxpool.Pool, log *audit.Log) (*auth.Tokens, error) {
	var source auth.KeySource
	var err error
	switch {
	case cfg.JWTKeysFile != "":
		if source, err = auth.KeysFromPEM([]byte(cfg.JWTKeysFile)); err != nil {
			return nil, fmt.Errorf("ONCEWARD_JWT_KEYS_FILE %w", err)
		}
	case cfg.sealingSecret() != "":
		if source, err = auth.KeysInDatabase(pool, cfg.sealingSecret().bytes()); err != nil {
			return nil, fmt.Errorf("set up signing keys: %w", err)
		}
	default:
		return nil, nil //nolint:nilnil // no tokens is a setting
	}
	issuer := cmp.Or(cfg.JWTIssuer, string(cfg.PublicURL), "onceward")
	return auth.NewTokens(source, issuer, log), nil
}

// checks are what /readyz asks for beside the listeners themselves.
func checks(pool *pgxpool.Pool) []api.Check {
	return []api.Check{
		{Name: "database", Run: func(ctx context.Context) error { return postgres.CheckWritable(ctx, pool) }},
		{Name: "migrations", Run: func(ctx context.Context) error { return postgres.CheckSchema(ctx, pool) }},
	}
}

// closePool does not wait for ever for a connection that a request which was
// cut off still holds: the process ends, and with it the connection.
func closePool(pool *pgxpool.Pool, logger *slog.Logger) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	timer := time.NewTimer(poolCloseTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		logger.Warn("database connections were still in use at the end", slog.Int("connections", int(pool.Stat().AcquiredConns())))
	}
}

var errAddrFile = errors.New("ONCEWARD_ADDR_FILE cannot be written")

// addrFile tells whoever started the process where it listens.
type addrFile struct {
	path string // of the file that was written; empty while there is none
}

// write makes the file whole or not at all, readable for this user only.
func (f *addrFile) write(path string, at api.Addresses) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(struct {
		URL    string `json:"url"`
		OpsURL string `json:"ops_url"`
	}{at.LocalURL, localURL(at.Operator)})
	if err != nil {
		return fmt.Errorf("%w: %w", errAddrFile, err)
	}
	// CreateTemp's mode is 0600.
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("%w: %w", errAddrFile, err)
	}
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%w: %w", errAddrFile, err), os.Remove(temp.Name()))
	}
	f.path = path
	return nil
}

// remove takes the file away, if it was written and is still there.
func (f *addrFile) remove() error {
	if f.path == "" {
		return nil
	}
	if err := os.Remove(f.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// localURL is where a process on this machine reaches a listener.
func localURL(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", tcp.Port)
	}
	return "http://" + addr.String()
}
