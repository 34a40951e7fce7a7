package client

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Lease is what a running operation holds: it says which attempt this is, and
// offers the tools for what Onceward cannot do by itself, since it cannot
// commit together with a database or a provider of yours.
type Lease struct {
	ID        RecordID
	Operation string
	Attempt   int // 1 for the first
	// TakenOver says that an earlier attempt may have done any part of the work
	// and may still be working. Only functions that are registered as resumable
	// see it true.
	TakenOver bool
	// Fence is greater for every later attempt: hand it to a resource that can
	// refuse writes with a smaller one than it has seen.
	Fence int64
	// RecoveryPoint is how far an earlier attempt came; nil where none said so.
	RecoveryPoint *RecoveryPoint
	CreatedAt     time.Time // of the record

	client *Client
	held   Held
	asked  time.Duration // the lease asked for; 0: the policy's
	said   error         // by a handler of Middleware, of itself: errHandlerNotDone, errHandlerUnknown; nil: nothing

	mu    sync.Mutex // guards grant
	grant Grant
}

func (c *Client) newLease(op Operation, a *Acquired) *Lease {
	return &Lease{
		ID: a.ID, Operation: op.name(), Attempt: a.Attempt, TakenOver: a.TakenOver, Fence: a.Lease.Fence,
		RecoveryPoint: a.RecoveryPoint, CreatedAt: a.CreatedAt,
		client: c, held: a.Held(), asked: op.Lease, grant: a.Lease,
	}
}

// ExpiresAt is when the lease ends, by the service's clock, unless it is
// renewed again; it is, for as long as the operation runs.
func (l *Lease) ExpiresAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant.ExpiresAt
}

// SetRecoveryPoint remembers how far this attempt came, for the one that takes
// over: see Client.SetRecoveryPoint.
func (l *Lease) SetRecoveryPoint(ctx context.Context, name string, data any) error {
	return l.client.SetRecoveryPoint(ctx, l.held, name, data)
}

// DownstreamKey is DownstreamKey for this record: the idempotency key for one
// step of the work at one provider, the same in every attempt.
func (l *Lease) DownstreamKey(provider, step string) string {
	return DownstreamKey(l.ID, provider, step)
}

// terms are the length of the lease, and when it ends at the earliest by this
// process's clock.
func (l *Lease) terms() (length time.Duration, end time.Time, hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.grant.length, l.grant.since.Add(l.grant.length), l.grant.OnLeaseExpiry == OnLeaseExpiryHold
}

func (l *Lease) renewed(g Grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g.Token = l.held.Token
	l.grant = g
}

type leaseKey struct{}

// LeaseFrom is the lease under which ctx runs: in a handler behind Middleware
// and in a function of Do and Batch. ok is false, and lease nil, where nothing
// protects it, such as where a route lets a request without a key through, or
// where Onceward was out of reach and Route.AllowUnprotected is set.
func LeaseFrom(ctx context.Context) (lease *Lease, ok bool) {
	lease, ok = ctx.Value(leaseKey{}).(*Lease)
	return lease, ok
}

// renewOnce makes one try to renew.
func (l *Lease) renewOnce(ctx context.Context) error {
	r, err := renewRequest(l.held, l.asked)
	if err != nil {
		return err
	}
	length, _, _ := l.terms()
	ctx, cancel := context.WithTimeout(ctx, max(length/3, time.Second))
	defer cancel()
	a, _, err := l.client.do(ctx, r, 0)
	if err != nil {
		return err
	}
	g, err := decodeGrant(a, l.asked)
	if err == nil {
		l.renewed(g)
	}
	return err
}

// keeper renews a lease at a third of its length while the operation runs.
type keeper struct {
	stop context.CancelFunc
	done chan struct{}
}

// end stops renewing and waits until nothing of it runs.
func (k *keeper) end() {
	k.stop()
	<-k.done
}

// keep renews the lease until the keeper ends. Where the lease is lost it
// calls lost, once, with an error of the code ErrLeaseLost.
func (l *Lease) keep(ctx context.Context, lost context.CancelCauseFunc) *keeper {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &keeper{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		err := l.renewUntilLost(ctx)
		if err == nil {
			return
		}
		l.client.telemetry.leasesLost.Add(ctx, 1)
		l.client.logger.ErrorContext(ctx, "onceward: the lease is lost while the operation runs; its context ends",
			slog.String("id", string(l.ID)), slog.String("operation", l.Operation), slog.Int("attempt", l.Attempt))
		lost(err)
	}()
	return k
}

// renewUntilLost returns nil once ctx ends, and an error once the lease is lost.
func (l *Lease) renewUntilLost(ctx context.Context) error {
	first, _, _ := l.terms()
	for pause := first / 3; ; {
		if sleep(ctx, l.client.clock, pause) != nil {
			return nil //nolint:nilerr // the operation has ended
		}
		err := l.renewOnce(ctx)
		length, end, hold := l.terms()
		switch left := end.Sub(l.client.clock.Now()); {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the operation has ended
		case err == nil:
			pause = length / 3
		case isFinal(err):
			return &Error{Code: ErrLeaseLost, call: callRenew, Detail: "another attempt may run, or the record was decided without this one", cause: err}
		case left <= 0 && !hold:
			// Nobody else can acquire under hold; anybody can after a takeover.
			return &Error{Code: ErrLeaseLost, call: callRenew, Detail: "the lease ended before it could be renewed", cause: err}
		default:
			pause = max(length/10, 100*time.Millisecond)
			if left > 0 && !hold {
				pause = min(pause, left)
			}
		}
	}
}

// isFinal says whether a call of a lease holder can never succeed any more.
// What only needs the service, the rate or the credential mended can.
func isFinal(err error) bool {
	switch CodeOf(err) {
	case ErrLeaseLost, ErrAlreadyCompleted, ErrNotFound:
		return true
	default:
		return false
	}
}
