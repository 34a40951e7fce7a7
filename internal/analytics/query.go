package analytics

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres"
	"github.com/onceward/onceward/internal/problem"
)

// Step is the length of one row of an answer over time.
type Step string

// The steps. Days and hours are those of UTC.
const (
	StepMinute Step = "minute"
	StepHour   Step = "hour"
	StepDay    Step = "day"
)

// Length is zero for what is no step.
func (s Step) Length() time.Duration {
	switch s {
	case StepMinute:
		return time.Minute
	case StepHour:
		return time.Hour
	case StepDay:
		return day
	default:
		return 0
	}
}

const (
	// maxSteps is how many rows an answer over time has at most: a day of
	// minutes, two months of hours.
	maxSteps = 1_500
	// defaultSpan is how far back an answer goes where nobody said.
	defaultSpan = 24 * time.Hour

	defaultGroups = 100
	maxGroups     = 1_000
)

// Query says what is asked about. Zero fields do not narrow it down.
type Query struct {
	From, To  time.Time // from inclusive, to exclusive; zero: the last 24 hours
	Step      Step      // of Outcomes; empty: hour
	Namespace auth.NamespaceID
	Operation string
	Caller    *string // of which the empty one is a caller too
	// Limit is how many operations or callers are listed; zero means 100.
	Limit int
}

func (q Query) filtered() bool {
	return q.Namespace != (auth.NamespaceID{}) || q.Operation != "" || q.Caller != nil
}

// Figures are counts of what was answered.
type Figures struct {
	counts [outcomes]int64
}

// Of is how often the outcome was answered.
func (f Figures) Of(o Outcome) int64 { return f.counts[o] }

// Begins are all begins that were decided (wire contract, section 6).
func (f Figures) Begins() (n int64) {
	for o := Acquired; o <= Unknown; o++ {
		n += f.counts[o]
	}
	return n
}

// Conflicts are the begins that were refused: in progress, mismatch (whatever
// its status) and unknown.
func (f Figures) Conflicts() int64 {
	return f.counts[InProgress] + f.counts[Mismatch] + f.counts[Unknown]
}

// ConflictRate is Conflicts over Begins; ok is false where there were no begins.
func (f Figures) ConflictRate() (rate float64, ok bool) {
	if f.Begins() == 0 {
		return 0, false
	}
	return float64(f.Conflicts()) / float64(f.Begins()), true
}

func (f *Figures) add(g Figures) {
	for o := range f.counts {
		f.counts[o] += g.counts[o]
	}
}

// Range is the span that an answer is about: what was asked for, widened to
// whole steps.
type Range struct{ From, To time.Time }

// Capped says whether names in the range were counted under other, since the
// tenant had more than 1,000 on a day.
type Capped struct{ Operations, Callers bool }

// Outcomes is an answer over time.
type Outcomes struct {
	Range
	Step   Step
	Steps  []StepFigures // every step of the range, in order, those of nothing too
	Total  Figures
	Capped Capped
}

// StepFigures are those of the step that begins At.
type StepFigures struct {
	At time.Time
	Figures
}

// ReplayAges is an answer about the ages of replays.
type ReplayAges struct {
	Range
	Ages   Ages
	Capped Capped
}

// Groups is an answer by operation or by caller, worst first: by refused
// begins, then by replays, then by begins.
type Groups struct {
	Range
	Items []Group
	// Other is everything beyond the listed items: names over the tenant's cap
	// and names over the limit. Items and Other add up to Total.
	Other  Group
	Total  Group
	Capped Capped
}

// Group is what is known of one operation or one caller.
type Group struct {
	Name string // empty for other and the total; a caller may be empty too
	Figures
	Ages Ages
}

// Service answers questions about the figures of a tenant. Everything that is
// asked is answered for the caller's tenant alone.
type Service struct{ store *store }

// NewService makes a Service.
func NewService(pool *pgxpool.Pool) *Service { return &Service{store: &store{pool: pool}} }

// Outcomes counts outcomes per step. Kinds: invalid_request, unavailable,
// internal.
func (s *Service) Outcomes(ctx context.Context, caller auth.Caller, q Query) (Outcomes, error) {
	if q.Step == "" {
		q.Step = StepHour
	}
	scope, err := s.scope(ctx, caller, q)
	if err == nil {
		err = scope.alignTo(q.Step)
	}
	if err != nil {
		return Outcomes{}, err
	}
	steps, capped, err := s.store.outcomes(ctx, scope)
	if err != nil {
		return Outcomes{}, translate(err)
	}
	answer := Outcomes{Range: scope.Range, Step: q.Step, Capped: capped}
	for at := scope.From; at.Before(scope.To); at = at.Add(q.Step.Length()) {
		answer.Steps = append(answer.Steps, StepFigures{At: at, Figures: steps[at.Unix()]})
		answer.Total.add(steps[at.Unix()])
	}
	return answer, nil
}

// ReplayAges counts replays by their age. Kinds as for Outcomes.
func (s *Service) ReplayAges(ctx context.Context, caller auth.Caller, q Query) (ReplayAges, error) {
	scope, err := s.scope(ctx, caller, q)
	if err != nil {
		return ReplayAges{}, err
	}
	scope.alignToWhatIsKept()
	answer := ReplayAges{Range: scope.Range}
	answer.Ages, answer.Capped, err = s.store.ages(ctx, scope)
	return answer, translate(err)
}

// Operations counts per operation. Kinds as for Outcomes.
func (s *Service) Operations(ctx context.Context, caller auth.Caller, q Query) (Groups, error) {
	return s.groups(ctx, caller, q, byOperation)
}

// Callers counts per caller. Kinds as for Outcomes.
func (s *Service) Callers(ctx context.Context, caller auth.Caller, q Query) (Groups, error) {
	return s.groups(ctx, caller, q, byCaller)
}

func (s *Service) groups(ctx context.Context, caller auth.Caller, q Query, by groupBy) (Groups, error) {
	if q.Limit == 0 {
		q.Limit = defaultGroups
	}
	if q.Limit < 1 || q.Limit > maxGroups {
		return Groups{}, problem.Invalid(problem.Field{Parameter: "limit", Reason: fmt.Sprintf("must be 1 to %d", maxGroups)})
	}
	scope, err := s.scope(ctx, caller, q)
	if err != nil {
		return Groups{}, err
	}
	scope.alignToWhatIsKept()
	answer, err := s.store.groups(ctx, scope, by)
	return answer, translate(err)
}

// translate turns a driver's error into the problem that the caller sees.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case postgres.IsConnectionError(err), postgres.IsReadOnly(err), postgres.IsLockNotAvailable(err):
		return problem.Unavailable(err)
	default:
		return problem.Internal(err)
	}
}
