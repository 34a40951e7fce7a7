package client_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client"
	"github.com/onceward/onceward/internal/api/apitest"
)

// found searches until that many records are found: a search may run behind.
func found(tb testing.TB, c *client.Client, filter client.Search, n int) []client.Record {
	tb.Helper()
	var result client.SearchResult
	eventually(tb, "the search finds them", func() bool {
		var err error
		if result, err = c.Search(tb.Context(), filter); err != nil {
			tb.Fatal(err)
		}
		return len(result.Items) >= n
	})
	if len(result.Items) != n {
		tb.Fatalf("%d records are found, want %d", len(result.Items), n)
	}
	return result.Items
}

// unknown is a record whose outcome nobody knows.
func unknown(tb testing.TB, c *client.Client) (client.Operation, client.Record) {
	tb.Helper()
	op := charge(newKey())
	held := acquire(tb, c, op).Held()
	if err := c.DeclareUnknown(tb.Context(), held); err != nil {
		tb.Fatal(err)
	}
	return op, inspect(tb, c, held.ID)
}

func TestRecordsAreFoundByEachMemberOfTheFilter(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c, admin, ops := newClient(t, w), newClient(t, w, withKey(w.Tenant.Admin)), newClient(t, w, withKey(w.Tenant.Ops))
	op := charge(newKey())
	op.Caller, op.Name, op.Metadata = "cus_1", "refund", map[string]string{"order": "42"}
	acquired := acquire(t, c, op)
	if _, err := c.Complete(t.Context(), acquired.Held(), created()); err != nil {
		t.Fatal(err)
	}
	acquire(t, c, charge(newKey()))

	for name, filter := range map[string]client.Search{
		"key":       {Key: op.Key},
		"caller":    {Caller: "cus_1"},
		"operation": {Operation: "refund"},
		"state":     {State: client.StateCompleted},
		"metadata":  {Metadata: op.Metadata},
		"namespace": {Namespace: w.Tenant.Live.String(), Key: op.Key},
		"since":     {Since: acquired.CreatedAt, Key: op.Key},
		"until":     {Until: acquired.CreatedAt.Add(time.Microsecond)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := found(t, ops, filter, 1)[0]
			if record.ID != acquired.ID || record.Key != op.Key || record.State != client.StateCompleted || record.Status != 201 || record.Fence != acquired.Lease.Fence || !record.CreatedAt.Equal(acquired.CreatedAt) {
				t.Errorf("found %+v", record)
			}
		})
	}
	t.Run("page by page, newest first", func(t *testing.T) {
		t.Parallel()
		all := found(t, admin, client.Search{}, 2)
		var paged []client.RecordID
		filter := client.Search{Limit: 1}
		for range 3 {
			page, err := admin.Search(t.Context(), filter)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Items) > 1 {
				t.Errorf("%d records on a page of 1", len(page.Items))
			}
			for _, record := range page.Items {
				paged = append(paged, record.ID)
			}
			if filter.Cursor = page.NextCursor; filter.Cursor == "" {
				break
			}
		}
		if diff := cmp.Diff([]client.RecordID{all[0].ID, all[1].ID}, paged); diff != "" || paged[1] != acquired.ID {
			t.Errorf("(-at once +page by page):\n%s", diff)
		}
	})
	_, err := c.Search(t.Context(), client.Search{})
	wantCode(t, err, client.ErrForbidden) // not for a service
}

// TestASearchSaysHowFarItIsBehind lets one process of the service have fallen
// behind by ten seconds.
func TestASearchSaysHowFarItIsBehind(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	const behind = "insert into key_search_feeds (feed_id, flushed_through) values (gen_random_uuid(), now() - interval '10 s')"
	if _, err := w.Pool.Exec(t.Context(), behind); err != nil {
		t.Fatal(err)
	}
	page, err := newClient(t, w, withKey(w.Tenant.Ops)).Search(t.Context(), client.Search{})
	if err != nil || page.Lag < 10*time.Second {
		t.Errorf("%v behind, %v; want 10 s or more", page.Lag, err)
	}
}

func TestAForgottenRecordIsAbsent(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c, admin := newClient(t, w), newClient(t, w, withKey(w.Tenant.Admin))
	ctx := t.Context()
	op := charge(newKey())
	first := acquire(t, c, op)
	wantCode(t, admin.Forget(ctx, client.Forget{ID: first.ID, Fence: first.Lease.Fence, Reason: "made by mistake"}), client.ErrLeaseLive)
	wantCode(t, admin.Forget(ctx, client.Forget{ID: first.ID, Fence: first.Lease.Fence + 1, Reason: "made by mistake", Force: true}), client.ErrRecordChanged)
	wantCode(t, admin.Forget(ctx, client.Forget{ID: first.ID, Fence: first.Lease.Fence, Reason: "no", Force: true}), client.ErrInvalidRequest)
	for range 2 { // again: the same answer
		if err := admin.Forget(ctx, client.Forget{ID: first.ID, Fence: first.Lease.Fence, Reason: "made by mistake", Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Inspect(ctx, first.ID)
	wantCode(t, err, client.ErrNotFound)
	next := acquire(t, c, op)
	if next.ID != first.ID || next.Attempt != 1 || next.TakenOver || next.Lease.Fence <= first.Lease.Fence {
		t.Errorf("%+v, want a first attempt with a greater fence than %d", next, first.Lease.Fence)
	}
	wantCode(t, admin.Forget(ctx, client.Forget{ID: first.ID, Fence: first.Lease.Fence, Reason: "made by mistake", Force: true}), client.ErrRecordChanged)
}

func TestAResolverDecidesWhatIsUnknown(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c, resolver := newClient(t, w), newClient(t, w, withKey(w.Tenant.Resolver))
	ctx := t.Context()

	t.Run("as done", func(t *testing.T) {
		t.Parallel()
		op, record := unknown(t, c)
		response := created()
		for range 2 { // again: the same answer
			decided, err := resolver.Resolve(ctx, client.Resolution{ID: record.ID, Fence: record.Fence, Reason: "found at the bank", Response: &response})
			if err != nil {
				t.Fatal(err)
			}
			if decided.State != client.StateCompleted || decided.Status != 201 || decided.CompletedAt.IsZero() || decided.ID != record.ID {
				t.Errorf("%+v, want it completed", decided)
			}
		}
		if diff := cmp.Diff(response, replayOf(t, c, op).Response); diff != "" {
			t.Errorf("replayed (-decided +got):\n%s", diff)
		}
	})
	t.Run("as not done", func(t *testing.T) {
		t.Parallel()
		op, record := unknown(t, c)
		decided, err := resolver.Resolve(ctx, client.Resolution{ID: record.ID, Fence: record.Fence, Reason: "not at the bank"})
		if err != nil || decided.State != client.StateOpen {
			t.Fatalf("%+v, %v; want it open", decided, err)
		}
		other := op
		other.Request = &client.Request{Body: []byte("other")}
		_, err = c.Begin(ctx, other)
		wantCode(t, err, client.ErrMismatch) // its fingerprint stays bound
		if next := acquire(t, c, op); next.Attempt != 2 || next.TakenOver {
			t.Errorf("%+v, want a second attempt", next)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		live := acquire(t, c, charge(newKey()))
		_, err := resolver.Resolve(ctx, client.Resolution{ID: live.ID, Fence: live.Lease.Fence, Reason: "a mistake"})
		wantCode(t, err, client.ErrNotUnknown)
		_, record := unknown(t, c)
		_, err = resolver.Resolve(ctx, client.Resolution{ID: record.ID, Fence: record.Fence - 1, Reason: "a mistake"})
		wantCode(t, err, client.ErrRecordChanged)
		_, err = newClient(t, w, withKey(w.Tenant.Ops)).Resolve(ctx, client.Resolution{ID: record.ID, Fence: record.Fence, Reason: "a mistake"})
		wantCode(t, err, client.ErrForbidden)
	})
}

// TestABatchOfResolutionsHasAResultForEach mixes all that can come of one.
func TestABatchOfResolutionsHasAResultForEach(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c, resolver := newClient(t, w), newClient(t, w, withKey(w.Tenant.Resolver))
	doneOp, done := unknown(t, c)
	openOp, open := unknown(t, c)
	_, stale := unknown(t, c)
	live := acquire(t, c, charge(newKey()))
	response := client.Response{Status: 202, Headers: []client.Header{{Name: "X-A", Value: "1"}}, Body: everyByte()}

	results, err := resolver.ResolveBatch(t.Context(), []client.Resolution{
		{ID: done.ID, Fence: done.Fence, Reason: "found at the bank", Response: &response},
		{ID: live.ID, Fence: live.Lease.Fence, Reason: "a mistake"},
		{ID: open.ID, Fence: open.Fence, Reason: "not at the bank"},
		{ID: stale.ID, Fence: stale.Fence - 1, Reason: "a mistake"},
		{ID: "AAAAAAAAAAAAAAAAAAAAAA", Fence: 1, Reason: "a mistake"},
	})
	if err != nil {
		t.Fatal(err)
	}
	type decided struct {
		id    client.RecordID
		state client.State
		code  client.Code
	}
	var got []decided
	for _, r := range results {
		got = append(got, decided{r.Record.ID, r.Record.State, client.CodeOf(r.Err)})
	}
	want := []decided{
		{done.ID, client.StateCompleted, ""},
		{"", "", client.ErrNotUnknown},
		{open.ID, client.StateOpen, ""},
		{"", "", client.ErrRecordChanged},
		{"", "", client.ErrNotFound},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(decided{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if results[0].Record.Status != 202 {
		t.Errorf("%+v, want the status of its response", results[0].Record)
	}
	if diff := cmp.Diff(response, replayOf(t, c, doneOp).Response); diff != "" {
		t.Errorf("replayed (-decided +got):\n%s", diff)
	}
	if next := acquire(t, c, openOp); next.Attempt != 2 {
		t.Errorf("attempt %d, want 2", next.Attempt)
	}
	if _, err := resolver.ResolveBatch(t.Context(), make([]client.Resolution, 201)); client.CodeOf(err) != client.ErrInvalidRequest {
		t.Errorf("201 resolutions: %v", err)
	}
}
