package client_test

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/tenants"
)

func TestTheCallsOfALeaseHolder(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := newClient(t, w)
	ctx := t.Context()

	t.Run("renew", func(t *testing.T) {
		t.Parallel()
		acquired := acquire(t, c, charge(newKey()))
		for length, want := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Minute, 0: time.Minute} { // 0: the policy's
			before := time.Now()
			grant, err := c.Renew(ctx, acquired.Held(), length)
			if err != nil {
				t.Fatal(err)
			}
			if end := grant.ExpiresAt.Add(-want); end.Before(before.Truncate(time.Millisecond)) || end.After(time.Now()) || grant.Fence != acquired.Lease.Fence {
				t.Errorf("%+v, want the same fence and %v from when it was granted", grant, want)
			}
		}
	})
	t.Run("release frees the key at once, for a mended payload too", func(t *testing.T) {
		t.Parallel()
		op := charge(newKey())
		held := acquire(t, c, op).Held()
		for range 2 { // again: the same answer
			if err := c.Release(ctx, held); err != nil {
				t.Fatal(err)
			}
		}
		op.Request = &client.Request{Method: "POST", Path: "/v1/charges", Body: []byte("mended")}
		if next := acquire(t, c, op); next.Attempt != 2 || next.TakenOver {
			t.Errorf("%+v, want a second attempt that takes nothing over", next)
		}
	})
	t.Run("a recovery point comes back as it was sent, to the one that takes over", func(t *testing.T) {
		t.Parallel()
		op := charge(newKey())
		first := acquire(t, c, op)
		data := jsontext.Value(`{"charge": "ch_1", "n": 1.50, "big": 12345678901234567890}`)
		if err := c.SetRecoveryPoint(ctx, first.Held(), "charged", data); err != nil {
			t.Fatal(err)
		}
		w.Advance(t, string(first.ID), longest)
		next := acquire(t, c, op)
		if diff := cmp.Diff(&client.RecoveryPoint{Name: "charged", Data: data}, next.RecoveryPoint); diff != "" || !next.TakenOver {
			t.Errorf("taken over: %v (-set +got):\n%s", next.TakenOver, diff)
		}
		if err := c.SetRecoveryPoint(ctx, next.Held(), "shipped", nil); err != nil {
			t.Fatal(err)
		}
		if point := inspect(t, c, next.ID).RecoveryPoint; point == nil || point.Name != "shipped" {
			t.Errorf("recovery point %+v, want shipped", point)
		}
	})
	t.Run("a policy that does not store this status opens the record", func(t *testing.T) {
		t.Parallel()
		op := charge(newKey())
		op.Name = "POST /v1/flaky"
		policy := tenants.StoreErrorsClient
		w.SetPolicy(t, tenants.Override{Operation: op.Name, StoreErrors: &policy})
		acquired := acquire(t, c, op)
		for range 2 {
			completion, err := c.Complete(ctx, acquired.Held(), client.Response{Status: 503})
			if err != nil || !completion.Released || !completion.CompletedAt.IsZero() {
				t.Fatalf("%+v, %v; want released", completion, err)
			}
		}
		if next := acquire(t, c, op); next.Attempt != 2 {
			t.Errorf("attempt %d, want 2", next.Attempt)
		}
	})
	t.Run("secrets in headers are not stored, and said", func(t *testing.T) {
		t.Parallel()
		op := charge(newKey())
		response := client.Response{Status: 200, Headers: []client.Header{
			{Name: "Set-Cookie", Value: "session=1"}, {Name: "Authorization", Value: "Bearer x"}, {Name: "X-Latin", Value: "caf\xe9"}, {Name: "X-Two", Value: "a\r\nInjected: b"},
		}}
		completion, err := c.Complete(ctx, acquire(t, c, op).Held(), response)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"Authorization", "X-Latin"}, completion.DroppedHeaders); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
		want := []client.Header{{Name: "X-Two", Value: "a  Injected: b"}}
		if diff := cmp.Diff(want, replayOf(t, c, op).Response.Headers); diff != "" {
			t.Errorf("stored (-want +got):\n%s", diff)
		}
	})
	t.Run("inspect shows the history, and an admin what came too late", func(t *testing.T) {
		t.Parallel()
		op := charge(newKey())
		first := acquire(t, c, op)
		w.Advance(t, string(first.ID), longest)
		second := acquire(t, c, op)
		_, err := c.Complete(ctx, first.Held(), created())
		wantCode(t, err, client.ErrLeaseLost)
		record, err := newClient(t, w, withKey(w.Tenant.Admin)).Inspect(ctx, second.ID, client.IncludeResponse, client.IncludeLate)
		if err != nil {
			t.Fatal(err)
		}
		if record.State != client.StateInProgress || record.Attempt != 2 || record.Fence != second.Lease.Fence || record.Response != nil ||
			len(record.Late) != 1 || record.Late[0].Status != 201 || record.Late[0].BodyHead != string(created().Body) ||
			len(record.History) == 0 || record.History[0].Attempt != 1 {
			t.Errorf("record %+v", record)
		}
	})
}
