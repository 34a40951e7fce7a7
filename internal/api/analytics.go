package api

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
)

// Analytics is what the figures of the wire contract, section 6, are read from:
// *analytics.Service. Every error of it is a *problem.Error.
type Analytics interface {
	Outcomes(ctx context.Context, caller auth.Caller, q analytics.Query) (analytics.Outcomes, error)
	ReplayAges(ctx context.Context, caller auth.Caller, q analytics.Query) (analytics.ReplayAges, error)
	Operations(ctx context.Context, caller auth.Caller, q analytics.Query) (analytics.Groups, error)
	Callers(ctx context.Context, caller auth.Caller, q analytics.Query) (analytics.Groups, error)
	Events(ctx context.Context, caller auth.Caller, q analytics.EventQuery) (analytics.Events, error)
}

// analyticsTable is the rows of the figures.
func analyticsTable() []route {
	readers := []auth.Role{auth.RoleOps, auth.RoleResolver, auth.RoleAdmin}
	filter := []string{"from", "to", "operation", "namespace", "caller"}
	with := func(name string) []string { return append(filter[:len(filter):len(filter)], name) }
	return []route{
		{method: http.MethodGet, pattern: "/v1/analytics/outcomes", listener: Public, roles: readers, admin: true, query: with("step"), call: call((*API).outcomes)},
		{method: http.MethodGet, pattern: "/v1/analytics/replay-ages", listener: Public, roles: readers, admin: true, query: filter, call: call((*API).replayAges)},
		{method: http.MethodGet, pattern: "/v1/analytics/operations", listener: Public, roles: readers, admin: true, query: with("limit"), call: call((*API).operations)},
		{method: http.MethodGet, pattern: "/v1/analytics/callers", listener: Public, roles: readers, admin: true, query: with("limit"), call: call((*API).callers)},
		{
			method: http.MethodGet, pattern: "/v1/events", listener: Public, roles: readers, admin: true,
			query: []string{"kind", "operation", "namespace", "caller", "since", "limit", "cursor"}, call: call((*API).events),
		},
	}
}

const (
	maxOperationBytes = 512
	maxCallerBytes    = 255
)

// filters are the parameters that narrow figures down.
type filters struct {
	namespace auth.NamespaceID
	operation string
	caller    *string
}

func (x *exchange) filters() (f filters, err error) {
	if x.query.Has("namespace") {
		id, ok := parseUUID(x.query.Get("namespace"))
		if !ok {
			return f, badParameter("namespace", "must be the id of a namespace")
		}
		f.namespace = auth.NamespaceID(id)
	}
	if x.query.Has("operation") {
		if f.operation = x.query.Get("operation"); !isText(f.operation, 1, maxOperationBytes) {
			return f, badParameter("operation", "must be 1 to 512 printable ASCII characters")
		}
	}
	if x.query.Has("caller") {
		caller := x.query.Get("caller")
		if !isText(caller, 0, maxCallerBytes) {
			return f, badParameter("caller", "must be at most 255 printable ASCII characters; empty is the empty caller")
		}
		f.caller = &caller
	}
	return f, nil
}

// isText says whether text is printable ASCII of that length, as operations
// and callers are.
func isText(text string, least, most int) bool {
	for i := range len(text) {
		if text[i] < 0x20 || text[i] > 0x7e {
			return false
		}
	}
	return len(text) >= least && len(text) <= most && utf8.ValidString(text)
}

func badParameter(name, reason string) error {
	return problem.Invalid(problem.Field{Parameter: name, Reason: reason})
}

// figuresRequest is GET /v1/analytics/….
type figuresRequest struct {
	query analytics.Query
	csv   bool
}

func (r *figuresRequest) decode(x *exchange) error {
	f, err := x.filters()
	if err != nil {
		return err
	}
	r.query = analytics.Query{Namespace: f.namespace, Operation: f.operation, Caller: f.caller, Step: analytics.Step(x.query.Get("step"))}
	for name, into := range map[string]*time.Time{"from": &r.query.From, "to": &r.query.To} {
		if !x.query.Has(name) {
			continue
		}
		t, ok := parseTime(x.query.Get(name))
		if !ok {
			return badParameter(name, "must be a time such as 2026-11-29T16:59:22Z (RFC 3339)")
		}
		*into = t
	}
	if x.query.Has("step") && r.query.Step.Length() == 0 {
		return badParameter("step", "must be minute, hour or day")
	}
	if x.query.Has("limit") {
		if r.query.Limit, err = strconv.Atoi(x.query.Get("limit")); err != nil || r.query.Limit < 1 {
			return badParameter("limit", "must be a whole number from 1 to 1000")
		}
	}
	r.csv = wantsCSV(x.request.Header)
	return nil
}

// The wire forms. Every time in them is UTC, which "timezone" says to whoever
// labels a chart.

type rangeBody struct {
	From     instant `json:"from"`
	To       instant `json:"to"`
	Timezone string  `json:"timezone"`
}

func rangeOf(r analytics.Range) rangeBody {
	return rangeBody{instant(r.From), instant(r.To), "UTC"}
}

type cappedBody struct {
	Operations bool `json:"operations"`
	Callers    bool `json:"callers"`
}

type conflictsBody struct {
	InProgress          int64 `json:"in_progress"`
	FingerprintMismatch int64 `json:"fingerprint_mismatch"`
	OutcomeUnknown      int64 `json:"outcome_unknown"`
}

type figuresBody struct {
	Begins          int64         `json:"begins"`
	Acquired        int64         `json:"acquired"`
	Resumed         int64         `json:"resumed"`
	Replays         int64         `json:"replays"`
	Conflicts       conflictsBody `json:"conflicts"`
	ConflictRate    *float64      `json:"conflict_rate"` // null where there were no begins
	Takeovers       int64         `json:"takeovers"`
	Releases        int64         `json:"releases"`
	LateCompletions int64         `json:"late_completions"`
	Resolutions     int64         `json:"resolutions"`
	DeclaredUnknown int64         `json:"declared_unknown"`
}

func figuresOf(f analytics.Figures) figuresBody {
	b := figuresBody{
		Begins: f.Begins(), Acquired: f.Of(analytics.Acquired), Resumed: f.Of(analytics.Resumed), Replays: f.Of(analytics.Replay),
		Conflicts: conflictsBody{f.Of(analytics.InProgress), f.Of(analytics.Mismatch), f.Of(analytics.Unknown)},
		Takeovers: f.Of(analytics.Takeover), Releases: f.Of(analytics.Release), LateCompletions: f.Of(analytics.LateCompletion),
		Resolutions: f.Of(analytics.Resolution), DeclaredUnknown: f.Of(analytics.DeclaredUnknown),
	}
	if rate, ok := f.ConflictRate(); ok {
		b.ConflictRate = &rate
	}
	return b
}

type stepBody struct {
	At instant `json:"at"`
	figuresBody
}

type outcomesBody struct {
	rangeBody
	Step        analytics.Step `json:"step"`
	Items       []stepBody     `json:"items"`
	Total       figuresBody    `json:"total"`
	NamesCapped cappedBody     `json:"names_capped"`
}

func (a *API) outcomes(ctx context.Context, caller auth.Caller, req figuresRequest) (tableAnswer, error) {
	answer, err := a.analytics.Outcomes(ctx, caller, req.query)
	if err != nil {
		return tableAnswer{}, err
	}
	body := outcomesBody{
		rangeBody: rangeOf(answer.Range), Step: answer.Step, Items: make([]stepBody, len(answer.Steps)),
		Total: figuresOf(answer.Total), NamesCapped: cappedBody(answer.Capped),
	}
	for i, step := range answer.Steps {
		body.Items[i] = stepBody{instant(step.At), figuresOf(step.Figures)}
	}
	return tableAnswer{csv: req.csv, name: "outcomes", value: body, rows: func(w *csvWriter) {
		w.row(append([]string{"at"}, figuresHeader()...)...)
		for _, step := range answer.Steps {
			w.row(append([]string{timeText(step.At)}, figuresCells(step.Figures)...)...)
		}
	}}, nil
}

type bucketBody struct {
	LE    *float64 `json:"le"` // seconds; null is the last, which has no bound
	Count int64    `json:"count"`
}

type agesBody struct {
	Count   int64        `json:"count"`
	Buckets []bucketBody `json:"buckets"`
	P50     *float64     `json:"p50"` // seconds; null where there were no replays
	P90     *float64     `json:"p90"`
	P99     *float64     `json:"p99"`
}

func agesOf(ages *analytics.Ages) agesBody {
	body := agesBody{Count: ages.Count(), P50: percentile(ages, 0.5), P90: percentile(ages, 0.9), P99: percentile(ages, 0.99)}
	bounds := analytics.Bounds()
	for i, n := range ages.Histogram() {
		bucket := bucketBody{Count: n}
		if i < len(bounds) {
			bucket.LE = new(bounds[i].Seconds())
		}
		body.Buckets = append(body.Buckets, bucket)
	}
	return body
}

// percentile is in seconds, to the microsecond.
func percentile(ages *analytics.Ages, q float64) *float64 {
	age, ok := ages.Quantile(q)
	if !ok {
		return nil
	}
	return new(float64(age.Microseconds()) / 1e6)
}

type replayAgesBody struct {
	rangeBody
	agesBody
	NamesCapped cappedBody `json:"names_capped"`
}

func (a *API) replayAges(ctx context.Context, caller auth.Caller, req figuresRequest) (tableAnswer, error) {
	answer, err := a.analytics.ReplayAges(ctx, caller, req.query)
	if err != nil {
		return tableAnswer{}, err
	}
	body := replayAgesBody{rangeOf(answer.Range), agesOf(&answer.Ages), cappedBody(answer.Capped)}
	return tableAnswer{csv: req.csv, name: "replay-ages", value: body, rows: func(w *csvWriter) {
		w.row("le_seconds", "count")
		for _, bucket := range body.Buckets {
			bound := "+inf"
			if bucket.LE != nil {
				bound = secondsText(*bucket.LE)
			}
			w.row(bound, strconv.FormatInt(bucket.Count, 10))
		}
	}}, nil
}

type readingBody struct {
	Code  string `json:"code"`
	Text  string `json:"text"`
	Count int64  `json:"count"`
	Of    int64  `json:"of"`
}

type groupBody struct {
	figuresBody
	ReplayAges agesBody      `json:"replay_ages"`
	Reading    []readingBody `json:"reading"`
}

func groupOf(g *analytics.Group) groupBody {
	body := groupBody{figuresBody: figuresOf(g.Figures), ReplayAges: agesOf(&g.Ages), Reading: []readingBody{}}
	for _, r := range g.Read() {
		body.Reading = append(body.Reading, readingBody(r))
	}
	return body
}

type operationBody struct {
	Operation string `json:"operation"`
	groupBody
}

type callerBody struct {
	Caller string `json:"caller"`
	groupBody
}

type groupsBody[T any] struct {
	rangeBody
	Items []T `json:"items"`
	// Other is what is beyond the limit and beyond the names that are counted.
	Other       groupBody  `json:"other"`
	Total       groupBody  `json:"total"`
	NamesCapped cappedBody `json:"names_capped"`
}

func (a *API) operations(ctx context.Context, caller auth.Caller, req figuresRequest) (tableAnswer, error) {
	answer, err := a.analytics.Operations(ctx, caller, req.query)
	return groupsAnswer("operation", req, answer, err, func(name string, g groupBody) operationBody { return operationBody{name, g} })
}

func (a *API) callers(ctx context.Context, caller auth.Caller, req figuresRequest) (tableAnswer, error) {
	answer, err := a.analytics.Callers(ctx, caller, req.query)
	return groupsAnswer("caller", req, answer, err, func(name string, g groupBody) callerBody { return callerBody{name, g} })
}

func groupsAnswer[T any](what string, req figuresRequest, answer analytics.Groups, err error, item func(string, groupBody) T) (tableAnswer, error) {
	if err != nil {
		return tableAnswer{}, err
	}
	body := groupsBody[T]{
		rangeBody: rangeOf(answer.Range), Items: make([]T, len(answer.Items)),
		Other: groupOf(&answer.Other), Total: groupOf(&answer.Total), NamesCapped: cappedBody(answer.Capped),
	}
	for i := range answer.Items {
		body.Items[i] = item(answer.Items[i].Name, groupOf(&answer.Items[i]))
	}
	return tableAnswer{csv: req.csv, name: what + "s", value: body, rows: func(w *csvWriter) {
		header := append([]string{what, "other"}, figuresHeader()...)
		w.row(append(header, "p50_seconds", "p90_seconds", "p99_seconds", "reading")...)
		for i := range answer.Items {
			w.group(answer.Items[i].Name, false, &answer.Items[i])
		}
		w.group("", true, &answer.Other)
	}}, nil
}

// eventsRequest is GET /v1/events.
type eventsRequest struct {
	query analytics.EventQuery
	csv   bool
}

func (r *eventsRequest) decode(x *exchange) error {
	f, err := x.filters()
	if err != nil {
		return err
	}
	l, err := x.listing()
	if err != nil {
		return err
	}
	r.query = analytics.EventQuery{
		Kind: x.query.Get("kind"), Namespace: f.namespace, Operation: f.operation, Caller: f.caller,
		Since: l.since, Limit: l.limit, Cursor: l.cursor,
	}
	if x.query.Has("kind") && r.query.Kind == "" {
		return badParameter("kind", fmt.Sprintf("must be one of %s", strings.Join(analytics.Kinds(), ", ")))
	}
	r.csv = wantsCSV(x.request.Header)
	return nil
}
