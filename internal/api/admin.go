package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/audit"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/limits"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// Administration is what the calls of the wire contract, section 6, and the
// administrative ones of section 5 are made of.
type Administration struct {
	Tenants     *tenants.Service
	Credentials *auth.Credentials
	Audit       *audit.Log
	Operators   *auth.Operators // nobody where nil
	Tokens      *auth.Tokens    // none are made where nil
	Retentions  tenants.Records
	Records     Records
	Limits      *limits.Limiter // no limit is kept where nil
	Usage       *limits.Usage
}

// Records is the administration of records: *keys.Service. Every error of it is
// a *problem.Error.
type Records interface {
	Forget(ctx context.Context, caller auth.Caller, req keys.ForgetRequest) error
	Resolve(ctx context.Context, caller auth.Caller, req keys.ResolveRequest) (keys.Record, error)
	Search(ctx context.Context, caller auth.Caller, req keys.SearchRequest) (keys.SearchResult, error)
}

// adminTable is the rows of administration. Every refusal of one of them is
// written to the tenant's audit trail.
func adminTable() []route {
	admin := []auth.Role{auth.RoleAdmin}
	readers := []auth.Role{auth.RoleOps, auth.RoleResolver, auth.RoleAdmin}
	deciders := []auth.Role{auth.RoleResolver, auth.RoleAdmin}
	rows := []route{
		// Section 5: finding and deciding.
		{method: http.MethodPost, pattern: "/v1/keys/search", roles: readers, body: jsonBody, call: call((*API).search)},
		{method: http.MethodPost, pattern: "/v1/keys/{id}/forget", roles: admin, needsKey: true, body: jsonBody, call: call((*API).forget)},
		{method: http.MethodPost, pattern: "/v1/keys/{id}/resolution", roles: deciders, needsKey: true, body: jsonBody, call: call((*API).resolve)},
		{method: http.MethodPost, pattern: "/v1/resolutions/batch", roles: deciders, needsKey: true, body: batchBody, call: call((*API).resolveBatch)},

		// Section 6: credentials and namespaces.
		{method: http.MethodGet, pattern: "/v1/credentials", roles: readers, call: call((*API).listCredentials)},
		{method: http.MethodPost, pattern: "/v1/credentials", roles: admin, needsKey: true, body: jsonBody, call: call((*API).issueCredential)},
		{method: http.MethodPost, pattern: "/v1/credentials/{id}/rotate", roles: admin, needsKey: true, body: optionalJSONBody, call: call((*API).rotateCredential)},
		{method: http.MethodDelete, pattern: "/v1/credentials/{id}", roles: admin, needsKey: true, call: call((*API).revokeCredential)},
		{method: http.MethodGet, pattern: "/v1/namespaces", roles: readers, call: call((*API).listNamespaces)},
		{method: http.MethodPost, pattern: "/v1/namespaces", roles: admin, body: jsonBody, call: call((*API).createNamespace)},
		{method: http.MethodPatch, pattern: "/v1/namespaces/{id}", roles: admin, body: jsonBody, call: call((*API).renameNamespace)},

		// Section 6: policy and audit.
		{method: http.MethodGet, pattern: "/v1/policy", roles: readers, call: call((*API).getPolicy)},
		{method: http.MethodPatch, pattern: "/v1/policy", roles: admin, body: jsonBody, call: call((*API).patchPolicy)},
		{method: http.MethodGet, pattern: "/v1/policy/operations", roles: readers, call: call((*API).listOperationPolicies)},
		{method: http.MethodPut, pattern: "/v1/policy/operations", roles: admin, body: jsonBody, call: call((*API).putOperationPolicy)},
		{method: http.MethodDelete, pattern: "/v1/policy/operations", roles: admin, query: []string{"operation", "namespace"}, call: call((*API).deleteOperationPolicy)},
		{method: http.MethodGet, pattern: "/v1/retention", roles: readers, call: call((*API).getRetention)},
		{method: http.MethodPut, pattern: "/v1/retention", roles: admin, body: jsonBody, call: call((*API).putRetention)},
		{method: http.MethodPost, pattern: "/v1/retention/preview", roles: admin, body: jsonBody, call: call((*API).previewRetention)},
		{method: http.MethodDelete, pattern: "/v1/retention/change", roles: admin, call: call((*API).cancelRetention)},
		{method: http.MethodGet, pattern: "/v1/usage", roles: readers, query: []string{"from", "to"}, call: call((*API).usage)},
		{method: http.MethodGet, pattern: "/v1/audit", roles: readers, query: []string{"action", "actor", "object", "since", "until", "limit", "cursor"}, call: call((*API).listAudit)},
	}
	for i := range rows {
		rows[i].admin = true
		if rows[i].listener == "" {
			rows[i].listener = Public
		}
	}
	return rows
}

// noteResponseRead writes to the audit trail that a stored response was looked
// at. What cannot be written is not shown.
func (a *API) noteResponseRead(ctx context.Context, caller auth.Caller, id keys.ID) error {
	return a.admin.Audit.Add(ctx, audit.Entry{
		Tenant: uuid.UUID(caller.Tenant), Actor: caller.Actor(), Action: "response.read", Object: audit.Object{Kind: "record", ID: id.String()},
	})
}

// adminAnswer is JSON with a status, and with the version of a policy as its
// ETag.
type adminAnswer struct {
	status   int
	value    any
	version  int64 // zero: no ETag
	location string
}

func (a adminAnswer) send(x *exchange) error {
	body, err := json.Marshal(a.value)
	if err != nil {
		return err
	}
	if a.version != 0 {
		x.Header().Set("ETag", etag(a.version))
	}
	if a.location != "" {
		x.Header().Set("Location", a.location)
	}
	x.write(a.status, mediaJSON, body)
	return nil
}

func ok(value any) adminAnswer { return adminAnswer{status: http.StatusOK, value: value} }

func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ifMatch reads the versions that If-Match names (RFC 9110, section 13.1.1).
// Weak tags and what is none of ours match nothing; nor does *, under which two
// administrators could overwrite each other.
func ifMatch(h http.Header) tenants.Precondition {
	values := h.Values("If-Match")
	pre := tenants.Precondition{Given: len(values) > 0}
	for _, line := range values {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.Trim(tag, " \t")
			if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
				continue
			}
			if version, err := strconv.ParseInt(tag[1:len(tag)-1], 10, 64); err == nil && etag(version) == tag {
				pre.Versions = append(pre.Versions, version)
			}
		}
	}
	return pre
}

// page is a list in parts; nextCursor is null at the end.
type page[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

func pageOf[S, T any](list []S, convert func(S) T) page[T] {
	p := page[T]{Items: make([]T, len(list))}
	for i, item := range list {
		p.Items[i] = convert(item)
	}
	return p
}

// instant is a time on the wire; the zero time is null.
type instant time.Time

// MarshalJSON writes RFC 3339 with six digits.
func (t instant) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + timeText(time.Time(t)) + `"`), nil
}

func instantOf(t *time.Time) instant {
	if t == nil {
		return instant{}
	}
	return instant(*t)
}

const maxSeconds = 1 << 31 // above every limit of ours, and safe as a duration

// duration is a number of seconds as a duration; what is far outside of every
// range stays outside of it.
func duration(n *wholeNumber) *time.Duration {
	if n == nil {
		return nil
	}
	d := time.Duration(min(max(int64(*n), -1), maxSeconds)) * time.Second
	return &d
}

// parseUUID reads the canonical form alone.
func parseUUID(text string) (id uuid.UUID, ok bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && id.String() == text
}

func parseTime(text string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339Nano, text)
	return t, err == nil
}

// listing is what every list takes from its query.
type listing struct {
	limit        int
	cursor       string
	since, until time.Time
}

const (
	defaultPage = 50
	maxPage     = 200
)

func (x *exchange) listing() (l listing, err error) {
	l.limit = defaultPage
	if x.query.Has("limit") {
		n, err := strconv.Atoi(x.query.Get("limit"))
		if err != nil || n < 1 || n > maxPage {
			return listing{}, problem.Invalid(problem.Field{Parameter: "limit", Reason: "must be a whole number from 1 to 200"})
		}
		l.limit = n
	}
	for name, into := range map[string]*time.Time{"since": &l.since, "until": &l.until} {
		if !x.query.Has(name) {
			continue
		}
		t, ok := parseTime(x.query.Get(name))
		if !ok {
			return listing{}, problem.Invalid(problem.Field{Parameter: name, Reason: "must be a time such as 2026-11-29T16:59:22Z (RFC 3339)"})
		}
		*into = t
	}
	l.cursor = x.query.Get("cursor")
	return l, nil
}

func badCursor() error {
	return problem.Invalid(problem.Field{Parameter: "cursor", Reason: "is not the next_cursor of this list"})
}

// auditRequest is GET /v1/audit.
type auditRequest struct{ filter audit.Filter }

func (r *auditRequest) decode(x *exchange) error {
	l, err := x.listing()
	if err != nil {
		return err
	}
	r.filter = audit.Filter{
		Action: x.query.Get("action"), Actor: x.query.Get("actor"), ObjectID: x.query.Get("object"),
		Since: l.since, Until: l.until, Limit: l.limit,
	}
	if l.cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(l.cursor)
		if err != nil {
			return badCursor()
		}
		if r.filter.Before, err = strconv.ParseInt(string(text), 10, 64); err != nil || r.filter.Before < 1 {
			return badCursor()
		}
	}
	for _, text := range []string{r.filter.Action, r.filter.Actor, r.filter.ObjectID} {
		if strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text {
			return problem.Invalid(problem.Field{Reason: "a query parameter is not UTF-8 text"})
		}
	}
	return nil
}

type auditBody struct {
	ID        string      `json:"id"`
	At        instant     `json:"at"`
	Actor     auditActor  `json:"actor"`
	Action    string      `json:"action"`
	Object    auditObject `json:"object"`
	Reason    *string     `json:"reason"`
	Before    rawJSON     `json:"before"`
	After     rawJSON     `json:"after"`
	RequestID *string     `json:"request_id"`
	Address   *string     `json:"address"`
}

type auditActor struct {
	Kind audit.ActorKind `json:"kind"`
	Name string          `json:"name"`
	Role *string         `json:"role"`
}

type auditObject struct {
	Kind string  `json:"kind"`
	ID   *string `json:"id"`
}

// rawJSON is JSON as the database holds it; nil is null.
type rawJSON []byte

// MarshalJSON writes the value.
func (r rawJSON) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (a *API) listAudit(ctx context.Context, caller auth.Caller, req auditRequest) (adminAnswer, error) {
	records, more, err := a.admin.Audit.List(ctx, uuid.UUID(caller.Tenant), req.filter)
	if err != nil {
		return adminAnswer{}, err
	}
	p := pageOf(records, func(r audit.Record) auditBody {
		return auditBody{
			ID: strconv.FormatInt(r.ID, 10), At: instant(r.At), Actor: auditActor{r.Actor.Kind, r.Actor.Name, textOrNull(r.Actor.Role)},
			Action: r.Action, Object: auditObject{r.Object.Kind, textOrNull(r.Object.ID)}, Reason: textOrNull(r.Reason),
			Before: r.Before, After: r.After, RequestID: textOrNull(r.Actor.RequestID), Address: textOrNull(r.Actor.Address),
		}
	})
	if more {
		p.NextCursor = textOrNull(base64.RawURLEncoding.EncodeToString([]byte(p.Items[len(p.Items)-1].ID)))
	}
	return ok(p), nil
}

// sortedFaults keeps the answer to a body with several faults the same every
// time.
func sortedFaults(fields []problem.Field) error {
	slices.SortFunc(fields, func(a, b problem.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return problem.Invalid(fields...)
}
