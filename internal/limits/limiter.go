// Package limits owns how much a tenant may use: the buckets that its requests
// and new records are taken from, what it holds, and the record of its use.
//
// All of it is kept in memory and agreed upon between processes once a second,
// off the path of every call: a limit holds over all processes within 20 %, and
// a database that is down stops no call. It must not decide which calls count:
// its users do.
package limits

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

const (
	refreshInterval = time.Second
	refreshTimeout  = 5 * time.Second

	// requestBurst and newKeysBurst are how many seconds' worth of its rate a
	// bucket holds. A caller may spend a minute's new records at once.
	requestBurst = 0.5
	newKeysBurst = 60

	// leastShare keeps a process that has just woken from waiting for its share.
	leastShare = 0.02
	// publishedAbove is the part of a limit from which the processes tell each
	// other of a caller: below it there is nothing to share.
	publishedAbove = 0.1

	maxBuckets = 100_000
)

// kind is what a bucket is of.
type kind uint8

const (
	tenantRequests    kind = iota
	namespaceRequests      // of all its callers
	callerRequests         // of one caller in one namespace
	newKeys                // new records of one caller in one namespace
)

// key names a bucket. The parts that its kind does not have are zero.
type key struct {
	kind      kind
	tenant    auth.TenantID
	namespace auth.NamespaceID
	caller    string
}

// Scope is whose rate a Decision is about, as RateLimit names it.
type Scope string

// The scopes of a rate.
const (
	OfTenant    Scope = "tenant"
	OfNamespace Scope = "namespace"
	OfCaller    Scope = "caller"
)

// bucket is this process's part of one limit.
type bucket struct {
	limit  float64 // per second, over all processes
	burst  float64 // seconds
	share  float64 // of this process, 0 to 1
	tokens float64
	at     time.Time // of tokens
	asked  float64   // since the last refresh, refused ones included
	demand float64   // per second, smoothed
}

func (b *bucket) size() float64 { return math.Max(b.limit*b.share*b.burst, 1) }

// giveBack is for what was taken and not used.
func (b *bucket) giveBack(n float64) { b.tokens = math.Min(b.tokens+n, b.size()) }

// Decision is what a bucket says, for the answer's headers.
type Decision struct {
	Allowed   bool
	Limited   bool // there is a limit at all
	Of        Scope
	Limit     int64
	Remaining int64
	Reset     time.Duration // until there is one more
}

// Nearer says whether d binds more than other: it refuses, or leaves less.
func (d Decision) Nearer(other Decision) bool {
	if d.Allowed != other.Allowed {
		return !d.Allowed
	}
	if d.Allowed {
		return d.Remaining < other.Remaining
	}
	return d.Reset > other.Reset
}

// held is what a tenant holds, as last read, and what was added here since.
type held struct {
	known                bool
	records, bytes       int64
	newRecords, newBytes int64
}

type day struct{ requests, newRecords, limited int64 }

// Limiter is one process's part of all limits. It is safe for use by many
// goroutines.
type Limiter struct {
	rows    *store
	process uuid.UUID
	nowFunc func() time.Time

	mu          sync.Mutex // guards all below
	buckets     map[key]*bucket
	held        map[auth.TenantID]*held
	days        map[auth.TenantID]*day
	processes   int // that live, this one included
	refreshedAt time.Time
	rounds      int
}

// New makes a Limiter on the database of pool. Run keeps it in step with the
// others.
func New(pool *pgxpool.Pool) *Limiter { return newLimiter(pool, time.Now) }

func newLimiter(pool *pgxpool.Pool, nowFunc func() time.Time) *Limiter {
	l := &Limiter{
		rows: &store{db: pool}, nowFunc: nowFunc, buckets: make(map[key]*bucket), held: make(map[auth.TenantID]*held),
		days: make(map[auth.TenantID]*day), processes: 1, refreshedAt: nowFunc(),
	}
	_, _ = rand.Read(l.process[:]) // never fails (package crypto/rand)
	return l
}

// Request takes n requests of a tenant and, where it is not zero, of a namespace
// of it: from both, or where either refuses from none. The Decision is that of
// the one that binds.
func (l *Limiter) Request(tenant auth.TenantID, namespace auth.NamespaceID, limits tenants.Limits, n int) Decision {
	l.mu.Lock()
	defer l.mu.Unlock()
	today := l.day(tenant)
	today.requests += int64(n)
	d := Decision{Allowed: true}
	var ofTenant *bucket
	if limits.RequestsPerSecond != nil {
		d, ofTenant = l.take(key{kind: tenantRequests, tenant: tenant}, *limits.RequestsPerSecond, float64(n))
		d.Of = OfTenant
	}
	if limits.NamespaceRequestsPerSecond != nil && namespace != (auth.NamespaceID{}) {
		inside, ofNamespace := l.take(key{kind: namespaceRequests, tenant: tenant, namespace: namespace}, *limits.NamespaceRequestsPerSecond, float64(n))
		inside.Of = OfNamespace
		switch {
		case ofTenant != nil && d.Allowed && !inside.Allowed:
			ofTenant.giveBack(float64(n))
		case inside.Allowed && !d.Allowed:
			ofNamespace.giveBack(float64(n))
		}
		if !d.Limited || inside.Nearer(d) {
			d = inside
		}
	}
	if !d.Allowed {
		today.limited += int64(n)
	}
	return d
}

// CallerRequest takes one begin of a caller in a namespace. It is one that
// Request has counted.
func (l *Limiter) CallerRequest(tenant auth.TenantID, namespace auth.NamespaceID, limits tenants.Limits, caller string) Decision {
	if limits.CallerRequestsPerSecond == nil {
		return Decision{Allowed: true}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d, _ := l.take(key{callerRequests, tenant, namespace, caller}, *limits.CallerRequestsPerSecond, 1)
	d.Of = OfCaller
	if !d.Allowed {
		l.day(tenant).limited++
	}
	return d
}

// Reserve asks for one new record of a caller (problem.RateLimited) and for
// room for it (problem.QuotaExceeded); nil: there is. What was reserved and not
// used is given back by Settle.
func (l *Limiter) Reserve(tenant auth.TenantID, limits tenants.Limits, namespace auth.NamespaceID, caller string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limits.LiveRecords != nil || limits.StoredBytes != nil {
		h := l.heldBy(tenant)
		if limits.LiveRecords != nil && h.known && h.records+h.newRecords >= *limits.LiveRecords {
			return problem.New(problem.QuotaExceeded, "The tenant holds as many live records as it may, %d. Shorten a retention or ask for more; replays and leases go on.", *limits.LiveRecords)
		}
		if limits.StoredBytes != nil && h.known && h.bytes+h.newBytes >= *limits.StoredBytes {
			return problem.New(problem.QuotaExceeded, "The tenant stores as many bytes as it may, %d. Shorten a retention, set store_body to none, or ask for more; replays and leases go on.", *limits.StoredBytes)
		}
	}
	if caller == "" {
		return nil
	}
	d, _ := l.takeFrom(key{newKeys, tenant, namespace, caller}, float64(limits.NewKeysPerMinute)/60, newKeysBurst, 1)
	if d.Allowed {
		return nil
	}
	refusal := problem.New(problem.RateLimited, "This caller has made as many new keys as it may, %d a minute. Retries of keys that exist are answered; a new one may be made after Retry-After.", limits.NewKeysPerMinute)
	refusal.RetryAfter = max(d.Reset, time.Second)
	return refusal
}

// Refused counts a begin that was refused a new record.
func (l *Limiter) Refused(tenant auth.TenantID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.day(tenant).limited++
}

// Settle says what became of a reservation: a new record, or none.
func (l *Limiter) Settle(tenant auth.TenantID, namespace auth.NamespaceID, caller string, made bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if made {
		l.day(tenant).newRecords++
		l.heldBy(tenant).newRecords++
		return
	}
	if b := l.buckets[key{newKeys, tenant, namespace, caller}]; b != nil {
		b.giveBack(1)
		b.asked = math.Max(b.asked-1, 0)
	}
}

// Stored counts the bytes of a stored response.
func (l *Limiter) Stored(tenant auth.TenantID, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heldBy(tenant).newBytes += int64(bytes)
}

// take takes n requests from the bucket of a rate. Holds l.mu.
func (l *Limiter) take(k key, perSecond int64, n float64) (Decision, *bucket) {
	d, b := l.takeFrom(k, float64(perSecond), requestBurst, n)
	d.Limit = perSecond
	return d, b
}

// takeFrom takes n from a bucket. More than the bucket ever holds goes too, once it
// is full: the debt is waited for by those who come next. Holds l.mu.
func (l *Limiter) takeFrom(k key, limit, burst, n float64) (Decision, *bucket) {
	now := l.nowFunc()
	b := l.buckets[k]
	if b == nil {
		b = &bucket{limit: limit, burst: burst, share: 1 / float64(l.processes), at: now}
		b.tokens = b.size()
		if len(l.buckets) < maxBuckets {
			l.buckets[k] = b
		}
	}
	b.limit = limit
	rate := b.limit * b.share
	b.tokens = math.Min(b.tokens+rate*now.Sub(b.at).Seconds(), b.size())
	b.at = now
	b.asked += n
	d := Decision{Limited: true, Allowed: b.tokens >= math.Min(n, b.size())}
	if d.Allowed {
		b.tokens -= n
	}
	d.Remaining = int64(math.Max(b.tokens, 0))
	if b.tokens < 1 {
		d.Reset = time.Duration((1 - b.tokens) / rate * float64(time.Second))
	}
	return d, b
}

func (l *Limiter) day(tenant auth.TenantID) *day {
	d := l.days[tenant]
	if d == nil {
		d = &day{}
		l.days[tenant] = d
	}
	return d
}

func (l *Limiter) heldBy(tenant auth.TenantID) *held {
	h := l.held[tenant]
	if h == nil {
		h = &held{}
		l.held[tenant] = h
	}
	return h
}

// Run keeps the process in step with the others until ctx ends, and tells of
// its last use then.
func (l *Limiter) Run(ctx context.Context, logger *slog.Logger) {
	ticker := time.NewTicker(refreshInterval)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ended = true
		}
		refreshing, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		err := l.Refresh(refreshing)
		cancel()
		if errors.Is(err, puddle.ErrClosedPool) {
			return
		}
		if err != nil {
			logger.Warn("share the limits with the other processes", slog.Any("error", err))
		}
	}
}

// Refresh tells the others of this process's demand and use, and takes the
// share that is its part of what all are asked for.
func (l *Limiter) Refresh(ctx context.Context) error {
	demands, counted := l.collect()
	totals, processes, err := l.rows.Exchange(ctx, l.process, demands)
	if err != nil {
		l.putBack(counted)
		return err
	}
	l.share(demands, totals, processes)
	if err := l.rows.AddUse(ctx, counted); err != nil {
		l.putBack(counted)
		return err
	}
	l.mu.Lock()
	l.rounds++
	sweep := l.rounds%60 == 0
	l.mu.Unlock()
	if sweep {
		if err := l.rows.Sweep(ctx); err != nil {
			return err
		}
	}
	read, err := l.rows.Held(ctx, l.watched())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for tenant, h := range read {
		mine := l.heldBy(tenant)
		mine.known, mine.records, mine.bytes = true, h.records, h.bytes
	}
	return nil
}
