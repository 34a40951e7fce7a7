package api

import (
	"context"
	"net/http"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

// responseBody is a response to be stored, as JSON.
type responseBody struct {
	Status      *wholeNumber `json:"status"`
	Headers     []headerPair `json:"headers"`
	Body        text         `json:"body"`
	BodyBase64  binary       `json:"body_base64"`
	BodyOmitted bool         `json:"body_omitted"`
	BodyRef     *string      `json:"body_ref"`
}

// response returns the values as keys takes them, and what is wrong with them
// that keys could not see. No status is status 0, which keys refuses.
func (b *responseBody) response() (response keys.Response, faults []problem.Field) {
	response.Headers, response.BodyOmitted = headers(b.Headers), b.BodyOmitted
	response.Body, faults = body(b.Body, b.BodyBase64, "")
	if b.Status != nil {
		response.Status = int(*b.Status)
	}
	if b.BodyRef != nil {
		response.BodyRef = *b.BodyRef
		if response.BodyRef == "" { // keys takes the empty text for none
			faults = append(faults, problem.Field{Pointer: "/body_ref", Reason: "must not be empty; leave it out instead"})
		}
	}
	return response, faults
}

func required(pointer string) problem.Field {
	return problem.Field{Pointer: pointer, Reason: "is required"}
}

// completeRequest is PUT /v1/keys/{id}/response, as JSON or as one HTTP message.
type completeRequest struct{ keys.CompleteRequest }

func (r *completeRequest) decode(x *exchange) (err error) {
	r.ID = x.pathValue("id")
	if x.isMessage {
		r.Response, r.Faults, err = decodeMessage(x.body, x.request.Header)
	} else {
		var b responseBody
		if err = decodeJSON(x.body, &b); err == nil {
			r.Response, r.Faults = b.response()
		}
	}
	if err != nil {
		return err
	}
	token, faults := x.leaseHeader()
	r.Token, r.Faults = token, append(r.Faults, faults...)
	return nil
}

// decodeMessage reads a completion sent as application/http; what JSON says in
// body_omitted and body_ref stands in headers of the request.
func decodeMessage(raw []byte, h http.Header) (response keys.Response, faults []problem.Field, err error) {
	response, err = parseMessage(raw)
	if err != nil {
		return keys.Response{}, nil, problem.Invalid(problem.Field{Reason: "the body is not one HTTP/1.1 response: " + err.Error()})
	}
	const omitted, ref = "Onceward-Body-Omitted", "Onceward-Body-Ref"
	switch values := h.Values(omitted); {
	case len(values) == 0 || len(values) == 1 && values[0] == "false":
	case len(values) == 1 && values[0] == "true":
		response.BodyOmitted = true
	default:
		faults = append(faults, problem.Field{Parameter: omitted, Reason: "must be true or false, once"})
	}
	switch values := h.Values(ref); {
	case len(values) == 1 && values[0] != "":
		response.BodyRef = values[0]
	case len(values) > 0:
		faults = append(faults, problem.Field{Parameter: ref, Reason: "must not be empty and is given once at the most"})
	}
	return response, faults, nil
}

func (a *API) complete(ctx context.Context, caller auth.Caller, req completeRequest) (completionAnswer, error) {
	completion, err := a.keys.Complete(ctx, caller, req.CompleteRequest)
	return completionAnswer(completion), err
}

type completionAnswer keys.Completion

func (c completionAnswer) send(x *exchange) error {
	x.outcome = "completed"
	if c.Released {
		x.outcome = "released"
	}
	return x.writeObject(http.StatusOK, func(o *object) { completionMembers(o, keys.Completion(c)) })
}
