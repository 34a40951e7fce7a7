package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/tenants"
)

type retention struct {
	DefaultSeconds int              `json:"default_seconds"`
	Operations     map[string]int   `json:"operations"`
	MinSeconds     int              `json:"min_seconds"`
	MaxSeconds     int              `json:"max_seconds"`
	GraceSeconds   int              `json:"grace_seconds"`
	Change         *retentionChange `json:"change"`
}

type retentionChange struct {
	ID             string     `json:"id"`
	State          string     `json:"state"`
	Exact          bool       `json:"exact"`
	Reason         *string    `json:"reason"`
	AskedAt        time.Time  `json:"asked_at"`
	StartsAt       time.Time  `json:"starts_at"`
	FinishedAt     *time.Time `json:"finished_at"`
	RecordsSeen    int        `json:"records_seen"`
	RecordsChanged int        `json:"records_changed"`
}

type preview struct {
	PreviewID   string    `json:"preview_id"`
	ExpiresAt   time.Time `json:"expires_at"`
	Shortened   int       `json:"shortened_records"`
	Gone        int       `json:"pruned_records"`
	GoneBytes   int       `json:"pruned_bytes"`
	LostReplays int       `json:"lost_replays"`
	Replays     int       `json:"replays"`
}

func retentionOf(t *testing.T, c *apitest.Client) (r retention) {
	t.Helper()
	c.Do(t, http.MethodGet, "/v1/retention", nil).Expect(t, 200).Decode(t, &r)
	return r
}

func putRetention(t *testing.T, c *apitest.Client, body apitest.Object) *apitest.Answer {
	t.Helper()
	return c.Do(t, http.MethodPut, "/v1/retention", body, "If-Match: "+policyTag(t, c))
}

func previewOf(t *testing.T, c *apitest.Client, body apitest.Object) (p preview) {
	t.Helper()
	c.Do(t, http.MethodPost, "/v1/retention/preview", body).Expect(t, 200).Decode(t, &p)
	return p
}

// applyRetentions runs the job once.
func applyRetentions(t *testing.T, w *apitest.World) {
	t.Helper()
	if err := tenants.NewUpkeep(w.Pool, keys.NewRetentions(w.Pool)).ApplyRetentions(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// graceIsOver moves every change into the past by the tenant's grace.
func graceIsOver(t *testing.T, w *apitest.World) {
	t.Helper()
	exec(t, w, "update retention_changes set asked_at = asked_at - interval '15 minutes', starts_at = starts_at - interval '15 minutes'")
}

// completed makes a completed record of an operation, with a body of n bytes.
func completed(t *testing.T, c *apitest.Client, operation string, n int) apitest.Acquired {
	t.Helper()
	held := c.Begin(t, apitest.Charge(newKey(t)).With(apitest.Object{"operation": operation})).Acquired(t)
	c.Complete(t, held, apitest.Object{"status": 200, "body": strings.Repeat("x", n)}).Expect(t, 200)
	return held
}

func expiryOf(t *testing.T, c *apitest.Client, id string) time.Time {
	t.Helper()
	return timeOf(t, c, id, "expires_at")
}

func completedAt(t *testing.T, c *apitest.Client, id string) time.Time {
	t.Helper()
	return timeOf(t, c, id, "completed_at")
}

func timeOf(t *testing.T, c *apitest.Client, id, member string) time.Time {
	t.Helper()
	var record map[string]any
	c.Inspect(t, id, "").Expect(t, 200).Decode(t, &record)
	text, _ := record[member].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatalf("%s: %v", member, err)
	}
	return at
}

// B027: nothing outside the range is taken, whatever its type, and nothing goes.
func TestARetentionOutOfRangeIs400AndPrunesNothing(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	held := completed(t, c, "a", 1)
	before := retentionOf(t, admin)
	for _, value := range []any{0, -1, nil, 1e12, 0.5, "24h", 3599, 2592001, true, []int{86400}, apitest.Object{}} {
		for _, body := range []map[string]any{
			{"default_seconds": value},
			{"default_seconds": value, "apply_to_existing": true},
			{"default_seconds": 86400, "operations": map[string]any{"a/b~c": value}},
		} {
			admin.Do(t, http.MethodPut, "/v1/retention", body, "If-Match: "+policyTag(t, admin)).Problem(t, 400, "invalid_request")
			delete(body, "apply_to_existing")
			admin.Do(t, http.MethodPost, "/v1/retention/preview", body).Problem(t, 400, "invalid_request")
		}
	}
	for _, body := range []apitest.Object{{}, {"operations": apitest.Object{}}, {"default_seconds": 86400, "operations": apitest.Object{"": 86400}}, {"default_seconds": 86400, "operations": apitest.Object{"é": 86400}}} {
		putRetention(t, admin, body).Problem(t, 400, "invalid_request")
	}
	p := putRetention(t, admin, apitest.Object{"default_seconds": 86400, "operations": apitest.Object{"a/b~c": 1}}).Problem(t, 400, "invalid_request")
	if p.Errors[0].Pointer != "/operations/a~1b~0c" {
		t.Errorf("the pointer is %s", p.Errors[0].Pointer)
	}
	applyRetentions(t, w)
	if diff := cmp.Diff(retentionOf(t, admin), before); diff != "" {
		t.Errorf("something was set (-after +before):\n%s", diff)
	}
	c.Inspect(t, held.ID, "").Expect(t, 200)
}

// B089: what a record was promised stays; new ones get the new retention.
func TestAChangeOfRetentionLeavesTheRecordsThatExist(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	old := completed(t, c, "a", 1)
	promised := expiryOf(t, c, old.ID)
	putRetention(t, admin, apitest.Object{"default_seconds": 3600, "operations": apitest.Object{"b": 7200}}).Expect(t, 200)
	applyRetentions(t, w)
	other := w.Start(t)
	for _, process := range []*apitest.Client{c, other.Client(w.Tenant.Service)} {
		if got := expiryOf(t, process, old.ID); !got.Equal(promised) {
			t.Errorf("the old one ends at %s, it was promised %s", got, promised)
		}
	}
	for operation, want := range map[string]time.Duration{"a": time.Hour, "b": 2 * time.Hour} {
		made := completed(t, c, operation, 1)
		if got := expiryOf(t, c, made.ID).Sub(made.CreatedAt); got < want || got > want+2*time.Minute {
			t.Errorf("%s is kept for %s, want %s", operation, got, want)
		}
	}
	putRetention(t, admin, apitest.Object{"default_seconds": 7200}).Expect(t, 200)
	got := retentionOf(t, admin)
	want := retention{DefaultSeconds: 7200, Operations: map[string]int{"b": 7200}, MinSeconds: 3600, MaxSeconds: 2592000, GraceSeconds: 900}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	putRetention(t, admin, apitest.Object{"default_seconds": 7200, "operations": apitest.Object{}}).Expect(t, 200)
	if got := retentionOf(t, admin).Operations; len(got) != 0 {
		t.Errorf("operations %v, want none", got)
	}
}

func TestExistingRecordsAreShortenedAfterAPreviewAReasonAndAGrace(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	aged, fresh, other := completed(t, c, "a", 100), completed(t, c, "a", 10), completed(t, c, "b", 1000)
	w.Advance(t, aged.ID, 2*time.Hour)
	w.Advance(t, other.ID, 2*time.Hour)
	running, unknown := acquire(t, c, newKey(t)), acquire(t, c, newKey(t))
	c.DeclareUnknown(t, unknown).Expect(t, 204)
	released := acquire(t, c, newKey(t))
	c.Release(t, released).Expect(t, 204)
	was := map[string]time.Time{
		running.ID: expiryOf(t, c, running.ID),
		// The same retention as before, counted from the completion: what the
		// lease had added is gone.
		other.ID: completedAt(t, c, other.ID).Add(24 * time.Hour),
	}

	setting := apitest.Object{"default_seconds": 3600, "operations": apitest.Object{"b": 86400}}
	shown := previewOf(t, admin, setting)
	if want := (preview{PreviewID: shown.PreviewID, ExpiresAt: shown.ExpiresAt, Shortened: 4, Gone: 1, GoneBytes: 100}); shown != want {
		t.Errorf("the preview is %+v, want %+v", shown, want)
	}
	full := setting.With(apitest.Object{"apply_to_existing": true, "preview_id": shown.PreviewID, "reason": "storage is dear"})
	for name, body := range map[string]apitest.Object{
		"no preview":           full.With(apitest.Object{"preview_id": nil}),
		"no reason":            full.With(apitest.Object{"reason": nil}),
		"a short reason":       full.With(apitest.Object{"reason": "no"}),
		"another setting":      full.With(apitest.Object{"default_seconds": 3700}),
		"other operations":     full.With(apitest.Object{"operations": nil}),
		"a preview of nobody":  full.With(apitest.Object{"preview_id": uuid.NewString()}),
		"no id":                full.With(apitest.Object{"preview_id": "x"}),
		"not applied":          full.With(apitest.Object{"apply_to_existing": false}),
		"another tenant's own": full.With(apitest.Object{"preview_id": previewOf(t, w.Client(w.NewTenant(t).Admin), setting).PreviewID}),
	} {
		if a := putRetention(t, admin, body); a.Status != 400 {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	var set retention
	putRetention(t, admin, full).Expect(t, 200).Decode(t, &set)
	if ch := set.Change; ch == nil || ch.State != "pending" || !ch.Exact || ch.StartsAt.Sub(ch.AskedAt) != 15*time.Minute || *ch.Reason != "storage is dear" {
		t.Fatalf("the change is %+v", set.Change)
	}
	applyRetentions(t, w) // its grace is not over
	c.Inspect(t, aged.ID, "").Expect(t, 200)

	graceIsOver(t, w)
	admin.Do(t, http.MethodDelete, "/v1/retention/change", nil, "If-Match: "+policyTag(t, admin)).Problem(t, 404, "not_found")
	applyRetentions(t, w)
	c.Inspect(t, aged.ID, "").Problem(t, 404, "not_found") // B087: absent at once, pruned or not
	if left := time.Until(expiryOf(t, c, fresh.ID)); left > time.Hour || left < 58*time.Minute {
		t.Errorf("the fresh one is kept for %s more", left)
	}
	if left := time.Until(expiryOf(t, c, released.ID)); left > time.Hour || left < 58*time.Minute {
		t.Errorf("the released one is kept for %s more", left)
	}
	for id, at := range was {
		if got := expiryOf(t, c, id); !got.Equal(at) {
			t.Errorf("%s ends at %s, it was %s", id, got, at)
		}
	}
	if a := c.Inspect(t, unknown.ID, ""); !strings.Contains(string(a.Body), `"expires_at":null`) {
		t.Errorf("the unknown one: %s", a.Body)
	}
	after := retentionOf(t, admin).Change
	if after.State != "done" || after.RecordsSeen != 6 || after.RecordsChanged != 4 || after.FinishedAt == nil {
		t.Errorf("the change is %+v", after)
	}
	if trail := auditOf(t, admin, "&action=retention.change"); len(trail) != 1 || *trail[0].Reason != "storage is dear" {
		t.Errorf("the trail has %+v", trail)
	}
}

func TestAChangeThatWaitsCanBeCancelledAndAnotherTakesItsPlace(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin, c := w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	held := completed(t, c, "a", 1)
	w.Advance(t, held.ID, 2*time.Hour)
	shorten := func() {
		t.Helper()
		p := previewOf(t, admin, apitest.Object{"default_seconds": 3600})
		putRetention(t, admin, apitest.Object{"default_seconds": 3600, "apply_to_existing": true, "preview_id": p.PreviewID, "reason": "because"}).Expect(t, 200)
	}
	shorten()
	admin.Do(t, http.MethodDelete, "/v1/retention/change", nil).Problem(t, 428, "precondition_required")
	admin.Do(t, http.MethodDelete, "/v1/retention/change", nil, `If-Match: "1"`).Problem(t, 412, "precondition_failed")
	admin.Do(t, http.MethodDelete, "/v1/retention/change", nil, "If-Match: "+policyTag(t, admin)).Expect(t, 204)
	admin.Do(t, http.MethodDelete, "/v1/retention/change", nil, "If-Match: "+policyTag(t, admin)).Problem(t, 404, "not_found")
	graceIsOver(t, w)
	applyRetentions(t, w)
	if state := retentionOf(t, admin).Change.State; state != "cancelled" {
		t.Errorf("it is %s", state)
	}
	c.Inspect(t, held.ID, "").Expect(t, 200)

	shorten()
	before := expiryOf(t, c, held.ID)
	// Later only, and at once: no preview is needed.
	putRetention(t, admin, apitest.Object{"default_seconds": 172800, "apply_to_existing": true}).Expect(t, 200)
	graceIsOver(t, w)
	applyRetentions(t, w)
	if got := expiryOf(t, c, held.ID); got.Sub(before) < 20*time.Hour {
		t.Errorf("it ends at %s, it was %s", got, before)
	}
	if ch := retentionOf(t, admin).Change; ch.State != "done" || ch.Exact {
		t.Errorf("the change is %+v", ch)
	}
}

func TestAPreviewIsGoodForTenMinutes(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	p := previewOf(t, admin, apitest.Object{"default_seconds": 3600})
	exec(t, w, "update retention_previews set created_at = created_at - interval '10 minutes 1 second'")
	putRetention(t, admin, apitest.Object{"default_seconds": 3600, "apply_to_existing": true, "preview_id": p.PreviewID, "reason": "because"}).Problem(t, 400, "invalid_request")
}

// The preview counts the replays that were older than the new retention.
func TestAPreviewCountsTheReplaysThatWouldHaveBeenLost(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	admin := w.Client(w.Tenant.Admin)
	for series, operation := range map[string]string{"00000000-0000-0000-0000-00000000000a": "a", "00000000-0000-0000-0000-00000000000b": "b"} {
		exec(t, w, "insert into analytics_series (tenant_id, series_id, namespace_id, operation, caller, last_day) values ($1, $2, $3, $4, '', current_date)",
			uuid.UUID(w.Tenant.ID), series, uuid.UUID(w.Tenant.Live), operation)
		for age, n := range map[float64]int{60: 100, 7000: 10, 80000: 1} { // seconds, replays
			exec(t, w, "insert into analytics_hours (tenant_id, hour, series_id, outcome, bucket, bin, n) values ($1, date_trunc('hour', now()), $2, 3, 0, floor(ln($3::float8) / ln(1.01::float8 / 0.99)), $4)",
				uuid.UUID(w.Tenant.ID), series, age, n)
		}
	}
	p := previewOf(t, admin, apitest.Object{"default_seconds": 3600, "operations": apitest.Object{"b": 10000}})
	if p.LostReplays != 12 || p.Replays != 222 {
		t.Errorf("%d of %d, want 11 of a and 1 of b of 222", p.LostReplays, p.Replays)
	}
}
