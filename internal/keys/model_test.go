package keys

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// The model is the wire contract's sections 2 to 4 over again, written from
// its tables alone: one record, a clock of its own, no SQL. Every answer of
// the service is compared with it.

// All steps of time are multiples of tick; the lengths below keep every limit
// at least two seconds from a multiple, and a case that ran for longer than
// modelSlack is given up, so that real time never decides.
const (
	tick           = 7 * time.Second
	modelLease     = 60 * time.Second
	modelRetention = 68 * time.Second
	modelSlack     = 1500 * time.Millisecond
)

type modelRecord struct {
	state      string // "", in_progress, open, completed, unknown (declared)
	attempt    int
	payload    int
	owner      int
	used       bool
	bound      bool
	hold       bool
	takenOver  bool
	acquiredAt time.Duration
	leaseEnd   time.Duration
	expires    time.Duration // forever: never
	point      string
	stored     int // the completed response, or what a completion released with
	token      int // index of the current token
}

const forever = time.Duration(1<<62 - 1)

type model struct {
	now    time.Duration
	record modelRecord
	tokens int // issued so far
}

func (m *model) lapsed() bool { return m.now >= m.record.leaseEnd }

func (m *model) expire() {
	if m.record.state != "" && m.now >= m.record.expires {
		m.record = modelRecord{}
	}
}

// acquireAs is what every acquisition does.
func (m *model) acquireAs(payload, owner int, hold, fresh, takenOver bool) string {
	r := &m.record
	r.attempt++
	if fresh {
		r.payload = payload
	}
	r.state, r.owner, r.used, r.hold, r.takenOver, r.stored = "in_progress", owner, false, hold, takenOver, 0
	r.acquiredAt, r.leaseEnd = m.now, m.now+modelLease
	switch {
	case hold:
		r.expires = forever
	case r.expires == forever:
		r.expires = m.now + modelLease + modelRetention
	default:
		r.expires = max(r.expires, m.now+modelLease+modelRetention)
	}
	r.token = m.tokens
	m.tokens++
	return m.acquired(false)
}

func (m *model) acquired(resumed bool) string {
	r := m.record
	return fmt.Sprintf("acquired attempt=%d resumed=%v takenOver=%v point=%q hold=%v", r.attempt, resumed, r.takenOver, r.point, r.hold)
}

func (m *model) begin(payload, owner int, hold, replayMismatch bool) string {
	m.expire()
	r := &m.record
	switch {
	case r.state == "":
		return m.acquireAs(payload, owner, hold, true, false)
	case r.state == "open" && !r.bound:
		return m.acquireAs(payload, owner, hold, true, false)
	case payload != r.payload && r.state == "completed" && replayMismatch:
		return fmt.Sprintf("replay %d matched=false", r.stored)
	case payload != r.payload:
		return "mismatch"
	case r.state == "completed":
		return fmt.Sprintf("replay %d matched=true", r.stored)
	case r.state == "in_progress" && !r.used && owner == r.owner && m.now-r.acquiredAt <= 30*time.Second:
		if m.lapsed() {
			r.leaseEnd, r.bound = m.now+modelLease, true
		}
		return m.acquired(true)
	case r.state == "in_progress" && !m.lapsed():
		return fmt.Sprintf("in_progress attempt=%d", r.attempt)
	case r.state == "unknown" || r.state == "in_progress" && r.hold:
		return fmt.Sprintf("unknown attempt=%d", r.attempt)
	case r.state == "open":
		return m.acquireAs(payload, owner, hold, false, false)
	default:
		r.bound = true
		return m.acquireAs(payload, owner, hold, false, true)
	}
}

// lease is the table of section 4 for every call.
func (m *model) lease(call string, token, response int, releases bool) string {
	m.expire()
	r := &m.record
	switch {
	case r.state == "":
		return "not_found"
	case token != r.token:
		return "lease_lost"
	case r.state == "completed" && call == "complete" && response == r.stored:
		return "ok completed"
	case r.state == "completed":
		return "already_completed"
	case r.state == "open" && call == "release":
		return "ok"
	case r.state == "open" && call == "complete" && response == r.stored:
		return "ok open"
	case r.state == "open":
		return "lease_lost"
	}
	if r.state == "unknown" || m.lapsed() {
		if call == "renew" || call == "release" {
			r.bound = true
		}
	}
	r.used = true
	switch call {
	case "renew":
		r.state, r.leaseEnd = "in_progress", m.now+modelLease
		switch {
		case r.hold:
		case r.expires == forever:
			r.expires = r.leaseEnd + modelRetention
		default:
			r.expires = max(r.expires, r.leaseEnd+modelRetention)
		}
	case "release":
		r.state = "open"
		m.keep()
	case "unknown":
		r.state, r.bound, r.expires = "unknown", true, forever
	case "point":
		r.point, r.bound = "p", true
	case "complete":
		r.stored, r.bound = response, true
		m.keep()
		if releases {
			r.state = "open"
			return "ok open"
		}
		r.state = "completed"
		return "ok completed"
	}
	return "ok"
}

func (m *model) keep() {
	if m.record.expires == forever {
		m.record.expires = m.now + modelRetention
		return
	}
	m.record.expires = max(m.record.expires, m.now+modelRetention)
}

// said turns an outcome into the model's words.
func said(o Outcome) string {
	switch o := o.(type) {
	case Acquired:
		point := ""
		if o.RecoveryPoint != nil {
			point = o.RecoveryPoint.Name
		}
		return fmt.Sprintf("acquired attempt=%d resumed=%v takenOver=%v point=%q hold=%v", o.Attempt, o.Resumed, o.TakenOver, point, o.Lease.OnLeaseExpiry == tenants.OnLeaseExpiryHold)
	case Replay:
		return fmt.Sprintf("replay %d matched=%v", o.Response.Status-200, o.FingerprintMatched)
	case InProgress:
		return fmt.Sprintf("in_progress attempt=%d", o.Attempt)
	case Mismatch:
		return "mismatch"
	case Unknown:
		return fmt.Sprintf("unknown attempt=%d", o.Attempt)
	}
	return "nothing"
}

func saidError(err error, success string) string {
	var p *problem.Error
	switch {
	case err == nil:
		return success
	case errors.As(err, &p):
		return string(p.Kind)
	default:
		return err.Error()
	}
}

// play is one random case: a record of its own under the model's eyes.
type play struct {
	*house
	model    *model
	key      string
	owners   [3]string
	tokens   []string // by the order of their acquisition
	id       string
	releases bool // the operation whose policy releases on errors
	lenient  bool // the operation whose policy replays on a mismatch
}

func (p *play) request(payloadNumber, owner int, hold bool) BeginRequest {
	req := BeginRequest{
		Key: &p.key, Owner: &p.owners[owner], Operation: new(p.operation()), Request: payload(fmt.Sprint(payloadNumber)),
		LeaseSeconds: new(int64(modelLease.Seconds())), RetentionSeconds: new(int64(modelRetention.Seconds())),
	}
	if hold {
		req.OnLeaseExpiry = new("hold")
	}
	return req
}

func (p *play) operation() string {
	return fmt.Sprintf("op releases=%v lenient=%v", p.releases, p.lenient)
}

func (p *play) begin(t *rapid.T) (got, want string) {
	payloadNumber, owner, hold := rapid.IntRange(0, 1).Draw(t, "payload"), rapid.IntRange(0, 2).Draw(t, "owner"), rapid.Bool().Draw(t, "hold")
	outcome, err := p.service.Begin(p.t.Context(), p.caller, p.request(payloadNumber, owner, hold))
	before := p.model.tokens
	want = p.model.begin(payloadNumber, owner, hold, p.lenient)
	if a, ok := outcome.(Acquired); ok && p.model.tokens > before {
		p.tokens, p.id = append(p.tokens, string(a.Lease.Token)), a.ID.String()
	}
	return saidError(err, said(outcome)), want
}

func (p *play) leaseCall(t *rapid.T, call string) (got, want string) {
	if len(p.tokens) == 0 {
		return "", ""
	}
	token := len(p.tokens) - 1
	if rapid.IntRange(0, 3).Draw(t, "stale") == 0 {
		token = rapid.IntRange(0, token).Draw(t, "token")
	}
	response := rapid.SampledFrom([]int{1, 2, 300}).Draw(t, "response") // 201, 202, 500
	ctx, id, text := p.t.Context(), p.id, p.tokens[token]
	var err error
	success := "ok"
	switch call {
	case "complete":
		var done Completion
		done, err = p.service.Complete(ctx, p.caller, CompleteRequest{ID: id, Token: text, Response: Response{Status: 200 + response}})
		if success = "ok completed"; done.Released {
			success = "ok open"
		}
	case "renew":
		_, err = p.service.Renew(ctx, p.caller, id, text, new(int64(modelLease.Seconds())))
	case "release":
		err = p.service.Release(ctx, p.caller, id, text)
	case "unknown":
		err = p.service.DeclareUnknown(ctx, p.caller, id, text)
	case "point":
		err = p.service.SetRecoveryPoint(ctx, p.caller, id, text, new("p"), []byte("{}"))
	}
	return saidError(err, success), p.model.lease(call, token, response, p.releases && response == 300)
}

// passOne moves the play's own record back in time.
func (p *play) passOne(d time.Duration) {
	const statement = `
update idempotency_keys set
    created_at = created_at - $1::interval, acquired_at = acquired_at - $1::interval,
    lease_expires_at = lease_expires_at - $1::interval, expires_at = expires_at - $1::interval, completed_at = completed_at - $1::interval
where key = $2`
	if _, err := p.pool.Exec(p.t.Context(), statement, d, p.key); err != nil {
		p.t.Fatal(err)
	}
	p.model.now += d
	p.forgetReplays()
}

func TestEveryAnswerIsTheModels(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, releases := range []bool{false, true} {
		for _, lenient := range []bool{false, true} {
			h.policy(fmt.Sprintf("op releases=%v lenient=%v", releases, lenient), func(o *tenants.Override) {
				if releases {
					o.StoreErrors = new(tenants.StoreErrorsClient)
				}
				if lenient {
					o.OnMismatch = new(tenants.OnMismatchReplay)
				}
			})
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := &play{house: h, model: &model{}, key: *charge().Key, releases: rapid.Bool().Draw(t, "releases"), lenient: rapid.Bool().Draw(t, "lenient")}
		for i := range p.owners {
			p.owners[i] = *charge().Owner
		}
		began := time.Now()
		act := func(name string, step func(*rapid.T) (got, want string)) func(*rapid.T) {
			return func(t *rapid.T) {
				got, want := step(t)
				if time.Since(began) > modelSlack {
					t.Skip("the machine was too slow for the model's clock")
				}
				if got != want {
					t.Fatalf("%s at %v: the service says %q, the model %q", name, p.model.now, got, want)
				}
			}
		}
		actions := map[string]func(*rapid.T){
			"begin":  act("begin", p.begin),
			"begin2": act("begin", p.begin),
			"pass": func(t *rapid.T) {
				p.passOne(tick * time.Duration(rapid.SampledFrom([]int{1, 1, 2, 4, 9, 10, 19}).Draw(t, "ticks")))
			},
		}
		for _, call := range []string{"complete", "renew", "release", "unknown", "point"} {
			actions[call] = act(call, func(t *rapid.T) (string, string) { return p.leaseCall(t, call) })
		}
		t.Repeat(actions)
	})
}
