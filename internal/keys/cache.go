package keys

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/onceward/onceward/internal/auth"
)

const (
	// DefaultCacheBytes bounds the replay cache of a process where nothing
	// else is said.
	DefaultCacheBytes = 64 << 20
	// maxCachedBody keeps a few large bodies from driving out everything else.
	maxCachedBody = 256 << 10
	// heardFor is how long after it was sent an echo of the listener's own
	// notification lets entries be served.
	heardFor = 500 * time.Millisecond
	// expiryMargin, and the echo's round trip, before expires_at the database
	// is asked.
	expiryMargin = 50 * time.Millisecond
	// rowOverhead is what a cached row weighs beside its body and headers.
	rowOverhead = 768
)

// replays is the in-process cache of completed records. A completed record
// never changes until it expires, is forgotten, or its retention is shortened;
// the last two are announced by NOTIFY, in the transaction that does them.
//
// An entry is served only while the listener has heard, sent less than
// heardFor ago, a notification of its own. Notifications arrive in the order
// of their commits, so whoever has heard one sent at a moment has heard all
// invalidations that were committed before it: heardFor after a commit no
// process serves what it invalidated, reachable or not.
//
// The database's clock is extrapolated from the echo by the monotonic clock.
type replays struct {
	rows    *otter.Cache[ref, *row] // nil: off
	echo    atomic.Pointer[echo]    // the last one heard; nil: none, or the listener was lost
	nowFunc func() time.Time

	hits, misses atomic.Int64 // of lookup

	mu         sync.Mutex
	generation uint64 // guarded by mu; raised by every invalidation and gap
}

// echo is a notification of the listener's own that came back.
type echo struct {
	sentAt    time.Time // monotonic, before it was sent
	clock     time.Time // the database's, read after it was sent
	roundTrip time.Duration
}

func newReplays(maxBytes int64, nowFunc func() time.Time) *replays {
	p := &replays{nowFunc: nowFunc}
	if maxBytes > 0 {
		p.rows = otter.Must(&otter.Options[ref, *row]{
			MaximumWeight: uint64(maxBytes),
			Weigher: func(_ ref, r *row) uint32 {
				return uint32(rowOverhead + len(r.response.body) + len(r.response.headers) + len(r.key) + len(r.operation) + len(r.caller)) //nolint:gosec // bounded by maxCachedBody
			},
		})
	}
	return p
}

// lookup returns a completed record with the database's clock of now; nil
// where the database has to be asked.
func (p *replays) lookup(at ref) *row {
	r := p.find(at)
	if r == nil {
		p.misses.Add(1)
		return nil
	}
	p.hits.Add(1)
	return r
}

func (p *replays) find(at ref) *row {
	heard := p.echo.Load()
	if p.rows == nil || heard == nil {
		return nil
	}
	since := p.nowFunc().Sub(heard.sentAt)
	if since < 0 || since >= heardFor {
		return nil
	}
	kept, ok := p.rows.GetIfPresent(at)
	if !ok {
		return nil
	}
	r := *kept
	// The clock was read after sentAt, so this is the latest that it can be.
	r.now = heard.clock.Add(since)
	if !r.expiresAt.After(r.now.Add(heard.roundTrip + expiryMargin)) {
		return nil
	}
	return &r
}

// before is to be called before a record is read that keep may be given.
func (p *replays) before() (generation uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation
}

// keep stores a completed record, body included, unless anything was
// invalidated since its read began.
func (p *replays) keep(at ref, r *row, generation uint64) {
	if p.rows == nil || r.state != storedCompleted || r.expiresAt.IsZero() || len(r.response.body) > maxCachedBody {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation == generation {
		p.rows.Set(at, r)
	}
}

// invalidate drops a record, or with the zero id all of a tenant.
func (p *replays) invalidate(tenant auth.TenantID, id ID) {
	if p.rows == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	for at := range p.rows.Keys() {
		if at.tenant == tenant && (id == (ID{}) || at.id == id) {
			p.rows.Invalidate(at)
		}
	}
}

// lost drops everything: what was announced meanwhile was not heard.
func (p *replays) lost() {
	p.echo.Store(nil)
	if p.rows == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	p.rows.InvalidateAll()
}
