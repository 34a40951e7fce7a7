package api

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

const (
	includeResponse = "response"
	includeLate     = "late"
)

// included is the value of the query parameter include, taken apart.
func included(query url.Values) []string {
	if !query.Has("include") {
		return nil
	}
	return strings.Split(query.Get("include"), ",")
}

// allowInclude refuses the parts of a record that a role may not see.
func allowInclude(role auth.Role, query url.Values) error {
	for _, part := range included(query) {
		var needed []auth.Role
		switch part {
		case includeResponse:
			needed = []auth.Role{auth.RoleService, auth.RoleAdmin}
		case includeLate:
			needed = []auth.Role{auth.RoleAdmin}
		default:
			continue // a bad value: refused with the values
		}
		if !slices.Contains(needed, role) {
			return forbidden("include="+part, needed, role)
		}
	}
	return nil
}

// inspectRequest is GET /v1/keys/{id}.
type inspectRequest struct {
	id      string
	include keys.Include
}

func (r *inspectRequest) decode(x *exchange) error {
	r.id = x.pathValue("id")
	for _, part := range included(x.query) {
		switch part {
		case includeResponse:
			r.include.Response = true
		case includeLate:
			r.include.Late = true
		default:
			return problem.Invalid(problem.Field{Parameter: "include", Reason: "must be response, late or both with a comma between"})
		}
	}
	return nil
}

func (a *API) inspect(ctx context.Context, caller auth.Caller, req inspectRequest) (recordAnswer, error) {
	record, err := a.keys.Inspect(ctx, caller, req.id, req.include)
	if err == nil && record.Response != nil {
		err = a.noteResponseRead(ctx, caller, record.ID)
	}
	return recordAnswer{record, req.include, caller.Role}, err
}

type recordAnswer struct {
	record  keys.Record
	include keys.Include
	role    auth.Role
}

func (a recordAnswer) send(x *exchange) error {
	return x.writeObject(http.StatusOK, a.members)
}

func (a recordAnswer) members(o *object) {
	r := a.record
	a.summary(o)
	list(o, "history", r.History, attemptMembers)
	if a.include.Response {
		if r.Response == nil {
			o.null(includeResponse)
		} else {
			o.object(includeResponse, func(o *object) { responseMembers(o, *r.Response) })
		}
	}
	if a.include.Late {
		list(o, includeLate, r.Late, lateMembers)
	}
}

// summary is the record without what other rows say of it.
func (a recordAnswer) summary(o *object) {
	r := a.record
	o.text("id", r.ID.String())
	o.text("namespace", r.Namespace.String())
	o.text("caller", r.Caller)
	o.text("operation", r.Operation)
	o.text("key", r.Key)
	o.text("state", string(r.State))
	o.number("attempt", int64(r.Attempt))
	o.number("fence", r.Fence)
	o.time("lease_expires_at", r.LeaseExpiresAt)
	o.text("on_lease_expiry", string(r.OnLeaseExpiry))
	if a.role == auth.RoleService || a.role == auth.RoleAdmin {
		recoveryPoint(o, r.RecoveryPoint)
	}
	o.object("metadata", func(o *object) { metadataMembers(o, r.Metadata) })
	if r.Status == 0 {
		o.null("status")
	} else {
		o.number("status", int64(r.Status))
	}
	o.number("body_bytes", int64(r.BodyBytes))
	o.time("created_at", r.CreatedAt)
	o.time("completed_at", r.CompletedAt)
	o.time("expires_at", r.ExpiresAt)
}

// metadataMembers writes the pairs sorted by name. Their names are the
// caller's, but of a form that needs no escape (keys.MaxMetadataPairs).
func metadataMembers(o *object, metadata map[string]string) {
	names := make([]string, 0, len(metadata))
	for name := range metadata {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		o.text(name, metadata[name])
	}
}

func attemptMembers(o *object, a keys.Attempt) {
	o.number("attempt", int64(a.Attempt))
	o.time("begun_at", a.BegunAt)
	o.time("ended_at", a.EndedAt)
	orNull(o, "how", a.How)
	o.text("credential", string(a.Credential))
	orNull(o, "trace_id", a.TraceID)
}

func lateMembers(o *object, l keys.LateCompletion) {
	o.time("at", l.At)
	o.number("fence", l.Fence)
	o.number("status", int64(l.Status))
	o.member("header_names")
	o.buf = appendStrings(o.buf, l.HeaderNames)
	o.number("body_bytes", int64(l.BodyBytes))
	o.text("body_sha256", hex.EncodeToString(l.BodySHA256[:]))
	if utf8.Valid(l.BodyHead) {
		o.member("body_head")
		o.buf = appendString(o.buf, l.BodyHead)
	} else {
		base64Member(o, "body_head_base64", l.BodyHead)
	}
	o.text("credential", string(l.Credential))
	orNull(o, "trace_id", l.TraceID)
}

func orNull(o *object, name, value string) {
	if value == "" {
		o.null(name)
		return
	}
	o.text(name, value)
}

// list writes an array of objects.
func list[T any](o *object, name string, items []T, members func(*object, T)) {
	o.member(name)
	buf := append(o.buf, '[')
	for i, item := range items {
		if i > 0 {
			buf = append(buf, ',')
		}
		inner := openObject(buf)
		members(&inner, item)
		buf = inner.close()
	}
	o.buf = append(buf, ']')
}
