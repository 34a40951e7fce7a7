package keys

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

const (
	// maxRounds bounds how often a begin decides again because the row changed
	// between the look and the write. Each round that fails means that another
	// call of the same record succeeded, so a caller meets it only as a storm.
	maxRounds = 64
	// repeatFor is how long a statement whose outcome is unknown is repeated
	// before the caller is told 503. Repeating is safe: the row carries the
	// owner of the begin that made it.
	repeatFor   = 2 * time.Second
	repeatPause = 20 * time.Millisecond
)

// BatchEntry is one begin of a batch; Err is set where it could not even be
// read, and is emitted as it is.
type BatchEntry struct {
	Request BeginRequest
	Err     error
}

// result is what became of one entry.
type result struct {
	outcome Outcome
	err     error
}

// Begin decides one begin (wire contract, section 3). Kinds: missing_key,
// invalid_key, invalid_request, body_too_large, forbidden, unavailable,
// internal. A record of another tenant, namespace or caller is never met: its
// identity is another one.
func (s *Service) Begin(ctx context.Context, caller auth.Caller, req BeginRequest) (Outcome, error) {
	e, err := s.entry(ctx, caller, req)
	if err != nil {
		return nil, err
	}
	return s.beginOne(ctx, e)
}

// beginOne decides a valid entry and tells the observer.
func (s *Service) beginOne(ctx context.Context, e *entry) (Outcome, error) {
	outcome, err := s.decideOne(ctx, e)
	if err == nil {
		s.observe(e, outcome)
	}
	return outcome, err
}

func (s *Service) observe(e *entry, outcome Outcome) {
	s.observer.ObserveBegin(e.by, BeginObservation{Operation: e.operation, Caller: e.caller, Key: e.key, Outcome: outcome})
}

// decideOne decides a valid entry, body included.
func (s *Service) decideOne(ctx context.Context, e *entry) (Outcome, error) {
	for range maxRounds {
		results := []result{{}}
		s.begin(ctx, []*entry{e}, results)
		replay, isReplay := results[0].outcome.(Replay)
		if results[0].err != nil || !isReplay {
			return results[0].outcome, results[0].err
		}
		complete, err := s.loadReplays(ctx, []loading{{e.ref, &replay}})
		if err != nil {
			return nil, err
		}
		if complete[0] {
			return replay, nil
		}
		// The record ended between the look and the read of its large body.
	}
	return nil, errStorm()
}

func (s *Service) entry(ctx context.Context, caller auth.Caller, req BeginRequest) (*entry, error) {
	snapshot, err := s.tenants.Snapshot(ctx, caller.Tenant, caller.Namespace)
	if err != nil {
		return nil, err
	}
	return newEntry(caller, snapshot, req, s.newOwnerFunc)
}

// begin decides entries that name each record once, all in the same round
// trips; results[i] becomes entries[i]'s. Bodies larger than inlineBodyBytes
// are not loaded.
func (s *Service) begin(ctx context.Context, entries []*entry, results []result) {
	pending := make([]int, len(entries))
	for i := range pending {
		pending[i] = i
	}
	slices.SortFunc(pending, func(a, b int) int { return entries[a].compare(entries[b].ref) })
	for range maxRounds {
		pending = s.beginRound(ctx, entries, results, pending)
		if len(pending) == 0 {
			return
		}
	}
	for _, i := range pending {
		results[i].err = errStorm()
	}
}

// beginRound makes what does not exist, decides what does, and returns the
// places that have to be decided again.
func (s *Service) beginRound(ctx context.Context, entries []*entry, results []result, pending []int) (again []int) {
	sorted := make([]*entry, len(pending))
	for n, i := range pending {
		sorted[n] = entries[i]
	}
	founds, err := s.insertOrRead(ctx, sorted)
	if err != nil {
		for _, i := range pending {
			results[i].err = translate(err)
		}
		return nil
	}
	for n, i := range pending {
		switch e, met := entries[i], founds[n]; {
		case met.inserted != nil:
			results[i].outcome = met.inserted.acquired(e)
		case met.row == nil:
			again = append(again, i)
		default:
			var settled bool
			if results[i], settled = s.settle(ctx, e, met.row); !settled {
				again = append(again, i)
			}
		}
	}
	return again
}

// insertOrRead repeats the pipeline while its outcome is unknown. A row that
// then carries the entry's own owner is its success: decide resumes it.
func (s *Service) insertOrRead(ctx context.Context, sorted []*entry) ([]found, error) {
	var founds []found
	err := s.repeat(ctx, func() (err error) {
		founds, err = s.store.insertOrRead(ctx, sorted)
		return err
	})
	return founds, err
}

// settle decides about a row that exists and writes what was decided; settled
// is false where the row changed meanwhile.
func (s *Service) settle(ctx context.Context, e *entry, seen *row) (res result, settled bool) {
	d := decide(e, seen)
	switch d.action {
	case actAnswer:
		return result{outcome: e.clean(d.outcome)}, true
	case actCorrupt:
		s.observer.ObserveCorrupt(e.by, e.id)
		return result{err: problem.Internal(errCorrupt)}, true
	case actRestart, actReplace, actReopen, actTakeOver, actResume:
	}
	var after *row
	err := s.repeat(ctx, func() (err error) {
		after, err = s.store.acquire(ctx, e, seen, d.action)
		return err
	})
	switch {
	case err != nil:
		return result{err: translate(err)}, true
	case after == nil:
		return result{}, false
	default:
		return result{outcome: e.clean(after.acquired(e, d.action == actResume))}, true
	}
}

// clean takes back the mark of a resumption that only this process knows of:
// the caller sent no owner, so it cannot have repeated anything; a pipeline of
// ours did.
func (e *entry) clean(o Outcome) Outcome {
	if a, ok := o.(Acquired); ok && e.ownerMinted {
		a.Resumed = false
		return a
	}
	return o
}

func (in *inserted) acquired(e *entry) Acquired {
	r := row{fence: in.fence, attempt: 1, hold: e.hold, createdAt: in.createdAt, leaseExpiresAt: in.leaseExpiresAt, expiresAt: in.expiresAt}
	return r.acquired(e, false)
}

// repeat runs a statement again while its outcome is unknown or a deadlock
// ended it, for repeatFor at most. The statement must be safe to repeat.
func (s *Service) repeat(ctx context.Context, run func() error) error {
	giveUp := s.nowFunc().Add(repeatFor)
	for {
		err := run()
		if err == nil || !postgres.IsConnectionError(err) && !postgres.IsDeadlock(err) {
			return err
		}
		if !s.nowFunc().Before(giveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(repeatPause):
		}
	}
}

var errCorrupt = errors.New("the row under this id has another identity: refused, never replayed")

// errStorm says that a record changed under every look at it.
func errStorm() error {
	return problem.Unavailable(errors.New("the record changed between every look and write"))
}

// translate turns a driver's error into the problem that the caller sees.
func translate(err error) error {
	var p *problem.Error
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, errGone), errors.Is(err, context.Canceled):
		return problem.Unavailable(err)
	case postgres.IsConnectionError(err), postgres.IsReadOnly(err), postgres.IsDeadlock(err),
		postgres.IsLockNotAvailable(err), postgres.IsSerialization(err):
		return problem.Unavailable(err)
	default:
		return problem.Internal(err)
	}
}
