package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Completion is what became of a response that was sent to be stored.
type Completion struct {
	ID RecordID
	// Released says that the policy does not store this status (store_errors):
	// the record is open, and a retry runs the operation again.
	Released      bool
	StoredHeaders int
	// DroppedHeaders are the names of the lines that are never stored or that the
	// policy strips, in order.
	DroppedHeaders []string
	CompletedAt    time.Time // zero where Released
	ExpiresAt      time.Time
}

type completionWire struct {
	ID             RecordID  `json:"id"`
	State          string    `json:"state"`
	StoredHeaders  int       `json:"stored_headers"`
	DroppedHeaders []string  `json:"dropped_headers"`
	CompletedAt    time.Time `json:"completed_at"`
	ExpiresAt      time.Time `json:"expires_at"`
}

func (w completionWire) completion(call string, status int) (Completion, error) {
	if w.State != "completed" && w.State != "open" {
		return Completion{}, unexpected(call, status, "the state after a completion is not one that this version knows", nil)
	}
	return Completion{
		ID: w.ID, Released: w.State == "open", StoredHeaders: w.StoredHeaders, DroppedHeaders: w.DroppedHeaders,
		CompletedAt: w.CompletedAt, ExpiresAt: w.ExpiresAt,
	}, nil
}

// Complete stores the response and ends the lease: PUT
// /v1/keys/{id}/response. The same response again gets the same answer.
//
// ErrLeaseLost: another attempt may have done the work too; the service keeps
// what this one tried to store for an admin to see. ErrAlreadyCompleted:
// another response is stored. ErrBodyTooLarge, ErrRequestTooLarge: nothing is
// stored and the lease is still held; complete with BodyOmitted.
func (c *Client) Complete(ctx context.Context, held Held, response Response) (Completion, error) {
	r := completeRequest(held, response)
	a, _, err := c.do(ctx, r, c.config.RetryFor)
	if err != nil {
		return Completion{}, err
	}
	return decodeCompletion(r.call, a)
}

func decodeCompletion(call string, a answer) (Completion, error) {
	var w completionWire
	if err := a.decode(call, &w); err != nil {
		return Completion{}, err
	}
	return w.completion(call, a.status)
}

// completeRequest sends the response as one HTTP message: the exact bytes, and
// the least work for either side.
func completeRequest(held Held, response Response) request {
	r := held.request(callComplete, http.MethodPut, "/response", response.message(), mediaMessage)
	if response.BodyOmitted {
		r.header = append(r.header, [2]string{"Onceward-Body-Omitted", "true"})
	}
	if response.BodyRef != "" {
		r.header = append(r.header, [2]string{"Onceward-Body-Ref", response.BodyRef})
	}
	return r
}

func (h Held) request(call, method, path string, body []byte, contentType string) request {
	return request{call: call, method: method, path: recordPath(h.ID) + path, body: body, contentType: contentType, token: h.Token}
}

func recordPath(id RecordID) string { return "/v1/keys/" + url.PathEscape(string(id)) }

// Renew makes the lease end that long from now: whole seconds, to 1 h; zero:
// the policy's. PATCH /v1/keys/{id}/lease. A lease that ran out is alive again,
// as long as no other attempt took the record over (ErrLeaseLost).
func (c *Client) Renew(ctx context.Context, held Held, lease time.Duration) (Grant, error) {
	r, err := renewRequest(held, lease)
	if err != nil {
		return Grant{}, err
	}
	a, _, err := c.do(ctx, r, c.config.RetryFor)
	if err != nil {
		return Grant{}, err
	}
	return decodeGrant(a, lease)
}

func renewRequest(held Held, lease time.Duration) (request, error) {
	seconds, err := wholeSeconds("lease", lease)
	if err != nil {
		return request{}, err
	}
	body, err := encode(callRenew, struct {
		LeaseSeconds int64 `json:"lease_seconds,omitzero"`
	}{seconds})
	return held.request(callRenew, http.MethodPatch, "/lease", body, mediaJSON), err
}

func decodeGrant(a answer, lease time.Duration) (Grant, error) {
	var w grantWire
	if err := a.decode(callRenew, &w); err != nil {
		return Grant{}, err
	}
	if w.ExpiresAt.IsZero() {
		return Grant{}, unexpected(callRenew, a.status, "the lease has no end", nil)
	}
	return w.grant(lease, a), nil
}

// Release says that the work did not happen and may be tried again at once:
// DELETE /v1/keys/{id}/lease. Only for what certainly did not happen; else
// DeclareUnknown.
func (c *Client) Release(ctx context.Context, held Held) error {
	_, _, err := c.do(ctx, releaseRequest(held), c.config.RetryFor)
	return err
}

func releaseRequest(held Held) request {
	return held.request(callRelease, http.MethodDelete, "/lease", nil, "")
}

// DeclareUnknown says that nobody knows whether the work happened, such as
// after a time-out at a provider, and ends the lease: POST
// /v1/keys/{id}/unknown. Nothing runs until a resolver decides, or this
// attempt's own Complete or Release arrives after all.
func (c *Client) DeclareUnknown(ctx context.Context, held Held) error {
	_, _, err := c.do(ctx, unknownRequest(held), c.config.RetryFor)
	return err
}

func unknownRequest(held Held) request {
	return held.request(callUnknown, http.MethodPost, "/unknown", nil, "")
}

// SetRecoveryPoint remembers how far this attempt came, for the one that takes
// over: PUT /v1/keys/{id}/recovery-point. name is 1 to 64 printable ASCII
// characters, data is written as JSON, of up to 16 KiB; a jsontext.Value is
// sent, and comes back, as it is.
func (c *Client) SetRecoveryPoint(ctx context.Context, held Held, name string, data any) error {
	value, raw := data.(jsontext.Value)
	if !raw {
		var err error
		if value, err = encode(callRecoveryPoint, data); err != nil {
			return err
		}
	}
	body, err := recoveryPointBody(name, value)
	if err != nil {
		return err
	}
	_, _, err = c.do(ctx, held.request(callRecoveryPoint, http.MethodPut, "/recovery-point", body, mediaJSON), c.config.RetryFor)
	return err
}

// recoveryPointBody puts the data in as they are: package json would write
// them anew.
func recoveryPointBody(name string, data jsontext.Value) ([]byte, error) {
	body, err := jsontext.AppendQuote([]byte(`{"name":`), name)
	if err != nil || !data.IsValid() {
		return nil, &Error{Code: ErrInvalidRequest, Status: http.StatusBadRequest, call: callRecoveryPoint, Detail: "the name is not text, or the data are not JSON", cause: err}
	}
	body = append(body, `,"data":`...)
	return append(append(body, data...), '}'), nil
}
