package keys

import (
	"context"
	"crypto/rand"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// Snapshots is what keys needs of tenants: everything under which a call of
// the tenant is decided. The snapshot knows the given namespace, however new
// it is (zero: any). An error is problem.KindUnavailable: never a default.
type Snapshots interface {
	Snapshot(ctx context.Context, tenant auth.TenantID, namespace auth.NamespaceID) (*tenants.Snapshot, error)
}

// Config is what a Service is made of.
type Config struct {
	Pool     *pgxpool.Pool
	Tenants  Snapshots
	Observer Observer     // nil: nobody is told
	Logger   *slog.Logger // nil: discarded
	// PollInterval is how often the records that somebody waits for are looked
	// at; zero means 50 ms. One statement for all of them.
	PollInterval time.Duration
}

// Service answers the calls of the wire contract, sections 3 to 5. It is safe
// for use by many goroutines.
type Service struct {
	store    *store
	tenants  Snapshots
	observer Observer
	logger   *slog.Logger
	waits    *waits

	newOwnerFunc func() string
	nowFunc      func() time.Time // this process's clock: only for how long to go on trying
}

// New makes a Service. Drain ends its waits at shutdown.
func New(c Config) *Service {
	if c.Observer == nil {
		c.Observer = discard{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.PollInterval == 0 {
		c.PollInterval = 50 * time.Millisecond
	}
	st := &store{pool: c.Pool}
	return &Service{
		store: st, tenants: c.Tenants, observer: c.Observer, logger: c.Logger,
		waits:        newWaits(st, c.PollInterval, c.Logger),
		newOwnerFunc: rand.Text, // 26 characters of base 32: at least 128 bits
		nowFunc:      time.Now,
	}
}

// Drain makes every parked wait, and every later one, answer at once. The
// process is about to stop; the caller is told to ask again.
func (s *Service) Drain() { s.waits.drain() }
