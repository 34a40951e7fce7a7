package analytics

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// house is a database with everything of this package on it.
type house struct {
	t          *testing.T
	pool       *pgxpool.Pool
	recorder   *Recorder
	aggregator *Aggregator
	service    *Service
	now        time.Time // of the database, when the test began
}

func setup(t *testing.T) *house {
	t.Helper()
	return setupOn(t, postgrestest.New(t))
}

func setupOn(t *testing.T, pool *pgxpool.Pool) *house {
	t.Helper()
	h := &house{t: t, pool: pool, recorder: New(Config{Pool: pool}), aggregator: NewAggregator(pool), service: NewService(pool)}
	var err error
	if h.now, err = h.service.store.now(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h
}

// client is who notes and asks: a tenant with a namespace.
type client struct {
	tenant    auth.TenantID
	namespace auth.NamespaceID
}

func newClient() client {
	return client{auth.TenantID(uuid.New()), auth.NamespaceID(uuid.New())}
}

func (c client) asks() auth.Caller { return auth.Caller{Tenant: c.tenant, Role: auth.RoleOps} }

func (c client) event(o Outcome) Event {
	e := Event{
		Outcome: o, Tenant: c.tenant, Namespace: c.namespace, Credential: "abcdefghijklmnop",
		Record: uuid.New(), Operation: "POST /v1/charges", Caller: "cus_1", Key: "key-" + uuid.NewString(), Attempt: 1,
	}
	if o == Replay {
		e.Status, e.Age = 201, time.Second
	}
	return e
}

func (h *house) flush() {
	h.t.Helper()
	if err := h.recorder.Flush(h.t.Context()); err != nil {
		h.t.Fatalf("flush: %v", err)
	}
}

func (h *house) rollUp() RollUpReport {
	h.t.Helper()
	report, err := h.aggregator.RollUp(h.t.Context())
	if err != nil {
		h.t.Fatalf("roll up: %v", err)
	}
	return report
}

func (h *house) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.pool.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
}

func (h *house) number(sql string, args ...any) (n int64) {
	h.t.Helper()
	if err := h.pool.QueryRow(h.t.Context(), sql, args...).Scan(&n); err != nil {
		h.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (h *house) outcomes(c client, q Query) Outcomes {
	h.t.Helper()
	answer, err := h.service.Outcomes(h.t.Context(), c.asks(), q)
	if err != nil {
		h.t.Fatalf("outcomes: %v", err)
	}
	return answer
}

func (h *house) groups(c client, by groupBy, q Query) Groups {
	h.t.Helper()
	answer, err := h.service.groups(h.t.Context(), c.asks(), q, by)
	if err != nil {
		h.t.Fatalf("by %s: %v", by, err)
	}
	return answer
}

// tally is the independent count: what was noted, added up by hand.
type tally struct {
	total        [outcomes]int64
	byHour       map[int64][outcomes]int64
	byOperation  map[string][outcomes]int64
	byCaller     map[string][outcomes]int64
	ages         []time.Duration
	singleEvents int64
}

func newTally() *tally {
	return &tally{byHour: map[int64][outcomes]int64{}, byOperation: map[string][outcomes]int64{}, byCaller: map[string][outcomes]int64{}}
}

func (t *tally) count(at time.Time, e Event) {
	whats := []Outcome{e.Outcome}
	if e.TakenOver {
		whats = append(whats, Takeover)
	}
	for _, o := range whats {
		t.total[o]++
		increment(t.byHour, at.Unix()/3600*3600, o)
		increment(t.byOperation, e.Operation, o)
		increment(t.byCaller, e.Caller, o)
		if o == Replay || o == InProgress || o == Mismatch || o == Unknown || o == Takeover || o == LateCompletion || o == DeclaredUnknown {
			t.singleEvents++
		}
	}
	if e.Outcome == Replay {
		t.ages = append(t.ages, e.Age)
	}
}

func increment[K comparable](m map[K][outcomes]int64, key K, o Outcome) {
	counts := m[key]
	counts[o]++
	m[key] = counts
}

// randomEvent is one of everything that can be answered.
func (c client) randomEvent(r *rand.Rand) Event {
	e := c.event(Outcome(1 + r.IntN(int(outcomes)-1)))
	if e.Outcome == Takeover { // is noted as an Acquired
		e.Outcome, e.TakenOver = Acquired, true
	}
	e.Operation = fmt.Sprintf("POST /v1/op%d", r.IntN(7))
	e.Caller = []string{"", "cus_1", "cus_2", "=cmd()"}[r.IntN(4)]
	if e.Outcome == Replay {
		e.Age = time.Duration(r.Int64N(int64(48 * time.Hour)))
		if r.IntN(2) == 0 {
			e.Age = time.Duration(r.Int64N(int64(40 * time.Second)))
		}
	}
	return e
}

func background(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}
