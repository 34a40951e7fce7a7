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
	s.settleAdmission(e, outcome)
	if _, acquired := outcome.(Acquired); acquired {
		s.feed.note(e.ref)
	}
	s.observer.ObserveBegin(e.by, BeginObservation{Operation: e.operation, Caller: e.caller, Key: e.key, Outcome: outcome})
}

// decideOne decides a valid entry, body included. It travels with the batches
// of its kind.
func (s *Service) decideOne(ctx context.Context, e *entry) (Outcome, error) {
	if err := s.clock.Doubt(); err != nil {
		return nil, problem.Unavailable(err)
	}
	if kept := s.replays.lookup(e.ref); kept != nil {
		if outcome, settled, err := s.settle(ctx, e, kept); settled {
			return outcome, err
		}
	}
	for range maxRounds {
		if e.refusal == nil {
			made, err := ask(ctx, s, s.inserts, e, e.by.DatabaseNanos)
			if err != nil {
				return nil, translate(err)
			}
			if made != nil {
				return made.acquired(e), nil
			}
		}
		generation := s.replays.before()
		seen, err := ask(ctx, s, s.reads, e.ref, e.by.DatabaseNanos)
		if err != nil {
			return nil, translate(err)
		}
		outcome, settled, err := s.settle(ctx, e, seen)
		if settled || err != nil {
			if replay, ok := outcome.(Replay); ok {
				kept := *seen // seen is shared by all who read it in one batch
				kept.response.body = replay.stored.body
				s.replays.keep(e.ref, &kept, generation)
			}
			return outcome, err
		}
	}
	return nil, errStorm()
}

func (s *Service) entry(ctx context.Context, caller auth.Caller, req BeginRequest) (*entry, error) {
	snapshot, err := s.tenants.Snapshot(ctx, caller.Tenant, caller.Namespace)
	if err != nil {
		return nil, err
	}
	e, err := newEntry(caller, snapshot, req, s.newOwnerFunc)
	if err != nil {
		return nil, err
	}
	s.admit(e)
	return e, nil
}

// begin decides entries that name each record once, all in the same round
// trips; results[i] becomes entries[i]'s. Bodies larger than inlineBodyBytes
// are not loaded.
func (s *Service) begin(ctx context.Context, entries []*entry, results []result) {
	if err := s.clock.Doubt(); err != nil {
		for i := range results {
			results[i].err = problem.Unavailable(err)
		}
		return
	}
	pending := make([]int, len(entries))
	for i := range pending {
		pending[i] = i
	}
	slices.SortFunc(pending, func(a, b int) int { return entries[a].compare(entries[b].ref) })
	for range maxRounds {
		if pending = s.beginRound(ctx, entries, results, pending); len(pending) == 0 {
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
	began := s.nowFunc()
	made, rows, err := s.insertThenRead(ctx, sorted)
	if spent := sorted[0].by.DatabaseNanos; spent != nil {
		spent.Add(int64(s.nowFunc().Sub(began)))
	}
	for n, i := range pending {
		switch {
		case err != nil:
			results[i].err = translate(err)
		case made[n] != nil:
			results[i].outcome = made[n].acquired(entries[i])
		default:
			outcome, settled, err := s.decide(ctx, entries[i], rows[n])
			if results[i] = (result{outcome, err}); !settled && err == nil {
				again = append(again, i)
			}
		}
	}
	return again
}

// insertThenRead does what the batchers do for single begins, for a batch
// that is one already.
func (s *Service) insertThenRead(ctx context.Context, sorted []*entry) (made []*inserted, rows []*row, err error) {
	pool := pooled(*s.store)
	made = make([]*inserted, len(sorted))
	var admitted []*entry
	var admittedPlaces []int
	for i, e := range sorted {
		if e.refusal == nil {
			admitted, admittedPlaces = append(admitted, e), append(admittedPlaces, i)
		}
	}
	if len(admitted) > 0 {
		var results []*inserted
		err = repeat(ctx, s.nowFunc, func() (err error) {
			results, err = insert(ctx, pool, admitted)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		for n, i := range admittedPlaces {
			made[i] = results[n]
		}
	}
	var losers []ref
	var places []int
	for i, e := range sorted {
		if made[i] == nil {
			losers, places = append(losers, e.ref), append(places, i)
		}
	}
	rows = make([]*row, len(sorted))
	if len(losers) == 0 {
		return made, rows, nil
	}
	found, err := readRows(ctx, pool, losers)
	if err != nil {
		return nil, nil, err
	}
	for n, i := range places {
		rows[i] = found[n]
	}
	return made, rows, nil
}

// settle is decide with the body of a replay loaded.
func (s *Service) settle(ctx context.Context, e *entry, seen *row) (outcome Outcome, settled bool, err error) {
	outcome, settled, err = s.decide(ctx, e, seen)
	replay, isReplay := outcome.(Replay)
	if !isReplay {
		return outcome, settled, err
	}
	complete, err := s.loadReplays(ctx, []loading{{e.ref, &replay}})
	if err != nil {
		return nil, true, err
	}
	return replay, complete[0], nil // incomplete: it ended between the two reads
}

// decide decides about the row that an entry met and writes what was decided;
// settled is false where the row changed or went away meanwhile.
func (s *Service) decide(ctx context.Context, e *entry, seen *row) (outcome Outcome, settled bool, err error) {
	if e.refusal != nil && (seen == nil || seen.expired()) {
		s.admission.Refused(e.tenant)
		return nil, true, e.refusal
	}
	if seen == nil {
		return nil, false, nil
	}
	d := decide(e, seen)
	switch d.action {
	case actAnswer:
		return e.clean(d.outcome), true, nil
	case actCorrupt:
		s.observer.ObserveCorrupt(e.by, e.id)
		return nil, true, problem.Internal(errCorrupt)
	case actRestart, actReplace, actReopen, actTakeOver, actResume:
	}
	var after *row
	err = repeat(ctx, s.nowFunc, func() (err error) {
		after, err = s.store.acquire(ctx, e, seen, d.action)
		return err
	})
	switch {
	case err != nil:
		return nil, true, translate(err)
	case after == nil:
		return nil, false, nil
	default:
		return e.clean(after.acquired(e, d.action == actResume)), true, nil
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
	case errors.Is(err, errGone), errors.Is(err, context.Canceled), errors.Is(err, errUnknownCommit):
		return problem.Unavailable(err)
	case postgres.IsConnectionError(err), postgres.IsReadOnly(err), postgres.IsOutOfResources(err), postgres.IsDeadlock(err),
		postgres.IsLockNotAvailable(err), postgres.IsSerialization(err):
		return problem.Unavailable(err)
	default:
		return problem.Internal(err)
	}
}
