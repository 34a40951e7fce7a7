package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// TestEveryRefusalHasItsCode provokes, at the real service, each refusal that
// the client's calls can meet, and tells it by its code alone (B047, B081).
func TestEveryRefusalHasItsCode(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.BodyLimit(100))
	c := newClient(t, w)
	ctx := t.Context()

	done := func(op client.Operation) *client.Acquired {
		acquired := acquire(t, c, op)
		if _, err := c.Complete(ctx, acquired.Held(), created()); err != nil {
			t.Fatal(err)
		}
		return acquired
	}
	lapsed := func(op client.Operation) *client.Acquired {
		acquired := acquire(t, c, op)
		w.Advance(t, string(acquired.ID), longest)
		return acquired
	}
	for _, tc := range []struct {
		name    string
		provoke func() error
		want    client.Code
		status  int
		waits   bool // has a RetryAfter
	}{
		{"a live lease", func() error {
			op := charge(newKey())
			acquire(t, c, op)
			_, err := c.Begin(ctx, op)
			return err
		}, client.ErrInProgress, 409, true},
		{"another payload", func() error {
			op := charge(newKey())
			acquire(t, c, op)
			op.Request = &client.Request{Method: "POST", Path: "/v1/charges", Body: []byte("other")}
			_, err := c.Begin(ctx, op)
			return err
		}, client.ErrMismatch, 409, false},
		{"another status for a mismatch", func() error {
			op := charge(newKey())
			op.Name = "POST /v1/refunds"
			status := 422
			w.SetPolicy(t, tenants.Override{Operation: op.Name, MismatchStatus: &status})
			acquire(t, c, op)
			op.Request = &client.Request{Body: []byte("other")}
			_, err := c.Begin(ctx, op)
			return err
		}, client.ErrMismatch, 422, false},
		{"an unknown outcome", func() error {
			op := charge(newKey())
			if err := c.DeclareUnknown(ctx, acquire(t, c, op).Held()); err != nil {
				t.Fatal(err)
			}
			_, err := c.Begin(ctx, op)
			return err
		}, client.ErrOutcomeUnknown, 409, false},
		{"a hold whose lease ended", func() error {
			op := charge(newKey())
			op.Hold = true
			lapsed(op)
			_, err := c.Begin(ctx, op)
			return err
		}, client.ErrOutcomeUnknown, 409, false},
		{"a record that another attempt took over", func() error {
			op := charge(newKey())
			first := lapsed(op)
			acquire(t, c, op)
			_, err := c.Complete(ctx, first.Held(), created())
			return err
		}, client.ErrLeaseLost, 409, false},
		{"a token that was never issued", func() error {
			acquired := acquire(t, c, charge(newKey()))
			return c.Release(ctx, client.Held{ID: acquired.ID, Token: "none"})
		}, client.ErrLeaseLost, 409, false},
		{"another response", func() error {
			acquired := done(charge(newKey()))
			_, err := c.Complete(ctx, acquired.Held(), client.Response{Status: 500})
			return err
		}, client.ErrAlreadyCompleted, 409, false},
		{"a renewal of what is done", func() error {
			_, err := c.Renew(ctx, done(charge(newKey())).Held(), 0)
			return err
		}, client.ErrAlreadyCompleted, 409, false},
		{"a record whose retention has ended", func() error {
			acquired := done(charge(newKey()))
			w.Advance(t, string(acquired.ID), 25*time.Hour)
			_, err := c.Inspect(ctx, acquired.ID)
			return err
		}, client.ErrNotFound, 404, false},
		{"an id that cannot exist", func() error {
			return c.Release(ctx, client.Held{ID: "../../v1/contract?", Token: "none"})
		}, client.ErrNotFound, 404, false},
		{"no key", func() error {
			_, err := c.Begin(ctx, charge(""))
			return err
		}, client.ErrMissingKey, 400, false},
		{"a short key", func() error {
			_, err := c.Begin(ctx, charge("short"))
			return err
		}, client.ErrInvalidKey, 400, false},
		{"a lease of a day", func() error {
			op := charge(newKey())
			op.Lease = 24 * time.Hour
			_, err := c.Begin(ctx, op)
			return err
		}, client.ErrInvalidRequest, 400, false},
		{"no lease token", func() error {
			return c.Release(ctx, client.Held{ID: acquire(t, c, charge(newKey())).ID})
		}, client.ErrInvalidRequest, 400, false},
		{"a response over the limit", func() error {
			acquired := acquire(t, c, charge(newKey()))
			_, err := c.Complete(ctx, acquired.Held(), client.Response{Status: 200, Body: make([]byte, 101)})
			if _, renewErr := c.Renew(ctx, acquired.Held(), 0); renewErr != nil {
				t.Errorf("the lease is not held any more: %v", renewErr)
			}
			return err
		}, client.ErrBodyTooLarge, 413, false},
		{"a response over any limit", func() error {
			acquired := acquire(t, c, charge(newKey()))
			_, err := c.Complete(ctx, acquired.Held(), client.Response{Status: 200, Body: make([]byte, 100+64<<10+1)})
			return err
		}, client.ErrRequestTooLarge, 413, false},
		{"a key that is nobody's", func() error {
			_, err := newClient(t, w, withKey("ow_nobody")).Begin(ctx, charge(newKey()))
			return err
		}, client.ErrUnauthenticated, 401, false},
		{"another role", func() error {
			_, err := newClient(t, w, withKey(w.Tenant.Ops)).Begin(ctx, charge(newKey()))
			return err
		}, client.ErrForbidden, 403, false},
		{"a suspended tenant", func() error {
			other := w.NewTenant(t)
			if err := w.Tenants.Suspend(ctx, other.ID, "a test"); err != nil {
				t.Fatal(err)
			}
			_, err := newClient(t, w, withKey(other.Service)).Begin(ctx, charge(newKey()))
			return err
		}, client.ErrSuspended, 403, false},
		{"the wrong address", func() error {
			wrong, err := client.New(client.Config{BaseURL: w.URL + "/elsewhere", APIKey: w.Tenant.Service, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer wrong.Close(ctx) //nolint:errcheck // it has nothing to deliver
			_, err = wrong.Begin(ctx, charge(newKey()))
			return err
		}, client.ErrNotFound, 404, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("a caller's own words: %w", tc.provoke())
			wantCode(t, err, tc.want)
			e, _ := errors.AsType[*client.Error](err)
			if e.Status != tc.status || e.Detail == "" || (e.RetryAfter > 0) != tc.waits {
				t.Errorf("%+v, want status %d, a detail, and RetryAfter: %v", e, tc.status, tc.waits)
			}
			if client.OutOfReach(err) {
				t.Error("a refusal counts as out of reach")
			}
		})
	}
}

// TestTheCodesOfABatchAreThoseOfSingleCalls provokes the same refusals in
// batches (B047).
func TestTheCodesOfABatchAreThoseOfSingleCalls(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	ctx := t.Context()
	live, done, unknown, fresh := charge(newKey()), charge(newKey()), charge(newKey()), charge(newKey())
	acquire(t, c, live)
	held := acquire(t, c, done).Held()
	if _, err := c.Complete(ctx, held, created()); err != nil {
		t.Fatal(err)
	}
	if err := c.DeclareUnknown(ctx, acquire(t, c, unknown).Held()); err != nil {
		t.Fatal(err)
	}
	mismatch := charge(done.Key)
	mismatch.Request = &client.Request{Method: "POST", Path: "/v1/charges"}
	invalid := charge(newKey())
	invalid.Lease = 24 * time.Hour

	begun, err := c.BeginBatch(ctx, []client.Operation{live, done, charge(""), unknown, mismatch, fresh, invalid, fresh})
	if err != nil {
		t.Fatal(err)
	}
	var codes []client.Code
	for _, r := range begun {
		codes = append(codes, client.CodeOf(r.Err))
	}
	want := []client.Code{client.ErrInProgress, "", client.ErrMissingKey, client.ErrOutcomeUnknown, client.ErrMismatch, "", client.ErrInvalidRequest, client.ErrInProgress}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Fatalf("codes (-want +got):\n%s", diff)
	}
	if _, ok := begun[1].Outcome.(*client.Replay); !ok {
		t.Errorf("what is done answered %T, want *client.Replay", begun[1].Outcome)
	}
	acquired, ok := begun[5].Outcome.(*client.Acquired)
	if !ok {
		t.Fatalf("a new one answered %T, want *client.Acquired", begun[5].Outcome)
	}

	stored, err := c.CompleteBatch(ctx, []client.CompleteEntry{
		{Held: acquired.Held(), Response: created()},
		{Held: held, Response: client.Response{Status: 500}},
		{Held: client.Held{ID: acquired.ID, Token: "none"}, Response: created()},
		{Held: client.Held{ID: "none", Token: "none"}, Response: created()},
	})
	if err != nil {
		t.Fatal(err)
	}
	codes = nil
	for _, r := range stored {
		codes = append(codes, client.CodeOf(r.Err))
	}
	want = []client.Code{"", client.ErrAlreadyCompleted, client.ErrLeaseLost, client.ErrNotFound}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("codes (-want +got):\n%s", diff)
	}
	if replay := replayOf(t, c, fresh); string(replay.Response.Body) != string(created().Body) {
		t.Errorf("the batch stored %q", replay.Response.Body)
	}
}

// failingKeys is the real service, failing as it does when its database is
// away, before or after the work.
type failingKeys struct {
	api.Keys
	before, after func(call string) error
}

func (f failingKeys) Begin(ctx context.Context, caller auth.Caller, req keys.BeginRequest) (keys.Outcome, error) {
	if err := f.before("begin"); err != nil {
		return nil, err
	}
	outcome, err := f.Keys.Begin(ctx, caller, req)
	if failed := f.after("begin"); failed != nil {
		return nil, failed
	}
	return outcome, err
}

func (f failingKeys) Complete(ctx context.Context, caller auth.Caller, req keys.CompleteRequest) (keys.Completion, error) {
	if err := f.before("complete"); err != nil {
		return keys.Completion{}, err
	}
	completion, err := f.Keys.Complete(ctx, caller, req)
	if failed := f.after("complete"); failed != nil {
		return keys.Completion{}, failed
	}
	return completion, err
}

// TestA503AfterTheWorkIsRepeatedToTheSameAnswer lets the service do what it is
// asked and then say that it is unavailable, as it does when it cannot know.
func TestA503AfterTheWorkIsRepeatedToTheSameAnswer(t *testing.T) {
	t.Parallel()
	var failed sync.Map
	w := apitest.New(t, apitest.WrapKeys(func(k api.Keys) api.Keys {
		return failingKeys{Keys: k, before: func(string) error { return nil }, after: func(call string) error {
			if _, again := failed.LoadOrStore(call, true); again {
				return nil
			}
			return problem.Unavailable(errors.New("the database went away"))
		}}
	}))
	c := newClient(t, w)
	op := charge(newKey())
	op.Hold = true
	acquired := acquire(t, c, op)
	if !acquired.Resumed || acquired.Attempt != 1 {
		t.Errorf("%+v, want the first attempt, resumed", acquired)
	}
	if _, err := c.Complete(t.Context(), acquired.Held(), created()); err != nil {
		t.Fatal(err)
	}
	if replay := replayOf(t, c, op); replay.Attempt != 1 || replay.Response.Status != 201 {
		t.Errorf("replay %+v", replay)
	}
}
