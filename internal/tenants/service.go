package tenants

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/freshcache"
	"github.com/onceward/onceward/internal/problem"
)

const (
	// trust and loadTimeout keep the promise that a change of policy is in
	// force on every process within 5 s: a snapshot is at most trust old when it
	// is used, and nobody waits for a read that began longer ago.
	trust       = 4 * time.Second
	loadTimeout = 3 * time.Second

	// A snapshot is about 1 KB, and as much again for every three policy rows.
	maxSnapshots = 10_000
	maxUnknown   = 1_000
)

// Service reads and changes tenants. It is safe for use by many goroutines.
type Service struct {
	rows      *store
	snapshots *freshcache.Cache[auth.TenantID, *Snapshot]
	// random is read for ids and for the secrets of tenants.
	random io.Reader
	// actor stands in the audit trail for what this Service changes;
	// keyPresented says that it showed more than a token.
	actor        audit.Actor
	keyPresented bool
}

// New makes a Service on the database of pool. What it changes is in the name
// of audit.Local until By says otherwise.
func New(pool *pgxpool.Pool) (*Service, error) {
	return newService(&store{db: pool}, time.Now)
}

func newService(rows *store, nowFunc func() time.Time) (*Service, error) {
	snapshots, err := freshcache.New(freshcache.Config[auth.TenantID, *Snapshot]{
		LoadFunc:    rows.Snapshot,
		Trust:       trust,
		LoadTimeout: loadTimeout,
		MaxPresent:  maxSnapshots,
		MaxAbsent:   maxUnknown,
		NowFunc:     nowFunc,
	})
	if err != nil {
		return nil, err
	}
	return &Service{rows: rows, snapshots: snapshots, random: rand.Reader, actor: audit.Local(), keyPresented: true}, nil
}

// By is the same Service in the name of caller: the audit trail names it, and
// what needs the API key itself is refused (problem.Reauthenticate) where it
// presented less.
func (s *Service) By(caller auth.Caller) *Service {
	changed := *s
	changed.actor, changed.keyPresented = caller.Actor(), caller.KeyPresented
	return &changed
}

// Snapshot is what decides the tenant's calls now: read at most 4 s ago, and
// after every change that this process made. It knows namespace, however new
// that is; the zero namespace asks for none.
//
// The error is problem.KindUnavailable where the tenant cannot be read (the
// defaults never stand in), and problem.NotFound where there is no such tenant,
// as when it was deleted while its caller was at the door.
func (s *Service) Snapshot(ctx context.Context, tenant auth.TenantID, namespace auth.NamespaceID) (*Snapshot, error) {
	snapshot, err := s.snapshot(ctx, tenant)
	if err != nil || namespace == (auth.NamespaceID{}) {
		return snapshot, err
	}
	if _, known := snapshot.Namespace(namespace); known {
		return snapshot, nil
	}
	// Another process may have made the namespace since the copy was read.
	s.snapshots.Forget(tenant)
	if snapshot, err = s.snapshot(ctx, tenant); err != nil {
		return nil, err
	}
	if _, known := snapshot.Namespace(namespace); !known {
		return nil, problem.Internal(fmt.Errorf("tenant %s has no namespace %s, and a credential names it", tenant, namespace))
	}
	return snapshot, nil
}

func (s *Service) snapshot(ctx context.Context, tenant auth.TenantID) (*Snapshot, error) {
	snapshot, found, err := s.snapshots.Get(ctx, tenant)
	if err != nil {
		return nil, problem.Unavailable(err)
	}
	if !found {
		return nil, tenantNotFound()
	}
	return snapshot, nil
}

// tenantNotFound is the one answer for a tenant that is not there.
func tenantNotFound() error {
	return problem.New(problem.NotFound, "There is no such tenant.")
}
