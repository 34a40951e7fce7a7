package api

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

const (
	// maxBodyRoom is how many bytes of large bodies a process holds at once, and
	// what is made of them may be as much again, twice: whoever sends slowly
	// would else fill its memory, one connection after the other. No tenant has
	// more than a quarter of it.
	maxBodyRoom          = 128 << 20
	maxBodyRoomPerTenant = maxBodyRoom / 4
	// bodyRoomTimeout is how long a large body waits for others to be done.
	bodyRoomTimeout = 5 * time.Second
)

// bodyRoom is the memory for bodies that are larger than firstReadBytes.
type bodyRoom struct {
	all *semaphore.Weighted

	mu      sync.Mutex
	tenants map[auth.TenantID]*tenantBodyRoom // guarded by mu; of those that use theirs
}

type tenantBodyRoom struct {
	own   *semaphore.Weighted
	users int // guarded by bodyRoom.mu; who has a part, or waits for one
}

func newBodyRoom() *bodyRoom {
	return &bodyRoom{all: semaphore.NewWeighted(maxBodyRoom), tenants: make(map[auth.TenantID]*tenantBodyRoom)}
}

// take has room for size more bytes of the tenant's, until giveBack, which is
// called once; where there is none it waits, or not. What is larger than all
// that a tenant may have gets that. Kinds: unavailable.
func (r *bodyRoom) take(ctx context.Context, tenant auth.TenantID, size int64, waits bool) (giveBack func(), err error) {
	size = min(size, maxBodyRoomPerTenant)
	ctx, cancel := context.WithTimeout(ctx, bodyRoomTimeout)
	defer cancel()
	mine := r.enter(tenant)
	if err := acquire(ctx, mine.own, size, waits); err != nil {
		r.leave(tenant)
		return nil, errNoBodyRoom(err)
	}
	if err := acquire(ctx, r.all, size, waits); err != nil {
		mine.own.Release(size)
		r.leave(tenant)
		return nil, errNoBodyRoom(err)
	}
	return func() {
		r.all.Release(size)
		mine.own.Release(size)
		r.leave(tenant)
	}, nil
}

var errBodyRoomFull = errors.New("the room for bodies is full")

func acquire(ctx context.Context, from *semaphore.Weighted, size int64, waits bool) error {
	switch {
	case from.TryAcquire(size):
		return nil
	case !waits:
		return errBodyRoomFull
	default:
		return from.Acquire(ctx, size)
	}
}

func (r *bodyRoom) enter(tenant auth.TenantID) *tenantBodyRoom {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.tenants[tenant]
	if mine == nil {
		mine = &tenantBodyRoom{own: semaphore.NewWeighted(maxBodyRoomPerTenant)}
		r.tenants[tenant] = mine
	}
	mine.users++
	return mine
}

func (r *bodyRoom) leave(tenant auth.TenantID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.tenants[tenant]
	if mine.users--; mine.users == 0 {
		delete(r.tenants, tenant)
	}
}

func errNoBodyRoom(cause error) error {
	e := problem.New(problem.KindUnavailable, "Too many large bodies are on their way at once. Repeat the same call; nothing is lost by repeating it. Send fewer of them side by side.")
	e.RetryAfter = time.Second
	return e.WithCause(cause)
}
