package api

import (
	"context"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

type retentionBody struct {
	DefaultSeconds int64            `json:"default_seconds"`
	Operations     map[string]int64 `json:"operations"`
	MinSeconds     int64            `json:"min_seconds"`
	MaxSeconds     int64            `json:"max_seconds"`
	GraceSeconds   int64            `json:"grace_seconds"`
	Change         *changeBody      `json:"change"` // the last change of existing records
}

type changeBody struct {
	ID             string              `json:"id"`
	State          tenants.ChangeState `json:"state"`
	Exact          bool                `json:"exact"`
	Reason         *string             `json:"reason"`
	AskedAt        instant             `json:"asked_at"`
	StartsAt       instant             `json:"starts_at"`
	FinishedAt     instant             `json:"finished_at"`
	RecordsSeen    int64               `json:"records_seen"`
	RecordsChanged int64               `json:"records_changed"`
}

func retentionAnswer(r tenants.Retention) adminAnswer {
	b := retentionBody{
		DefaultSeconds: wholeSeconds(r.Default), Operations: make(map[string]int64, len(r.Operations)),
		MinSeconds: wholeSeconds(r.Min), MaxSeconds: wholeSeconds(r.Max), GraceSeconds: wholeSeconds(r.Grace),
	}
	for operation, retention := range r.Operations {
		b.Operations[operation] = wholeSeconds(retention)
	}
	if c := r.Change; c != nil {
		b.Change = &changeBody{
			c.ID.String(), c.State, c.Exact, textOrNull(c.Reason), instant(c.AskedAt), instant(c.StartsAt), instant(c.FinishedAt), c.RecordsSeen, c.RecordsChanged,
		}
	}
	answer := ok(b)
	answer.version = r.Version
	return answer
}

func (a *API) getRetention(ctx context.Context, caller auth.Caller, _ nothing) (adminAnswer, error) {
	r, err := a.admin.Tenants.Retention(ctx, caller.Tenant)
	return retentionAnswer(r), err
}

// retentionSetting is what PUT /v1/retention and its preview have in common.
type retentionSetting struct {
	DefaultSeconds *wholeNumber            `json:"default_seconds"`
	Operations     *map[string]wholeNumber `json:"operations"`
}

func (s retentionSetting) params() tenants.RetentionParams {
	p := tenants.RetentionParams{Default: duration(s.DefaultSeconds)}
	if s.Operations != nil {
		p.Operations = make(map[string]time.Duration, len(*s.Operations))
		for operation, seconds := range *s.Operations {
			p.Operations[operation] = *duration(&seconds)
		}
	}
	return p
}

// putRetentionRequest is PUT /v1/retention.
type putRetentionRequest struct {
	params tenants.RetentionParams
	pre    tenants.Precondition
}

func (r *putRetentionRequest) decode(x *exchange) error {
	var b struct {
		retentionSetting
		ApplyToExisting bool    `json:"apply_to_existing"`
		PreviewID       *string `json:"preview_id"`
		Reason          *string `json:"reason"`
	}
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.params, r.pre = b.params(), ifMatch(x.request.Header)
	r.params.ApplyToExisting, r.params.Reason = b.ApplyToExisting, text0(b.Reason)
	if b.PreviewID != nil {
		id, known := parseUUID(*b.PreviewID)
		if !known {
			return problem.Invalid(problem.Field{Pointer: "/preview_id", Reason: "is no preview_id: it is what POST /v1/retention/preview answers"})
		}
		r.params.PreviewID = new(id)
	}
	return nil
}

func (a *API) putRetention(ctx context.Context, caller auth.Caller, req putRetentionRequest) (adminAnswer, error) {
	r, err := a.admin.Tenants.By(caller).SetRetention(ctx, caller.Tenant, req.params, req.pre)
	return retentionAnswer(r), err
}

// previewRequest is POST /v1/retention/preview.
type previewRequest struct{ params tenants.RetentionParams }

func (r *previewRequest) decode(x *exchange) error {
	var b retentionSetting
	if err := decodeJSON(x.body, &b); err != nil {
		return err
	}
	r.params = b.params()
	return nil
}

type previewBody struct {
	PreviewID   string  `json:"preview_id"`
	ExpiresAt   instant `json:"expires_at"`
	Shortened   int64   `json:"shortened_records"`
	Gone        int64   `json:"pruned_records"`
	GoneBytes   int64   `json:"pruned_bytes"`
	LostReplays int64   `json:"lost_replays"`
	Replays     int64   `json:"replays"`
}

func (a *API) previewRetention(ctx context.Context, caller auth.Caller, req previewRequest) (adminAnswer, error) {
	id, expiresAt, n, err := a.admin.Tenants.By(caller).PreviewRetention(ctx, caller.Tenant, req.params, a.admin.Retentions)
	return ok(previewBody{id.String(), instant(expiresAt), n.Shortened, n.Gone, n.GoneBytes, n.LostReplays, n.Replays}), err
}

// cancelRequest is DELETE /v1/retention/change.
type cancelRequest struct{ pre tenants.Precondition }

func (r *cancelRequest) decode(x *exchange) error {
	r.pre = ifMatch(x.request.Header)
	return nil
}

func (a *API) cancelRetention(ctx context.Context, caller auth.Caller, req cancelRequest) (taggedNoContent, error) {
	version, err := a.admin.Tenants.By(caller).CancelRetention(ctx, caller.Tenant, req.pre)
	return taggedNoContent{version}, err
}
