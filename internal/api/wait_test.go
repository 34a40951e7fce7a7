package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
)

// parked begins with Prefer: wait=30 beside the test and returns where the
// answer will come.
func parked(t *testing.T, ctx context.Context, c *apitest.Client, key string) <-chan *apitest.Answer {
	t.Helper()
	answers := make(chan *apitest.Answer, 1)
	go func() {
		a, err := c.Try(ctx, http.MethodPost, "/v1/keys", apitest.Charge(key), "Prefer: wait=30")
		if err != nil {
			a = nil
		}
		answers <- a
	}()
	return answers
}

func receive(t *testing.T, answers <-chan *apitest.Answer) *apitest.Answer {
	t.Helper()
	select {
	case a := <-answers:
		if a == nil {
			t.Fatal("the wait got no answer")
		}
		return a
	case <-time.After(20 * time.Second):
		t.Fatal("the wait was not answered within 20 s")
	}
	return nil
}

// watched tells when a wait has come to the real service.
type watched struct {
	api.Keys
	waits chan struct{}
}

func (k watched) BeginOrWait(ctx context.Context, caller auth.Caller, req keys.BeginRequest, wait time.Duration) (keys.Outcome, bool, error) {
	k.waits <- struct{}{}
	return k.Keys.BeginOrWait(ctx, caller, req, wait)
}

func TestAWaitEndsWithTheReplay(t *testing.T) {
	t.Parallel()
	waits := make(chan struct{})
	w := apitest.New(t, apitest.WrapKeys(func(service api.Keys) api.Keys { return watched{service, waits} }))
	other := w.Start(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	here, there := parked(t, t.Context(), w.Client(w.Tenant.Service), key), parked(t, t.Context(), other.Client(w.Tenant.Service), key)
	<-waits
	<-waits
	c.Complete(t, held, apitest.Object{"status": 201, "body": "done"}).Expect(t, 200)
	for _, answers := range []<-chan *apitest.Answer{here, there} {
		a := receive(t, answers)
		if got := string(a.Replay(t).Response.Bytes()); got != "done" {
			t.Errorf("body %q, want done", got)
		}
		if got := a.Header.Get("Preference-Applied"); got != "wait=30" {
			t.Errorf("Preference-Applied %q, want wait=30", got)
		}
	}
}

func TestAWaitThatIsOverSaysInProgress(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	// The cases may have to wait for their turn for longer than a lease of 60 s.
	c.Begin(t, apitest.Charge(key).With(apitest.Object{"lease_seconds": 3600})).Acquired(t)
	tests := map[string]struct {
		headers []string
		applied string
		least   time.Duration
	}{
		"no wait":               {nil, "", 0},
		"a second":              {[]string{"Prefer: wait=1"}, "wait=1", time.Second},
		"a second among others": {[]string{"Prefer: respond-async", `prefer: WAIT="1"; x, foo`}, "wait=1", time.Second},
		"no whole number":       {[]string{"Prefer: wait=1.5"}, "", 0},
		"none":                  {[]string{"Prefer: wait=0"}, "wait=0", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			a := c.Begin(t, apitest.Charge(key), tt.headers...)
			took := time.Since(began)
			p := a.Problem(t, 409, "in_progress")
			if p.RetryAfter < 1 || a.Header.Get("Retry-After") == "" {
				t.Errorf("retry_after %d after a wait", p.RetryAfter)
			}
			if got := a.Header.Get("Preference-Applied"); got != tt.applied {
				t.Errorf("Preference-Applied %q, want %q", got, tt.applied)
			}
			if took < tt.least || took > tt.least+10*time.Second {
				t.Errorf("the answer took %s, want about %s", took, tt.least)
			}
		})
	}
}

func TestAWaitOfMoreThan30CountsAs30(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	// Nobody holds the record: the wait is honoured by an answer at once.
	a := w.Client(w.Tenant.Service).Begin(t, apitest.Charge(newKey(t)), "Prefer: wait=3000")
	a.Acquired(t)
	if got := a.Header.Get("Preference-Applied"); got != "wait=30" {
		t.Errorf("Preference-Applied %q, want wait=30", got)
	}
}

func TestAWaiterThatLeavesAcquiresNothing(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client(w.Tenant.Service)
	key := newKey(t)
	held := acquire(t, c, key)
	ctx, leave := context.WithCancel(t.Context())
	gone := parked(t, ctx, w.Client(w.Tenant.Service), key)
	stays := parked(t, t.Context(), w.Client(w.Tenant.Service), key)
	leave()
	if a := <-gone; a != nil {
		t.Fatalf("a client that left got %d", a.Status)
	}
	c.Release(t, held).Expect(t, 204)
	if got := receive(t, stays).Acquired(t); got.Attempt != 2 {
		t.Errorf("attempt %d, want the second: nobody else took it", got.Attempt)
	}
}
