package api

import (
	"context"
	"encoding/base64"
	"strconv"

	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/auth"
)

type eventBody struct {
	At             instant  `json:"at"`
	Kind           string   `json:"kind"`
	Namespace      string   `json:"namespace"`
	ID             string   `json:"id"` // of the record
	Operation      string   `json:"operation"`
	Caller         string   `json:"caller"`
	Key            string   `json:"key"`
	Credential     string   `json:"credential"`
	TraceID        *string  `json:"trace_id"`
	Attempt        *int     `json:"attempt"`
	AgeSeconds     *float64 `json:"age_seconds"`     // of a replay or a 409
	OriginalStatus *int     `json:"original_status"` // of a replay the stored one, of a late completion the one it tried to store
}

func eventOf(e analytics.ListedEvent) eventBody {
	body := eventBody{
		At: instant(e.At), Kind: e.Kind.String(), Namespace: e.Namespace.String(), ID: base64.RawURLEncoding.EncodeToString(e.Record[:]),
		Operation: e.Operation, Caller: e.Caller, Key: e.Key, Credential: string(e.Credential), TraceID: textOrNull(e.TraceID),
	}
	if e.Attempt != 0 {
		body.Attempt = &e.Attempt
	}
	if e.Status != 0 {
		body.OriginalStatus = &e.Status
	}
	if e.Age != nil {
		body.AgeSeconds = new(float64(e.Age.Microseconds()) / 1e6)
	}
	return body
}

func (a *API) events(ctx context.Context, caller auth.Caller, req eventsRequest) (tableAnswer, error) {
	answer, err := a.analytics.Events(ctx, caller, req.query)
	if err != nil {
		return tableAnswer{}, err
	}
	body := pageOf(answer.Items, eventOf)
	body.NextCursor = textOrNull(answer.NextCursor)
	return tableAnswer{csv: req.csv, name: "events", value: body, rows: func(w *csvWriter) {
		w.row("at", "kind", "namespace", "id", "operation", "caller", "key", "credential", "trace_id", "attempt", "age_seconds", "original_status")
		for i, e := range body.Items {
			age := ""
			if e.AgeSeconds != nil {
				age = secondsText(*e.AgeSeconds)
			}
			w.row(timeText(answer.Items[i].At), e.Kind, e.Namespace, e.ID, e.Operation, e.Caller, e.Key, e.Credential,
				answer.Items[i].TraceID, numberText(e.Attempt), age, numberText(e.OriginalStatus))
		}
	}}, nil
}

func numberText(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}
