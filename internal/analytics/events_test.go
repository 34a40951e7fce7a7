package analytics

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

func (h *house) events(c client, q EventQuery) Events {
	h.t.Helper()
	page, err := h.service.Events(h.t.Context(), c.asks(), q)
	if err != nil {
		h.t.Fatalf("events: %v", err)
	}
	return page
}

func TestAnEventIsKeptAsItWas(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	e := c.event(Replay)
	e.TraceID, e.Attempt, e.Age = "4bf92f3577b34da6a3ce929d0e0e4736", 3, 90*time.Minute+time.Microsecond
	at := h.now.Add(-time.Minute)
	h.recorder.noteAt(at, e)
	h.flush()
	want := []ListedEvent{{
		At: at, Kind: Replay, Namespace: c.namespace, Record: e.Record, Operation: e.Operation, Caller: e.Caller, Key: e.Key,
		Credential: e.Credential, TraceID: e.TraceID, Status: 201, Attempt: 3, Age: &e.Age,
	}}
	if diff := cmp.Diff(h.events(c, EventQuery{}).Items, want, cmpopts.IgnoreFields(ListedEvent{}, "ID")); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestOnlyWhatNeedsALookIsKeptSingly(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	for o := Acquired; o < outcomes; o++ {
		if o != Takeover {
			h.recorder.Note(c.event(o))
		}
	}
	takeover := c.event(Acquired)
	takeover.TakenOver = true
	h.recorder.Note(takeover)
	h.flush()
	got := map[string]int{}
	for _, e := range h.events(c, EventQuery{}).Items {
		got[e.Kind.String()]++
	}
	want := map[string]int{"replay": 1, "in_progress": 1, "mismatch": 1, "unknown": 1, "takeover": 1, "late_completion": 1, "declared_unknown": 1}
	h.same("kinds", got, want)
	for kind := range want {
		h.same("only "+kind, len(h.events(c, EventQuery{Kind: kind}).Items), 1)
	}
}

// Pages follow each other without a gap or a repeat, also where many events
// have one moment, and while new ones come.
func TestPagesOfEventsFollowEachOther(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	want := map[string]int{}
	for i := range 25 {
		e := c.event(Replay)
		want[e.Key] = 1
		h.recorder.noteAt(h.now.Add(-time.Duration(i/10)*time.Second), e)
	}
	h.flush()
	got := map[string]int{}
	q := EventQuery{Limit: 4, Kind: "replay"}
	var last time.Time
	for pages := 1; ; pages++ {
		page := h.events(c, q)
		for _, e := range page.Items {
			got[e.Key]++
			if !last.IsZero() && e.At.After(last) {
				t.Error("an event is newer than the one before it")
			}
			last = e.At
		}
		if q.Cursor = page.NextCursor; q.Cursor == "" {
			h.same("pages", pages, 7)
			break
		}
		h.recorder.noteAt(h.now.Add(time.Second), c.event(Replay))
		h.flush()
	}
	h.same("events", got, want)
}

func TestACursorBelongsToItsTenantAndFilter(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c := newClient()
	for range 3 {
		h.recorder.Note(c.event(Replay))
	}
	h.flush()
	cursor := h.events(c, EventQuery{Limit: 1}).NextCursor
	for name, tt := range map[string]struct {
		asks auth.Caller
		q    EventQuery
	}{
		"another tenant": {newClient().asks(), EventQuery{Cursor: cursor}},
		"another filter": {c.asks(), EventQuery{Cursor: cursor, Kind: "replay"}},
		"nonsense":       {c.asks(), EventQuery{Cursor: "nonsense"}},
		"cut short":      {c.asks(), EventQuery{Cursor: cursor[:len(cursor)-4]}},
	} {
		if _, err := h.service.Events(t.Context(), tt.asks, tt.q); !errors.Is(err, problem.InvalidRequest) {
			t.Errorf("%s: err = %v, want invalid_request", name, err)
		}
	}
	h.same("the same filter, another limit", len(h.events(c, EventQuery{Cursor: cursor, Limit: 9}).Items), 2)
}

func TestEventsAreNarrowedDown(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, elsewhere := newClient(), newClient()
	elsewhere.tenant = c.tenant
	for i, from := range []client{c, elsewhere} {
		e := from.event(Replay)
		h.recorder.noteAt(h.now.Add(-time.Duration(i)*time.Hour), e)
		e.Operation, e.Caller = "PUT /v1/orders", ""
		h.recorder.noteAt(h.now.Add(-time.Duration(i)*time.Hour), e)
	}
	h.flush()
	empty := ""
	for name, tt := range map[string]struct {
		q    EventQuery
		want int
	}{
		"all":              {EventQuery{}, 4},
		"since":            {EventQuery{Since: h.now}, 2},
		"a namespace":      {EventQuery{Namespace: elsewhere.namespace}, 2},
		"an operation":     {EventQuery{Operation: "PUT /v1/orders"}, 2},
		"the empty caller": {EventQuery{Caller: &empty, Namespace: c.namespace}, 1},
	} {
		h.same(name, len(h.events(c, tt.q).Items), tt.want)
	}
	for name, q := range map[string]EventQuery{"kind": {Kind: "acquired"}, "limit": {Limit: 201}} {
		if _, err := h.service.Events(t.Context(), c.asks(), q); !errors.Is(err, problem.InvalidRequest) {
			t.Errorf("%s: err = %v, want invalid_request", name, err)
		}
	}
}
