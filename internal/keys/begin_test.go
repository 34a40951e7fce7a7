package keys

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// The rows of the wire contract, section 3, in its order.

func TestAbsentKeyIsAcquiredAsAttemptOne(t *testing.T) {
	t.Parallel()
	h := setup(t)
	a := h.acquire(h.caller, charge())
	if a.Attempt != 1 || a.Resumed || a.TakenOver || a.RecoveryPoint != nil {
		t.Fatalf("got %+v", a)
	}
	if got := a.Lease.ExpiresAt.Sub(a.CreatedAt); got != time.Minute {
		t.Errorf("the lease is %v long, want the policy's minute", got)
	}
	if got := a.ExpiresAt.Sub(a.CreatedAt); got != time.Minute+24*time.Hour {
		t.Errorf("it expires after %v, want lease and retention", got)
	}
}

func TestReleasedKeyTakesAMendedPayload(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	first := h.acquire(h.caller, req)
	if err := h.service.Release(t.Context(), h.caller, first.ID.String(), string(first.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	second := h.acquire(h.caller, with(anew(req), func(r *BeginRequest) { r.Request = payload(`{"amount":5000}`) }))
	if second.Attempt != 2 || second.TakenOver || second.Lease.Fence <= first.Lease.Fence || second.ID != first.ID {
		t.Fatalf("got %+v after %+v", second, first)
	}
	// It is bound to the mended payload now.
	mismatch := as[Mismatch](t, h.begin(h.caller, anew(req)))
	if diff := cmp.Diff(mismatch.Differs, []string{"body"}); diff != "" {
		t.Error(diff)
	}
}

func TestOtherFingerprintIsAMismatchThatSaysWhatDiffers(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := with(charge(), func(r *BeginRequest) { r.Operation = new("charges") })
	h.acquire(h.caller, req)
	for name, test := range map[string]struct {
		change func(*BeginRequest)
		want   []string
	}{
		"body":                 {func(r *BeginRequest) { r.Request = payload(`{"amount":5000}`) }, []string{"body"}},
		"media type":           {func(r *BeginRequest) { p := *r.Request; p.ContentType = new("text/plain"); r.Request = &p }, []string{"body"}},
		"method":               {func(r *BeginRequest) { p := *r.Request; p.Method = new("PUT"); r.Request = &p }, []string{"method"}},
		"path and query":       {func(r *BeginRequest) { p := *r.Request; p.Path, p.Query = new("/v2"), new("a=1"); r.Request = &p }, []string{"path", "query"}},
		"only a digest known":  {func(r *BeginRequest) { r.Request = nil; r.Fingerprint = new(zeroDigest) }, []string{"fingerprint"}},
		"nothing of the first": {func(r *BeginRequest) { r.Request = &RequestPayload{} }, []string{"method", "path", "body"}},
	} {
		got := as[Mismatch](t, h.begin(h.caller, with(anew(req), test.change)))
		if diff := cmp.Diff(got.Differs, test.want); diff != "" || got.Status != 409 {
			t.Errorf("%s: status %d, %s", name, got.Status, diff)
		}
	}
}

const zeroDigest = "0000000000000000000000000000000000000000000000000000000000000000"

// B011: a payload is compared in every state and by every way in.
func TestMismatchIsFoundInEveryState(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	other := with(anew(req), func(r *BeginRequest) { r.Request = payload(`{"amount":1}`) })
	a := h.acquire(h.caller, req)
	as[Mismatch](t, h.begin(h.caller, other))
	h.pass(2 * time.Minute) // lapsed
	as[Mismatch](t, h.begin(h.caller, other))
	outcome, applied, err := h.service.BeginOrWait(t.Context(), h.caller, other, time.Second)
	if err != nil || !applied {
		t.Fatal(applied, err)
	}
	as[Mismatch](t, outcome)
	h.complete(h.caller, a, created)
	for range 10 {
		as[Mismatch](t, h.begin(h.caller, other))
	}
	as[Replay](t, h.begin(h.caller, anew(req)))
}

func TestMismatchFollowsThePolicyInForce(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	other := with(anew(req), func(r *BeginRequest) { r.Request = payload(`{"amount":1}`) })
	a := h.acquire(h.caller, req)
	h.policy("POST /v1/charges", func(o *tenants.Override) {
		o.MismatchStatus, o.OnMismatch = new(422), new(tenants.OnMismatchReplay)
	})
	if got := as[Mismatch](t, h.begin(h.caller, other)); got.Status != 422 {
		t.Errorf("status %d, want 422: on_mismatch replays only what is completed", got.Status)
	}
	h.complete(h.caller, a, created)
	replay := as[Replay](t, h.begin(h.caller, other))
	if replay.FingerprintMatched {
		t.Error("the replay claims that the fingerprint matched")
	}
	if diff := cmp.Diff(replay.Response, created); diff != "" {
		t.Error(diff)
	}
}

func TestOperationIsAMismatchUnderKeyScopeNamespaceAndAnotherRecordElsewhere(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := with(charge(), func(r *BeginRequest) { r.Operation = new("charge") })
	refund := with(anew(req), func(r *BeginRequest) { r.Operation = new("refund") })

	charged, refunded := h.acquire(h.caller, req), h.acquire(h.caller, refund)
	if charged.ID == refunded.ID {
		t.Error("two operations share a record under key_scope operation")
	}
	wide := h.acquire(h.wide, req)
	got := as[Mismatch](t, h.begin(h.wide, refund))
	if diff := cmp.Diff(got.Differs, []string{"operation"}); diff != "" {
		t.Error(diff)
	}
	// Open and not bound: the other operation takes it, and is stored.
	if err := h.service.Release(t.Context(), h.wide, wide.ID.String(), string(wide.Lease.Token)); err != nil {
		t.Fatal(err)
	}
	if again := h.acquire(h.wide, refund); again.ID != wide.ID || again.Attempt != 2 {
		t.Fatalf("got %+v", again)
	}
	if record := h.inspect(wide); record.Operation != "refund" {
		t.Errorf("the record's operation is %q, want refund", record.Operation)
	}
}

func TestCompletedRecordIsReplayedByteForByte(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	done := h.complete(h.caller, a, created)
	h.pass(3 * time.Second)
	replay := as[Replay](t, h.begin(h.caller, anew(req)))
	if diff := cmp.Diff(replay.Response, created); diff != "" {
		t.Error(diff)
	}
	if replay.Age < 3*time.Second || replay.Age > time.Minute || replay.Attempt != 1 || !replay.FingerprintMatched {
		t.Errorf("got %+v", replay)
	}
	if got := done.CompletedAt.Sub(replay.CompletedAt); got != 3*time.Second {
		t.Errorf("completed_at differs by %v from what the completion said, want what passed", got)
	}
}

func TestSameOwnerResumesTheSameAttempt(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	first := h.acquire(h.caller, req)
	h.pass(29 * time.Second)
	second := h.acquire(h.caller, req)
	if !second.Resumed || second.Lease.Token != first.Lease.Token || second.Attempt != 1 {
		t.Fatalf("got %+v", second)
	}
	if got := first.Lease.ExpiresAt.Sub(second.Lease.ExpiresAt); got != 29*time.Second {
		t.Errorf("the lease moved by %v: a live lease is not prolonged by a resumption", 29*time.Second-got)
	}
	as[InProgress](t, h.begin(h.caller, anew(req)))
	h.pass(2 * time.Second) // 31 s after the acquisition
	as[InProgress](t, h.begin(h.caller, req))
}

func TestResumingALapsedLeaseBeginsItAnewAsLongAsAtFirst(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := with(charge(), func(r *BeginRequest) { r.LeaseSeconds = new(int64(2)) })
	first := h.acquire(h.caller, req)
	h.pass(5 * time.Second)
	second := h.acquire(h.caller, with(req, func(r *BeginRequest) { r.LeaseSeconds = new(int64(3000)) }))
	if !second.Resumed || second.Lease.Token != first.Lease.Token || second.Attempt != 1 || second.TakenOver {
		t.Fatalf("got %+v", second)
	}
	record := h.inspect(second)
	if left := time.Until(record.LeaseExpiresAt); record.State != StateInProgress || left > 2*time.Second {
		t.Errorf("state %s, %v left, want the first two seconds anew", record.State, left)
	}
	// Under hold too, before the record is called unknown.
	held := with(charge(), func(r *BeginRequest) { r.LeaseSeconds, r.OnLeaseExpiry = new(int64(2)), new("hold") })
	h.acquire(h.caller, held)
	h.pass(5 * time.Second)
	if again := h.acquire(h.caller, held); !again.Resumed || !again.ExpiresAt.IsZero() {
		t.Fatalf("got %+v", again)
	}
}

func TestAUsedTokenIsNotResumed(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for name, use := range map[string]func(id, token string) error{
		"renew": func(id, token string) error {
			_, err := h.service.Renew(t.Context(), h.caller, id, token, nil)
			return err
		},
		"recovery point": func(id, token string) error {
			return h.service.SetRecoveryPoint(t.Context(), h.caller, id, token, new("charged"), []byte("1"))
		},
	} {
		req := charge()
		a := h.acquire(h.caller, req)
		if err := use(a.ID.String(), string(a.Lease.Token)); err != nil {
			t.Fatal(err)
		}
		if got := h.begin(h.caller, req); describe(got) != "keys.InProgress" {
			t.Errorf("after %s: %s, want in progress", name, describe(got))
		}
	}
}

func TestLiveLeaseIsInProgressWithAHint(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	busy := as[InProgress](t, h.begin(h.caller, anew(req)))
	if busy.Attempt != 1 || !busy.LeaseExpiresAt.Equal(a.Lease.ExpiresAt) || busy.RetryAfter < time.Second || busy.RetryAfter > 30*time.Second {
		t.Fatalf("got %+v", busy)
	}
}

func TestHeldLapseIsUnknownAndNeverTakenOver(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := with(charge(), func(r *BeginRequest) { r.OnLeaseExpiry = new("hold") })
	a := h.acquire(h.caller, req)
	if !a.ExpiresAt.IsZero() || a.Lease.OnLeaseExpiry != tenants.OnLeaseExpiryHold {
		t.Fatalf("got %+v", a)
	}
	h.pass(400 * 24 * time.Hour)
	as[Unknown](t, h.begin(h.caller, anew(req)))
	// A change of policy concerns later attempts only.
	h.policy("", func(o *tenants.Override) { o.OnLeaseExpiry = new(tenants.OnLeaseExpiryTakeover) })
	as[Unknown](t, h.begin(h.caller, anew(req)))
	if done := h.complete(h.caller, a, created); done.ExpiresAt.Sub(done.CompletedAt) != 24*time.Hour {
		t.Errorf("a late completion is kept for %v, want the retention", done.ExpiresAt.Sub(done.CompletedAt))
	}
	as[Replay](t, h.begin(h.caller, anew(req)))
}

func TestOpenAndBoundKeepsFingerprintAndRecoveryPoint(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	a := h.acquire(h.caller, req)
	id, token := a.ID.String(), string(a.Lease.Token)
	if err := h.service.SetRecoveryPoint(t.Context(), h.caller, id, token, new("charged"), []byte(` {"b":1, "a":2e0}`)); err != nil {
		t.Fatal(err)
	}
	if err := h.service.Release(t.Context(), h.caller, id, token); err != nil {
		t.Fatal(err)
	}
	as[Mismatch](t, h.begin(h.caller, with(anew(req), func(r *BeginRequest) { r.Request = payload("{}") })))
	again := h.acquire(h.caller, anew(req))
	if again.Attempt != 2 || again.TakenOver {
		t.Fatalf("got %+v", again)
	}
	if diff := cmp.Diff(again.RecoveryPoint, &RecoveryPoint{Name: "charged", Data: []byte(` {"b":1, "a":2e0}`)}); diff != "" {
		t.Error(diff)
	}
}

func TestLapsedRecordIsTakenOver(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := charge()
	first := h.acquire(h.caller, req)
	if err := h.service.SetRecoveryPoint(t.Context(), h.caller, first.ID.String(), string(first.Lease.Token), new("charged"), []byte("null")); err != nil {
		t.Fatal(err)
	}
	h.pass(61 * time.Second)
	taker := with(anew(req), func(r *BeginRequest) { r.Metadata = map[string]string{"by": "two"} })
	second := h.acquire(h.caller, taker)
	if !second.TakenOver || second.Attempt != 2 || second.Lease.Fence <= first.Lease.Fence || second.RecoveryPoint == nil {
		t.Fatalf("got %+v", second)
	}
	if again := h.acquire(h.caller, taker); !again.Resumed || !again.TakenOver || again.RecoveryPoint == nil {
		t.Errorf("a resumed takeover must say again that it is one: %+v", again)
	}
	record := h.inspect(second)
	if diff := cmp.Diff(record.Metadata, map[string]string{"by": "two"}); diff != "" {
		t.Error(diff)
	}
	if len(record.History) != 2 || record.History[0].How != "lapsed" || record.History[1].How != "" {
		t.Errorf("history %+v", record.History)
	}
}

// B087, B089: expires_at alone decides, pruned or not.
func TestExpiredRecordIsAbsent(t *testing.T) {
	t.Parallel()
	h := setup(t)
	req := with(charge(), func(r *BeginRequest) { r.RetentionSeconds = new(int64(60)) })
	first := h.acquire(h.caller, req)
	h.complete(h.caller, first, created)
	h.pass(2*time.Minute + time.Second)
	_, err := h.service.Inspect(t.Context(), h.caller, first.ID.String(), Include{})
	wantKind(t, err, problem.NotFound)
	_, err = h.service.Renew(t.Context(), h.caller, first.ID.String(), string(first.Lease.Token), nil)
	wantKind(t, err, problem.NotFound)

	second := h.acquire(h.caller, with(anew(req), func(r *BeginRequest) { r.Request = payload("{}") }))
	if second.Attempt != 1 || second.TakenOver || second.Lease.Fence <= first.Lease.Fence || second.ID != first.ID {
		t.Fatalf("got %+v", second)
	}
	record := h.inspect(second)
	if record.Status != 0 || record.Response != nil || len(record.History) != 1 || !record.CompletedAt.IsZero() {
		t.Errorf("something of the old record is left: %+v", record)
	}
	// The old token is a former holder's.
	_, err = h.service.Complete(t.Context(), h.caller, CompleteRequest{ID: first.ID.String(), Token: string(first.Lease.Token), Response: created})
	wantKind(t, err, problem.LeaseLost)
	if len(h.inspect(second).Late) != 1 || h.seen.lateCount() != 1 {
		t.Error("the late completion was not kept")
	}
}

func TestRetentionIsCountedFromACompletionHoweverLate(t *testing.T) {
	t.Parallel()
	h := setup(t)
	a := h.acquire(h.caller, with(charge(), func(r *BeginRequest) { r.RetentionSeconds = new(int64(60)) }))
	h.pass(100 * time.Second) // lapsed 40 s ago
	done := h.complete(h.caller, a, created)
	if got := done.ExpiresAt.Sub(done.CompletedAt); got != time.Minute {
		t.Errorf("replayable for %v, want 60 s", got)
	}
	// Within the lease the first expires_at is later already, and stays.
	b := h.acquire(h.caller, charge())
	if done := h.complete(h.caller, b, created); !done.ExpiresAt.Equal(b.ExpiresAt) {
		t.Errorf("expires_at moved from %v to %v", b.ExpiresAt, done.ExpiresAt)
	}
}

func TestIgnorePointersOfTheStoredFingerprintDecide(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.policy("", func(o *tenants.Override) { o.IgnorePointers = &[]string{"/sent_at"} })
	req := with(charge(), func(r *BeginRequest) { r.Request = payload(`{"amount":1,"sent_at":1}`) })
	h.acquire(h.caller, req)
	later := with(anew(req), func(r *BeginRequest) { r.Request = payload(`{"amount":1,"sent_at":2}`) })
	as[InProgress](t, h.begin(h.caller, later))
	h.policy("", func(o *tenants.Override) { o.IgnorePointers = &[]string{} })
	as[InProgress](t, h.begin(h.caller, later))
	fresh := with(later, func(r *BeginRequest) { r.Key = new(*r.Key + "-2") })
	h.acquire(h.caller, fresh)
	as[Mismatch](t, h.begin(h.caller, with(anew(fresh), func(r *BeginRequest) { r.Request = payload(`{"amount":1,"sent_at":3}`) })))
}

func TestARowOfAnotherIdentityIsRefusedWithAnAlarm(t *testing.T) {
	t.Parallel()
	h := setup(t)
	for _, column := range []string{"caller", "operation", "key"} {
		req := charge()
		a := h.acquire(h.caller, req)
		h.complete(h.caller, a, created)
		if _, err := h.pool.Exec(t.Context(), "update idempotency_keys set "+column+" = 'tampered' where id = $1", a.ID); err != nil {
			t.Fatal(err)
		}
		_, err := h.service.Begin(t.Context(), h.caller, anew(req))
		wantKind(t, err, problem.KindInternal)
	}
	if h.seen.corrupt != 3 {
		t.Errorf("%d alarms, want 3", h.seen.corrupt)
	}
}

func TestCallersNamespacesAndTenantsNeverMeet(t *testing.T) {
	t.Parallel()
	h := setup(t)
	stranger, strangerWide := h.newTenant("globex")
	req := charge()
	mine := h.acquire(h.caller, req)
	h.complete(h.caller, mine, created)
	// B003: the same key of another tenant, namespace or caller is another record.
	for name, begin := range map[string]func() Acquired{
		"tenant":       func() Acquired { return h.acquire(stranger, req) },
		"tenant, wide": func() Acquired { return h.acquire(strangerWide, req) },
		"namespace":    func() Acquired { return h.acquire(h.wide, req) },
		"caller": func() Acquired {
			return h.acquire(h.caller, with(req, func(r *BeginRequest) { r.Caller = new("cus_1") }))
		},
		"caller, same text": func() Acquired {
			return h.acquire(h.caller, with(req, func(r *BeginRequest) { r.Caller = new("cus_2") }))
		},
	} {
		if other := begin(); other.ID == mine.ID || other.Attempt != 1 {
			t.Errorf("another %s met the record: %+v", name, other)
		}
	}
	if got := as[Replay](t, h.begin(h.caller, anew(req))); !cmp.Equal(got.Response, created) {
		t.Error("the record's own replay changed")
	}
}

func TestRetryAfterStaysInItsBounds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ran, left   time.Duration
		jitter      float64
		least, most time.Duration
	}{
		{0, time.Minute, 0, time.Second, time.Second},
		{0, time.Minute, 1, time.Second, time.Second},
		{10 * time.Second, time.Minute, 0, 5 * time.Second, 5 * time.Second},
		{10 * time.Second, time.Minute, 1, 16 * time.Second, 16 * time.Second},
		{time.Hour, time.Hour, 0.5, 30 * time.Second, 30 * time.Second},
		{time.Hour, 2500 * time.Millisecond, 0.5, 3 * time.Second, 3 * time.Second},
		{time.Hour, 10 * time.Millisecond, 0.5, time.Second, time.Second},
	} {
		if got := retryAfter(test.ran, test.left, test.jitter); got < test.least || got > test.most {
			t.Errorf("ran %v, left %v, jitter %v: %v, want %v to %v", test.ran, test.left, test.jitter, got, test.least, test.most)
		}
	}
}
