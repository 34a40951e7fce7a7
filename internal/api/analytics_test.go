package api_test

import (
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/api"
	"github.com/onceward/onceward/internal/api/apitest"
	"github.com/onceward/onceward/internal/api/reference/openapitest"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// nobody is an Observer that listens to nothing.
type nobody struct{}

func (nobody) ObserveBegin(auth.Caller, keys.BeginObservation)         {}
func (nobody) ObserveLateCompletion(auth.Caller, keys.LateObservation) {}
func (nobody) ObserveCorrupt(auth.Caller, keys.ID)                     {}

// counted is a world whose calls are counted.
type counted struct {
	*apitest.World
	t        *testing.T
	recorder *analytics.Recorder
	admin    *apitest.Client
	service  *apitest.Client
}

func newCounted(t *testing.T, opts ...apitest.Option) *counted {
	t.Helper()
	pool := postgrestest.New(t)
	recorder := analytics.New(analytics.Config{Pool: pool})
	opts = append(opts, apitest.Observer(api.Capture{Recorder: recorder, Next: nobody{}}))
	w := &counted{World: apitest.On(t, pool, opts...), t: t, recorder: recorder}
	w.admin, w.service = w.Client(w.Tenant.Admin), w.Client(w.Tenant.Service)
	return w
}

func (w *counted) flush() {
	w.t.Helper()
	if err := w.recorder.Flush(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *counted) rollUp() {
	w.t.Helper()
	if _, err := analytics.NewAggregator(w.Pool).RollUp(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// The bodies of the figures, as a client reads them.

type figures struct {
	Begins    int64 `json:"begins"`
	Acquired  int64 `json:"acquired"`
	Resumed   int64 `json:"resumed"`
	Replays   int64 `json:"replays"`
	Conflicts struct {
		InProgress          int64 `json:"in_progress"`
		FingerprintMismatch int64 `json:"fingerprint_mismatch"`
		OutcomeUnknown      int64 `json:"outcome_unknown"`
	} `json:"conflicts"`
	ConflictRate    *float64 `json:"conflict_rate"`
	Takeovers       int64    `json:"takeovers"`
	Releases        int64    `json:"releases"`
	LateCompletions int64    `json:"late_completions"`
	Resolutions     int64    `json:"resolutions"`
	DeclaredUnknown int64    `json:"declared_unknown"`
}

type span struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Timezone string    `json:"timezone"`
}

type cappedNames struct {
	Operations bool `json:"operations"`
	Callers    bool `json:"callers"`
}

type outcomes struct {
	span
	Step  string `json:"step"`
	Items []struct {
		At time.Time `json:"at"`
		figures
	} `json:"items"`
	Total       figures     `json:"total"`
	NamesCapped cappedNames `json:"names_capped"`
}

type ages struct {
	Count   int64 `json:"count"`
	Buckets []struct {
		LE    *float64 `json:"le"`
		Count int64    `json:"count"`
	} `json:"buckets"`
	P50 *float64 `json:"p50"`
	P90 *float64 `json:"p90"`
	P99 *float64 `json:"p99"`
}

type replayAges struct {
	span
	ages
	NamesCapped cappedNames `json:"names_capped"`
}

type group struct {
	Operation string `json:"operation,omitzero"`
	Caller    string `json:"caller,omitzero"`
	figures
	ReplayAges ages `json:"replay_ages"`
	Reading    []struct {
		Code  string `json:"code"`
		Text  string `json:"text"`
		Count int64  `json:"count"`
		Of    int64  `json:"of"`
	} `json:"reading"`
}

type groups struct {
	span
	Items       []group     `json:"items"`
	Other       group       `json:"other"`
	Total       group       `json:"total"`
	NamesCapped cappedNames `json:"names_capped"`
}

type event struct {
	At             time.Time `json:"at"`
	Kind           string    `json:"kind"`
	Namespace      string    `json:"namespace"`
	ID             string    `json:"id"`
	Operation      string    `json:"operation"`
	Caller         string    `json:"caller"`
	Key            string    `json:"key"`
	Credential     string    `json:"credential"`
	TraceID        *string   `json:"trace_id"`
	Attempt        *int      `json:"attempt"`
	AgeSeconds     *float64  `json:"age_seconds"`
	OriginalStatus *int      `json:"original_status"`
}

type events struct {
	Items      []event `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

func get[T any](w *counted, path string) (body T) {
	w.t.Helper()
	a := w.admin.Do(w.t, http.MethodGet, path, nil)
	a.Expect(w.t, http.StatusOK).Decode(w.t, &body)
	if got := a.Header.Get("Cache-Control"); got != "no-store" {
		w.t.Errorf("%s: Cache-Control %q", path, got)
	}
	return body
}

// documented holds everything that was said in this world against the OpenAPI
// document.
func (w *counted) documented() {
	w.t.Helper()
	v, err := openapitest.New()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range w.Exchanges() {
		if err := v.Validate(openapitest.Exchange(e)); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *counted) same(what string, got, want any) {
	w.t.Helper()
	if diff := cmp.Diff(got, want, cmpopts.IgnoreFields(figures{}, "ConflictRate")); diff != "" {
		w.t.Errorf("%s (-got +want):\n%s", what, diff)
	}
}

// tally counts answers from outside: by what HTTP said alone.
type tally struct {
	total       figures
	byOperation map[string]int64 // begins
	ages        []float64
}

// begin counts one answered begin, alone or in a batch, and returns what it
// acquired.
func (t *tally) begin(tb testing.TB, operation string, status int, as func(into any)) (acquired *apitest.Acquired) {
	tb.Helper()
	t.byOperation[operation]++
	t.total.Begins++
	var (
		lease   apitest.Acquired
		replay  apitest.Replay
		problem apitest.Problem
	)
	switch status {
	case http.StatusCreated:
		as(&lease)
		if lease.Resumed {
			t.total.Resumed++
			return nil
		}
		t.total.Acquired++
		if lease.TakenOver {
			t.total.Takeovers++
		}
		return &lease
	case http.StatusOK:
		as(&replay)
		t.total.Replays++
		t.ages = append(t.ages, replay.AgeSeconds)
		return nil
	}
	as(&problem)
	switch problem.Code {
	case "in_progress":
		t.total.Conflicts.InProgress++
	case "fingerprint_mismatch":
		t.total.Conflicts.FingerprintMismatch++
	case "outcome_unknown":
		t.total.Conflicts.OutcomeUnknown++
	default:
		tb.Fatalf("a begin is answered %d %s", status, problem.Code)
	}
	return nil
}

// Two thousand random calls, in batches too and some of them refused; then
// every view is what they were answered.
func TestEveryViewIsWhatTheCallsWereAnswered(t *testing.T) {
	t.Parallel()
	const calls = 2_000
	w := newCounted(t)
	want := &tally{byOperation: map[string]int64{}}
	r := rand.New(rand.NewPCG(5, 5))
	held := map[string]apitest.Acquired{}
	var stale []apitest.Acquired
	charge := func() (apitest.Object, string) {
		operation := fmt.Sprintf("POST /v1/op%d", r.IntN(4))
		return apitest.Charge(fmt.Sprintf("key number %d", r.IntN(25))).With(apitest.Object{
			"operation": operation, "caller": []any{nil, "cus_1", "cus_2"}[r.IntN(3)], "owner": fmt.Sprintf("owner-number-%d-0123456789", r.IntN(40)),
			"request": apitest.Object{"body": fmt.Sprint(r.IntN(12) / 11)},
		}), operation
	}
	for range calls {
		switch n := r.IntN(20); {
		case n < 12:
			body, operation := charge()
			answer := w.service.Begin(t, body)
			if a := want.begin(t, operation, answer.Status, func(into any) { answer.Decode(t, into) }); a != nil {
				held[a.ID] = *a
			}
		case n < 13: // not a begin
			w.service.Begin(t, apitest.Object{"key": "short"}).Expect(t, http.StatusBadRequest)
		case n < 14:
			var operations []string
			var list []apitest.Object
			for range 5 {
				body, operation := charge()
				list, operations = append(list, body), append(operations, operation)
			}
			results := w.service.Do(t, http.MethodPost, "/v1/keys/batch", apitest.Object{"operations": list}).Results(t)
			for i, result := range results {
				as := func(into any) { result.As(t, into) }
				if result.Problem != nil {
					as = func(into any) { *into.(*apitest.Problem) = *result.Problem }
				}
				if a := want.begin(t, operations[i], result.Status, as); a != nil {
					held[a.ID] = *a
				}
			}
		case n < 15 && len(stale) > 10: // a former holder comes back
			answer := w.service.Complete(t, stale[0], apitest.Object{"status": 201, "body": "late"})
			stale = stale[1:]
			if answer.Status == http.StatusConflict {
				want.total.LateCompletions++
			}
		default:
			for id, a := range held {
				delete(held, id)
				switch r.IntN(5) {
				case 0:
					w.service.Release(t, a).Expect(t, http.StatusNoContent)
					want.total.Releases++
				case 1:
					w.service.DeclareUnknown(t, a).Expect(t, http.StatusNoContent)
					want.total.DeclaredUnknown++
				case 2:
					w.Advance(t, id, 2*time.Minute) // its lease lapses
					stale = append(stale, a)
				default:
					w.service.Complete(t, a, apitest.Object{"status": 201, "body": "{}"}).Expect(t, http.StatusOK)
				}
				break
			}
		}
	}
	w.flush()
	check := func(when string) {
		t.Helper()
		w.same(when+": outcomes", get[outcomes](w, "/v1/analytics/outcomes").Total, want.total)
		w.same(when+": outcomes by the minute", get[outcomes](w, "/v1/analytics/outcomes?step=minute").Total, want.total)
		shown := get[replayAges](w, "/v1/analytics/replay-ages")
		w.same(when+": replays by age", shown.Count, int64(len(want.ages)))
		got := [2]int64{} // up to a second, and above
		for _, bucket := range shown.Buckets {
			i := 1
			if bucket.LE != nil && *bucket.LE <= 1 {
				i = 0
			}
			got[i] += bucket.Count
		}
		truth := [2]int64{}
		for _, age := range want.ages {
			i := 1
			if age <= 1 {
				i = 0
			}
			truth[i]++
		}
		w.same(when+": replays of up to a second and above", got, truth)
		for _, view := range []string{"operations", "callers"} {
			body := get[groups](w, "/v1/analytics/"+view)
			w.same(when+": "+view+" in total", body.Total.figures, want.total)
			sum := int64(0)
			for _, item := range body.Items {
				sum += item.Begins
				if view == "operations" {
					w.same(when+": begins of "+item.Operation, item.Begins, want.byOperation[item.Operation])
				}
			}
			w.same(when+": "+view+" add up", sum+body.Other.Begins, want.total.Begins)
		}
		single := int64(0)
		for cursor := ""; ; {
			page := get[events](w, "/v1/events?limit=200&cursor="+cursor)
			if single += int64(len(page.Items)); page.NextCursor == nil {
				break
			}
			cursor = *page.NextCursor
		}
		w.same(when+": events", single, want.total.Replays+want.total.Conflicts.InProgress+want.total.Conflicts.FingerprintMismatch+
			want.total.Conflicts.OutcomeUnknown+want.total.Takeovers+want.total.LateCompletions+want.total.DeclaredUnknown)
	}
	check("flushed")
	for range 3 {
		w.rollUp()
	}
	check("rolled up three times")
	w.admin.Do(t, http.MethodPost, "/v1/prune", nil).Expect(t, http.StatusOK)
	check("after pruning")
	w.documented()
	if want.total.Replays == 0 || want.total.Takeovers == 0 || want.total.LateCompletions == 0 || want.total.Conflicts.OutcomeUnknown == 0 || want.total.Resumed == 0 {
		t.Errorf("the calls were too tame: %+v", want.total)
	}
}

// Case: a replay comes a second before its record expires, and pruning runs
// before the roll-up.
func TestAReplayOfAPrunedRecordIsInTheFigures(t *testing.T) {
	t.Parallel()
	w := newCounted(t, apitest.Retention(time.Minute, time.Hour))
	key := newKey(t)
	a := w.service.Begin(t, apitest.Charge(key).With(apitest.Object{"retention_seconds": number("60")})).Acquired(t)
	w.service.Complete(t, a, apitest.Object{"status": 201}).Expect(t, http.StatusOK)
	w.Advance(t, a.ID, 118*time.Second) // lease and retention are two minutes
	w.service.Begin(t, apitest.Charge(key)).Replay(t)
	w.Advance(t, a.ID, 10*time.Second)
	w.flush()
	pruned := w.admin.Do(t, http.MethodPost, "/v1/prune", nil).Expect(t, http.StatusOK)
	var report struct {
		Pruned      int64   `json:"pruned"`
		Left        int64   `json:"left"`
		TookSeconds float64 `json:"took_seconds"`
		Done        bool    `json:"done"`
	}
	pruned.Decode(t, &report)
	w.same("pruned", []any{report.Pruned, report.Left, report.Done}, []any{int64(1), int64(0), true})
	w.rollUp()
	w.same("replays", get[outcomes](w, "/v1/analytics/outcomes").Total.Replays, int64(1))
	w.same("ages", get[replayAges](w, "/v1/analytics/replay-ages").Count, int64(1))
}

func TestFiguresAreGivenAsCSVWithCellsThatNoSpreadsheetCalculates(t *testing.T) {
	t.Parallel()
	w := newCounted(t)
	for _, caller := range []string{"=cmd|' /C calc'!A0", "@sum(1)", `quotes " and, commas`, "+1 555", "-2"} {
		w.service.Begin(t, apitest.Charge(newKey(t)).With(apitest.Object{"caller": caller})).Acquired(t)
	}
	key := "=HYPERLINK(\"x\")"
	w.service.Begin(t, apitest.Charge(key)).Acquired(t)
	w.service.Begin(t, apitest.Charge(key)).Problem(t, http.StatusConflict, "in_progress")
	w.flush()
	read := func(path string) [][]string {
		t.Helper()
		a := w.admin.Do(t, http.MethodGet, path, nil, "Accept: application/xml, text/csv;q=0.9").Expect(t, http.StatusOK)
		if got := a.Header.Get("Content-Type"); got != "text/csv; charset=utf-8; header=present" {
			t.Errorf("%s: Content-Type %q", path, got)
		}
		rows, err := csv.NewReader(strings.NewReader(string(a.Body))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	got := map[string]string{}
	for _, row := range read("/v1/analytics/callers")[1:] {
		got[row[0]+" "+row[1]] = row[2] // the begins
	}
	w.same("callers", got, map[string]string{
		"'=cmd|' /C calc'!A0 false": "1", "'@sum(1) false": "1", `quotes " and, commas false`: "1", "'+1 555 false": "1", "-2 false": "1",
		" false": "2", " true": "0",
	})
	rows := read("/v1/events")
	w.same("rows of events", len(rows), 2)
	w.same("the key", rows[1][6], "'"+key)
	total := 0
	for _, row := range read("/v1/analytics/outcomes")[1:] {
		if row[1] != "0" {
			total++
		}
	}
	w.same("steps with begins", total, 1)
	w.same("buckets", len(read("/v1/analytics/replay-ages")), 15)
	w.same("operations", len(read("/v1/analytics/operations")), 3)

	for accept, want := range map[string]string{"*/*": "application/json", "text/csv;q=0, application/json": "application/json", "text/*": "application/json", "TEXT/CSV": "text/csv; charset=utf-8; header=present"} {
		a := w.admin.Do(t, http.MethodGet, "/v1/analytics/outcomes", nil, "Accept: "+accept).Expect(t, http.StatusOK)
		w.same("for Accept: "+accept, a.Header.Get("Content-Type"), want)
	}
	w.documented()
}

func TestAnEventSaysWhatHappenedToWhom(t *testing.T) {
	t.Parallel()
	w := newCounted(t)
	key := newKey(t)
	a := w.service.Begin(t, apitest.Charge(key).With(apitest.Object{"caller": "cus_1"})).Acquired(t)
	w.service.Complete(t, a, apitest.Object{"status": 402}).Expect(t, http.StatusOK)
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	age := w.service.Begin(t, apitest.Charge(key).With(apitest.Object{"caller": "cus_1"}), "traceparent: 00-"+trace+"-00f067aa0ba902b7-01").Replay(t).AgeSeconds
	w.flush()
	got := get[events](w, "/v1/events?kind=replay").Items
	want := []event{{
		Kind: "replay", Namespace: w.Tenant.Live.String(), ID: a.ID, Operation: "POST /v1/charges", Caller: "cus_1", Key: key,
		TraceID: new(trace), Attempt: new(1), AgeSeconds: &age, OriginalStatus: new(402),
	}}
	if diff := cmp.Diff(got, want, cmpopts.IgnoreFields(event{}, "At", "Credential")); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
	if len(got) == 1 && !strings.Contains(w.Tenant.Service, got[0].Credential) {
		t.Errorf("credential %q is not that of the call", got[0].Credential)
	}
}

func TestFiguresAreForReadersAndTheirParametersAreChecked(t *testing.T) {
	t.Parallel()
	w := newCounted(t)
	paths := []string{"/v1/analytics/outcomes", "/v1/analytics/replay-ages", "/v1/analytics/operations", "/v1/analytics/callers", "/v1/events"}
	for _, path := range paths {
		w.service.Do(t, http.MethodGet, path, nil).Problem(t, http.StatusForbidden, "forbidden")
		for _, key := range []string{w.Tenant.Ops, w.Tenant.Resolver, w.Tenant.Admin} {
			w.Client(key).Do(t, http.MethodGet, path, nil).Expect(t, http.StatusOK)
		}
		for _, query := range []string{"namespace=live", "operation=", "operation=%00", "caller=%7F", "unknown=1", "operation=a&operation=b", "limit=0"} {
			if strings.HasPrefix(query, "limit") && (strings.Contains(path, "outcomes") || strings.Contains(path, "ages")) {
				continue
			}
			p := w.admin.Do(t, http.MethodGet, path+"?"+query, nil).Problem(t, http.StatusBadRequest, "invalid_request")
			if name, _, _ := strings.Cut(query, "="); len(p.Errors) != 1 || p.Errors[0].Parameter != name {
				t.Errorf("%s?%s: %+v", path, query, p.Errors)
			}
		}
	}
	for _, query := range []string{"from=yesterday", "to=2026-11-29", "step=week", "step=", "from=2020-01-01T00:00:00Z", "from=2026-11-29T12:00:00Z&to=2026-11-29T11:00:00Z"} {
		w.admin.Do(t, http.MethodGet, "/v1/analytics/outcomes?"+query, nil).Problem(t, http.StatusBadRequest, "invalid_request")
	}
	for _, query := range []string{"kind=", "kind=acquired", "since=now", "cursor=nonsense", "limit=201"} {
		w.admin.Do(t, http.MethodGet, "/v1/events?"+query, nil).Problem(t, http.StatusBadRequest, "invalid_request")
	}
	from := time.Now().Add(-90 * time.Minute).UTC()
	body := get[outcomes](w, "/v1/analytics/outcomes?from="+url.QueryEscape(from.Format(time.RFC3339)))
	if body.Timezone != "UTC" || body.Step != "hour" || len(body.Items) < 2 || !body.From.Equal(from.Truncate(time.Hour)) || !body.Items[0].At.Equal(body.From) {
		t.Errorf("%+v", body.span)
	}
	w.documented()
}
