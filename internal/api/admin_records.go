package api

import (
	"context"
	"net/http"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

// searchRequest is POST /v1/keys/search.
type searchRequest struct{ search keys.SearchRequest }

func (r *searchRequest) decode(x *exchange) error {
	var b struct {
		Key       *string            `json:"key"`
		Caller    *string            `json:"caller"`
		Operation *string            `json:"operation"`
		Namespace *string            `json:"namespace"`
		State     *string            `json:"state"`
		Metadata  *map[string]string `json:"metadata"`
		Since     *string            `json:"since"`
		Until     *string            `json:"until"`
		Limit     *wholeNumber       `json:"limit"`
		Cursor    *string            `json:"cursor"`
	}
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.search = keys.SearchRequest{
		Key: b.Key, Caller: b.Caller, Operation: b.Operation, State: (*keys.State)(b.State), Metadata: b.Metadata,
		Limit: (*int64)(b.Limit), Cursor: text0(b.Cursor),
	}
	var faults []problem.Field
	if b.Namespace != nil {
		id, known := parseUUID(*b.Namespace)
		if !known {
			faults = append(faults, noNamespace("/namespace"))
		}
		r.search.Namespace = new(auth.NamespaceID(id))
	}
	if b.Since != nil {
		at, known := parseTime(*b.Since)
		if !known {
			faults = append(faults, problem.Field{Pointer: "/since", Reason: timeForm})
		}
		r.search.Since = &at
	}
	if b.Until != nil {
		at, known := parseTime(*b.Until)
		if !known {
			faults = append(faults, problem.Field{Pointer: "/until", Reason: timeForm})
		}
		r.search.Until = &at
	}
	if len(faults) > 0 {
		return sortedFaults(faults)
	}
	return nil
}

const timeForm = "must be a time such as 2026-11-29T16:59:22Z (RFC 3339)"

func (a *API) search(ctx context.Context, caller auth.Caller, req searchRequest) (searchAnswer, error) {
	result, err := a.admin.Records.Search(ctx, caller, req.search)
	return searchAnswer{result, caller.Role}, err
}

type searchAnswer struct {
	result keys.SearchResult
	role   auth.Role
}

func (s searchAnswer) send(x *exchange) error {
	return x.writeObject(http.StatusOK, func(o *object) {
		list(o, "items", s.result.Records, func(o *object, r keys.Record) { recordAnswer{record: r, role: s.role}.summary(o) })
		orNull(o, "next_cursor", s.result.NextCursor)
		o.member("lag_seconds")
		o.buf = appendSeconds(o.buf, s.result.Lag)
	})
}

// decisionBody is what forget and the resolutions have in common.
type decisionBody struct {
	Fence  *wholeNumber `json:"fence"`
	Reason *string      `json:"reason"`
}

// forgetRequest is POST /v1/keys/{id}/forget.
type forgetRequest struct{ forget keys.ForgetRequest }

func (r *forgetRequest) decode(x *exchange) error {
	var b struct {
		decisionBody
		Force bool `json:"force"`
	}
	err := decodeJSON(x.body, &b)
	r.forget = keys.ForgetRequest{ID: x.pathValue("id"), Fence: (*int64)(b.Fence), Reason: text0(b.Reason), Force: b.Force}
	return err
}

func (a *API) forget(ctx context.Context, caller auth.Caller, req forgetRequest) (noContent, error) {
	return noContent{}, a.admin.Records.Forget(ctx, caller, req.forget)
}

// resolutionBody is a resolution as JSON, alone or in a batch.
type resolutionBody struct {
	decisionBody
	Action   *string       `json:"action"`
	Response *responseBody `json:"response"`
}

func (b resolutionBody) request(id string) keys.ResolveRequest {
	req := keys.ResolveRequest{ID: id, Fence: (*int64)(b.Fence), Reason: text0(b.Reason), Action: text0(b.Action)}
	if b.Response != nil {
		response, faults := b.Response.response()
		req.Response, req.Faults = &response, faults
	}
	return req
}

// resolveRequest is POST /v1/keys/{id}/resolution.
type resolveRequest struct{ resolve keys.ResolveRequest }

func (r *resolveRequest) decode(x *exchange) error {
	var b resolutionBody
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.resolve = b.request(x.pathValue("id"))
	return nil
}

func (a *API) resolve(ctx context.Context, caller auth.Caller, req resolveRequest) (recordAnswer, error) {
	record, err := a.admin.Records.Resolve(ctx, caller, req.resolve)
	return recordAnswer{record: record, role: caller.Role}, err
}

const resolutionsMember = "resolutions"

// resolveBatchRequest is POST /v1/resolutions/batch.
type resolveBatchRequest struct{ entries []resolutionEntry }

type resolutionEntry struct {
	request keys.ResolveRequest
	err     error // it could not even be read
}

func (r *resolveBatchRequest) decode(x *exchange) error {
	var b struct {
		Resolutions batchEntries `json:"resolutions"`
	}
	if err := decodeBatch(x.body, &b, &b.Resolutions, resolutionsMember); err != nil {
		return err
	}
	if len(b.Resolutions) > keys.MaxResolutions {
		return problem.Invalid(problem.Field{Pointer: "/" + resolutionsMember, Reason: "must have 1 to 200 entries"})
	}
	for _, raw := range b.Resolutions {
		var entry resolutionEntry
		var one struct {
			ID *string `json:"id"`
			resolutionBody
		}
		switch entry.err = decodeJSON(raw, &one); {
		case entry.err != nil:
		case one.ID == nil:
			entry.err = problem.Invalid(required("/id"))
		default:
			entry.request = one.request(*one.ID)
		}
		r.entries = append(r.entries, entry)
	}
	return nil
}

func (a *API) resolveBatch(ctx context.Context, caller auth.Caller, req resolveBatchRequest) (batchAnswer, error) {
	return func(results *resultWriter) error {
		for i, entry := range req.entries {
			record, err := keys.Record{}, entry.err
			if err == nil {
				record, err = a.admin.Records.Resolve(ctx, caller, entry.request)
			}
			if err != nil {
				err = results.problem(atEntry(err, resolutionsMember, i))
			} else {
				// In a member of its own: a record has a status too, its response's.
				err = results.result(http.StatusOK, func(o *object) { o.object("record", recordAnswer{record: record, role: caller.Role}.members) })
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, nil
}
