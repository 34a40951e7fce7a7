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

func (b *responseBody) response() (keys.Response, error) {
	if b.Status == nil {
		return keys.Response{}, required("/status")
	}
	kept, err := body(b.Body, b.BodyBase64, "")
	if err != nil {
		return keys.Response{}, err
	}
	response := keys.Response{Status: int(*b.Status), Headers: headers(b.Headers), Body: kept, BodyOmitted: b.BodyOmitted}
	if b.BodyRef != nil {
		if *b.BodyRef == "" { // keys takes the empty text for none
			return keys.Response{}, problem.Invalid(problem.Field{Pointer: "/body_ref", Reason: "must not be empty; leave it out instead"})
		}
		response.BodyRef = *b.BodyRef
	}
	return response, nil
}

func required(pointer string) error {
	return problem.Invalid(problem.Field{Pointer: pointer, Reason: "is required"})
}

// completeRequest is PUT /v1/keys/{id}/response, as JSON or as one HTTP message.
type completeRequest struct{ keys.CompleteRequest }

func (r *completeRequest) decode(x *exchange) (err error) {
	r.ID = x.pathValue("id")
	if x.isMessage {
		r.Response, err = decodeMessage(x.body, x.request.Header)
	} else {
		var b responseBody
		if err = decodeJSON(x.body, &b); err == nil {
			r.Response, err = b.response()
		}
	}
	if err != nil {
		return err
	}
	r.Token, err = x.leaseHeader()
	return err
}

// decodeMessage reads a completion sent as application/http; what JSON says in
// body_omitted and body_ref stands in headers of the request.
func decodeMessage(raw []byte, h http.Header) (keys.Response, error) {
	response, err := parseMessage(raw)
	if err != nil {
		return keys.Response{}, problem.Invalid(problem.Field{Reason: "the body is not one HTTP/1.1 response: " + err.Error()})
	}
	const omitted, ref = "Onceward-Body-Omitted", "Onceward-Body-Ref"
	switch values := h.Values(omitted); {
	case len(values) == 0 || len(values) == 1 && values[0] == "false":
	case len(values) == 1 && values[0] == "true":
		response.BodyOmitted = true
	default:
		return keys.Response{}, problem.Invalid(problem.Field{Parameter: omitted, Reason: "must be true or false, once"})
	}
	switch values := h.Values(ref); {
	case len(values) == 1 && values[0] != "":
		response.BodyRef = values[0]
	case len(values) > 0:
		return keys.Response{}, problem.Invalid(problem.Field{Parameter: ref, Reason: "must not be empty and is given once at the most"})
	}
	return response, nil
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
