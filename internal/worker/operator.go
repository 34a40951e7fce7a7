package worker

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.opentelemetry.io/otel/trace"
	"riverqueue.com/riverui"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
)

// UIPrefix is where the operator's listener serves River's own UI.
const UIPrefix = "/ops/river"

// Desk is what a process that runs no jobs needs of them: it enqueues, and
// shows them to the operator. It never becomes the leader.
type Desk struct {
	client *river.Client[pgx.Tx]
	logger *slog.Logger
}

// NewDesk makes a Desk. tracing makes the spans of what it enqueues; nil: none.
func NewDesk(pool *pgxpool.Pool, tracing trace.TracerProvider, logger *slog.Logger) (*Desk, error) {
	logger = slog.New(quieter{logger.Handler()})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: postgres.RiverSchema, Logger: logger, Plugins: traced(tracing)})
	if err != nil {
		return nil, fmt.Errorf("set up River: %w", err)
	}
	return &Desk{client: client, logger: logger}, nil
}

// ContinuePruning enqueues the rest of a prune on demand: of the tenant, or of
// everybody (nil). One that waits or runs already is enough.
func (d *Desk) ContinuePruning(ctx context.Context, tenant *auth.TenantID) error {
	args := pruneTenantArgs{}
	if tenant != nil {
		args.Tenant = tenant.String()
	}
	if _, err := d.client.Insert(ctx, args, nil); err != nil {
		return fmt.Errorf("enqueue the rest of a prune: %w", err)
	}
	return nil
}

// UI makes River's own UI, which shows, cancels, retries and deletes jobs. It
// asks nobody who they are: whoever mounts it does.
func (d *Desk) UI(ctx context.Context) (*riverui.Handler, error) {
	handler, err := riverui.NewHandler(&riverui.HandlerOpts{
		Endpoints: riverui.NewEndpoints(d.client, nil),
		Logger:    d.logger,
		Prefix:    UIPrefix,
	})
	if err != nil {
		return nil, fmt.Errorf("set up River's UI: %w", err)
	}
	if err := handler.Start(ctx); err != nil {
		return nil, fmt.Errorf("start River's UI: %w", err)
	}
	return handler, nil
}
