package keys

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// leaseCalls are the five calls of the wire contract, section 4.
func (h *house) leaseCalls() map[string]func(id, token string) error {
	ctx := h.t.Context()
	return map[string]func(id, token string) error{
		"complete": func(id, token string) error {
			_, err := h.service.Complete(ctx, h.caller, CompleteRequest{ID: id, Token: token, Response: created})
			return err
		},
		"renew":   func(id, token string) error { _, err := h.service.Renew(ctx, h.caller, id, token, nil); return err },
		"release": func(id, token string) error { return h.service.Release(ctx, h.caller, id, token) },
		"unknown": func(id, token string) error { return h.service.DeclareUnknown(ctx, h.caller, id, token) },
		"recovery point": func(id, token string) error {
			return h.service.SetRecoveryPoint(ctx, h.caller, id, token, new("p"), []byte("1"))
		},
	}
}

// leaseStates bring a record into each column of the table.
func (h *house) leaseStates() map[string]func() (BeginRequest, Acquired) {
	plain := func(change func(*BeginRequest)) (BeginRequest, Acquired) {
		req := charge()
		if change != nil {
			change(&req)
		}
		return req, h.acquire(h.caller, req)
	}
	calls := h.leaseCalls()
	after := func(call string) func() (BeginRequest, Acquired) {
		return func() (BeginRequest, Acquired) {
			req, a := plain(nil)
			if err := calls[call](a.ID.String(), string(a.Lease.Token)); err != nil {
				h.t.Fatal(err)
			}
			return req, a
		}
	}
	return map[string]func() (BeginRequest, Acquired){
		"live": func() (BeginRequest, Acquired) { return plain(nil) },
		"lapsed": func() (BeginRequest, Acquired) {
			req, a := plain(nil)
			h.pass(2 * time.Minute)
			return req, a
		},
		"unknown by hold": func() (BeginRequest, Acquired) {
			req, a := plain(func(r *BeginRequest) { r.OnLeaseExpiry = new("hold") })
			h.pass(2 * time.Minute)
			return req, a
		},
		"unknown declared": after("unknown"),
		"open":             after("release"),
		"completed":        after("complete"),
	}
}

func TestEveryCellOfTheLeaseTableForTheCurrentToken(t *testing.T) {
	t.Parallel()
	h := setup(t)
	const ok = problem.Kind("")
	lost, done := problem.LeaseLost, problem.AlreadyCompleted
	table := map[string]map[string]problem.Kind{
		//                  live       lapsed        unknown (both ways)                          open          completed
		"complete":       {"live": ok, "lapsed": ok, "unknown by hold": ok, "unknown declared": ok, "open": lost, "completed": ok},
		"renew":          {"live": ok, "lapsed": ok, "unknown by hold": ok, "unknown declared": ok, "open": lost, "completed": done},
		"release":        {"live": ok, "lapsed": ok, "unknown by hold": ok, "unknown declared": ok, "open": ok, "completed": done},
		"unknown":        {"live": ok, "lapsed": ok, "unknown by hold": ok, "unknown declared": ok, "open": lost, "completed": done},
		"recovery point": {"live": ok, "lapsed": ok, "unknown by hold": ok, "unknown declared": ok, "open": lost, "completed": done},
	}
	for name, call := range h.leaseCalls() {
		for state, enter := range h.leaseStates() {
			_, a := enter()
			before := h.inspect(a)
			err := call(a.ID.String(), string(a.Lease.Token))
			if want := table[name][state]; want == ok {
				if err != nil {
					t.Errorf("%s on %s: %v", name, state, err)
				}
				continue
			}
			wantKind(t, err, table[name][state])
			after := h.inspect(a)
			before.Late, after.Late = nil, nil // a refused complete is kept there
			if diff := cmp.Diff(after, before); diff != "" {
				t.Errorf("%s on %s was refused and yet changed the record: %s", name, state, diff)
			}
		}
	}
}

// B013: whatever the state, a former holder's token changes nothing.
func TestEveryCellOfTheLeaseTableForAnOtherToken(t *testing.T) {
	t.Parallel()
	h := setup(t)
	calls := h.leaseCalls()
	for _, state := range []string{"live", "lapsed", "unknown by hold", "unknown declared", "open", "completed"} {
		for name, call := range calls {
			req := with(charge(), func(r *BeginRequest) { r.LeaseSeconds = new(int64(10)) })
			former := h.acquire(h.caller, req)
			h.pass(11 * time.Second)
			taker := anew(req)
			if state == "unknown by hold" {
				taker.OnLeaseExpiry = new("hold")
			}
			current := h.acquire(h.caller, taker)
			switch state {
			case "lapsed", "unknown by hold":
				h.pass(11 * time.Second)
			case "unknown declared":
				if err := calls["unknown"](current.ID.String(), string(current.Lease.Token)); err != nil {
					t.Fatal(err)
				}
			case "open", "completed":
				if err := calls[map[string]string{"open": "release", "completed": "complete"}[state]](current.ID.String(), string(current.Lease.Token)); err != nil {
					t.Fatal(err)
				}
			}
			before := h.inspect(current)
			wantKind(t, call(former.ID.String(), string(former.Lease.Token)), problem.LeaseLost)
			after := h.inspect(current)
			if lates := len(after.Late); (name == "complete") != (lates == 1) {
				t.Errorf("%s by a former holder on %s: %d late completions kept", name, state, lates)
			}
			before.Late, after.Late = nil, nil
			if diff := cmp.Diff(after, before); diff != "" {
				t.Errorf("%s by a former holder on %s changed the record: %s", name, state, diff)
			}
		}
	}
}

func TestATokenThatWasNeverIssuedIsLostAndNotCounted(t *testing.T) {
	t.Parallel()
	h := setup(t)
	a, b := h.acquire(h.caller, charge()), h.acquire(h.caller, charge())
	for name, token := range map[string]string{
		"of another record": string(b.Lease.Token), "no base64": "!", "empty": "", "too long": string(a.Lease.Token) + "AA", "one bit off": flip(string(a.Lease.Token)),
	} {
		for call, do := range h.leaseCalls() {
			if err := do(a.ID.String(), token); err == nil {
				t.Errorf("%s with a token %s succeeded", call, name)
			} else {
				wantKind(t, err, problem.LeaseLost)
			}
		}
	}
	if h.seen.lateCount() != 0 || len(h.inspect(a).Late) != 0 {
		t.Error("a token that was never issued was counted as a late completion")
	}
}

func flip(token string) string {
	last := byte('A')
	if token[10] == 'A' {
		last = 'B'
	}
	return token[:10] + string(last) + token[11:]
}

func TestStrangersSeeOneAndTheSameNotFound(t *testing.T) {
	t.Parallel()
	h := setup(t)
	stranger, _ := h.newTenant("globex")
	a := h.acquire(h.caller, charge())
	var texts []string
	for _, id := range []string{a.ID.String(), ID{1}.String(), "x", "", a.ID.String() + "A", "_______________________"} {
		for _, caller := range []auth.Caller{stranger, h.wide} {
			other := *h
			other.caller = caller
			for _, call := range other.leaseCalls() {
				texts = append(texts, wantKind(t, call(id, string(a.Lease.Token)), problem.NotFound).Error())
			}
			_, err := h.service.Inspect(t.Context(), caller, id, Include{})
			texts = append(texts, wantKind(t, err, problem.NotFound).Error())
		}
	}
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("two different answers: %q and %q", text, texts[0])
		}
	}
}

func TestRenewalEndsTheLeaseThatManySecondsFromNow(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.policy("POST /v1/payouts", func(o *tenants.Override) { o.Lease = new(90 * time.Second) })
	a := h.acquire(h.caller, with(charge(), func(r *BeginRequest) { r.Operation = new("POST /v1/payouts"); r.LeaseSeconds = new(int64(5)) }))
	id, token := a.ID.String(), string(a.Lease.Token)
	h.pass(2 * time.Minute)
	for seconds, want := range map[int64]time.Duration{1: time.Second, 3600: time.Hour, 0: 90 * time.Second} {
		given := &seconds
		if seconds == 0 {
			given = nil // the policy's
		}
		lease, err := h.service.Renew(t.Context(), h.caller, id, token, given)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(lease.ExpiresAt); left > want || left < want-10*time.Second {
			t.Errorf("renewed for %v: %v left", want, left)
		}
		if lease.Token != a.Lease.Token || lease.Fence != a.Lease.Fence {
			t.Errorf("the renewed lease is another: %+v", lease)
		}
		record := h.inspect(a)
		if record.ExpiresAt.Before(lease.ExpiresAt.Add(24 * time.Hour)) {
			t.Errorf("it expires at %v, less than the retention after the lease's end %v", record.ExpiresAt, lease.ExpiresAt)
		}
	}
	for _, seconds := range []int64{0, -1, 3601} {
		_, err := h.service.Renew(t.Context(), h.caller, id, token, &seconds)
		wantKind(t, err, problem.InvalidRequest)
	}
}

func TestUnknownHoldsWhateverThePolicy(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	id, token := a.ID.String(), string(a.Lease.Token)
	if err := h.service.DeclareUnknown(t.Context(), h.caller, id, token); err != nil {
		t.Fatal(err)
	}
	h.pass(365 * 24 * time.Hour)
	as[Unknown](t, h.begin(h.caller, anew(req)))
	as[Unknown](t, h.begin(h.caller, req)) // its own owner does not resume what it called unknown
	if record := h.inspect(a); record.State != StateUnknown || !record.ExpiresAt.IsZero() {
		t.Errorf("got %+v", record)
	}
	// Renewed by its own token it is in progress, and expires again.
	if _, err := h.service.Renew(t.Context(), h.caller, id, token, nil); err != nil {
		t.Fatal(err)
	}
	if record := h.inspect(a); record.State != StateInProgress || record.ExpiresAt.IsZero() {
		t.Errorf("got %+v", record)
	}
	if err := h.service.Release(t.Context(), h.caller, id, token); err != nil {
		t.Fatal(err)
	}
	as[Mismatch](t, h.begin(h.caller, with(anew(req), func(r *BeginRequest) { r.Request = payload("{}") })))
}

func TestReleasingWhatIsOpenChangesNotEvenHowItWasReleased(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.policy("", func(o *tenants.Override) { o.StoreErrors = new(tenants.StoreErrorsClient) })
	req := charge()
	a := h.acquire(h.caller, req)
	if done := h.complete(h.caller, a, Response{Status: 503}); !done.Released {
		t.Fatalf("got %+v", done)
	}
	if err := h.service.Release(t.Context(), h.caller, a.ID.String(), string(a.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	if record := h.inspect(a); record.History[0].How != "error_released" {
		t.Errorf("history %+v", record.History)
	}
	as[Mismatch](t, h.begin(h.caller, with(anew(req), func(r *BeginRequest) { r.Request = payload("{}") })))
	if again := h.acquire(h.caller, anew(req)); again.Attempt != 2 || again.TakenOver {
		t.Errorf("got %+v", again)
	}
}

func TestALapseBindsTheFingerprintForGood(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for name, use := range map[string]func(a Acquired){
		"released after the lapse": func(Acquired) {},
		"renewed after the lapse": func(a Acquired) {
			if _, err := h.service.Renew(t.Context(), h.caller, a.ID.String(), string(a.Lease.Token), nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		req := charge()
		a := h.acquire(h.caller, req)
		h.pass(2 * time.Minute)
		use(a)
		if err := h.service.Release(t.Context(), h.caller, a.ID.String(), string(a.Lease.Token)); err != nil {
			t.Fatal(err)
		}
		if got := h.begin(h.caller, with(anew(req), func(r *BeginRequest) { r.Request = payload("{}") })); describe(got) != "keys.Mismatch" {
			t.Errorf("%s: %s", name, describe(got))
		}
	}
}

func TestRecoveryPointLimits(t *testing.T) {
	t.Parallel()
	h := setup(t)
	a := h.acquire(h.caller, charge())
	set := func(name *string, size int) error {
		data := []byte(`"` + strings.Repeat("x", size-2) + `"`)
		return h.service.SetRecoveryPoint(t.Context(), h.caller, a.ID.String(), string(a.Lease.Token), name, data)
	}
	long := func(n int) *string { return new(strings.Repeat("n", n)) }
	for _, err := range []error{set(long(1), 2), set(long(64), 16<<10)} {
		if err != nil {
			t.Error(err)
		}
	}
	for _, err := range []error{set(nil, 2), set(long(0), 2), set(long(65), 2), set(new("é"), 2), set(long(1), 16<<10+1)} {
		wantKind(t, err, problem.InvalidRequest)
	}
	wantKind(t, h.service.SetRecoveryPoint(t.Context(), h.caller, a.ID.String(), string(a.Lease.Token), long(1), nil), problem.InvalidRequest)
}
