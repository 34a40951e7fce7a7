package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

// beginBody is a begin as JSON, alone or in a batch.
type beginBody struct {
	Key              *string           `json:"key"`
	Operation        *string           `json:"operation"`
	Caller           *string           `json:"caller"`
	Request          *payloadBody      `json:"request"`
	Fingerprint      *string           `json:"fingerprint"`
	Owner            *string           `json:"owner"`
	LeaseSeconds     *wholeNumber      `json:"lease_seconds"`
	RetentionSeconds *wholeNumber      `json:"retention_seconds"`
	OnLeaseExpiry    *string           `json:"on_lease_expiry"`
	Metadata         map[string]string `json:"metadata"`
}

type payloadBody struct {
	Method      *string `json:"method"`
	Path        *string `json:"path"`
	Query       *string `json:"query"`
	ContentType *string `json:"content_type"`
	Body        text    `json:"body"`
	BodyBase64  binary  `json:"body_base64"`
}

func decodeBegin(data []byte) (keys.BeginRequest, error) {
	var b beginBody
	if err := decodeJSON(data, &b); err != nil {
		return keys.BeginRequest{}, err
	}
	req := keys.BeginRequest{
		Key: b.Key, Operation: b.Operation, Caller: b.Caller, Fingerprint: b.Fingerprint, Owner: b.Owner,
		LeaseSeconds: (*int64)(b.LeaseSeconds), RetentionSeconds: (*int64)(b.RetentionSeconds),
		OnLeaseExpiry: b.OnLeaseExpiry, Metadata: b.Metadata,
	}
	if p := b.Request; p != nil {
		payload, faults := body(p.Body, p.BodyBase64, "/request")
		req.Faults = faults
		req.Request = &keys.RequestPayload{Method: p.Method, Path: p.Path, Query: p.Query, ContentType: p.ContentType, Body: payload}
	}
	return req, nil
}

// beginRequest is POST /v1/keys.
type beginRequest struct {
	begin keys.BeginRequest
	// How it is answered.
	waits       bool // Prefer: wait=N
	waitSeconds int
	asMessage   bool // Accept: application/http, for a replay
}

func (r *beginRequest) decode(x *exchange) (err error) {
	r.waitSeconds, r.waits = preferredWait(x.request.Header)
	r.asMessage = wantsMessage(x.request.Header)
	r.begin, err = decodeBegin(x.body)
	x.operation = r.begin.Operation
	if err != nil {
		return err
	}
	if r.waits { // for the completion of another, which may need the room
		x.giveBackBodyRoom()
	}
	d, err := x.limitCaller(r.begin.Caller)
	x.showRate(d)
	return err
}

func (a *API) begin(ctx context.Context, caller auth.Caller, req beginRequest) (beginAnswer, error) {
	if !req.waits {
		outcome, err := a.keys.Begin(ctx, caller, req.begin)
		return beginAnswer{outcome: outcome, asMessage: req.asMessage}, err
	}
	outcome, applied, err := a.keys.BeginOrWait(ctx, caller, req.begin, time.Duration(req.waitSeconds)*time.Second)
	answer := beginAnswer{outcome: outcome, asMessage: req.asMessage}
	if applied {
		answer.preferenceApplied = fmt.Sprintf("wait=%d", req.waitSeconds)
	}
	return answer, err
}

type beginAnswer struct {
	outcome           keys.Outcome
	asMessage         bool
	preferenceApplied string // RFC 7240, section 3; empty where no wait was honoured
}

func (b beginAnswer) send(x *exchange) error {
	if b.preferenceApplied != "" {
		x.Header().Set("Preference-Applied", b.preferenceApplied)
	}
	switch o := b.outcome.(type) {
	case keys.Acquired:
		x.outcome = "acquired"
		x.Header().Set("Location", "/v1/keys/"+o.ID.String())
		return x.writeObject(http.StatusCreated, func(out *object) { acquiredMembers(out, o) })
	case keys.Replay:
		x.outcome, x.replayAge = "replay", o.Age
		x.Header().Set("Idempotent-Replay", "true")
		if b.asMessage {
			return sendReplayMessage(x, o)
		}
		return x.writeObject(http.StatusOK, func(out *object) { replayMembers(out, o) })
	default:
		return refusal(o)
	}
}

// refusal is an outcome that says "do not run it", as the problem it is on the
// wire.
func refusal(outcome keys.Outcome) error {
	switch o := outcome.(type) {
	case keys.InProgress:
		e := problem.New(problem.InProgress, "Another attempt holds the lease. Do not run the operation; ask again after Retry-After, or begin with Prefer: wait=N.")
		e.RetryAfter = o.RetryAfter
		e.Members = []problem.Member{{Name: "lease_expires_at", Value: timeText(o.LeaseExpiresAt)}, {Name: "attempt", Value: o.Attempt}}
		return e
	case keys.Mismatch:
		e := problem.New(problem.FingerprintMismatch, "The key is bound to another request; differs says in what. Do not run the operation: use a new key for a new operation, and never change what is sent under an old one.")
		e.Status = o.Status
		e.Members = []problem.Member{{Name: "differs", Value: o.Differs}}
		return e
	case keys.Unknown:
		return problem.New(problem.OutcomeUnknown, "An earlier attempt may have done the work, and this record holds. Do not run the operation: the holder of the lease completes or releases it, or somebody with the role resolver or admin decides.")
	default:
		return problem.Internal(fmt.Errorf("begin answered %T", outcome))
	}
}
