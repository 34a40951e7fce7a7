package api

import (
	"github.com/onceward/onceward/internal/analytics"
	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
)

// Recorder is told what was answered: *analytics.Recorder. It never blocks.
type Recorder interface {
	Note(e analytics.Event)
}

// Capture tells analytics what keys has answered, and passes it on: it is the
// place where the two meet.
type Capture struct {
	Recorder Recorder
	Next     keys.Observer
}

// ObserveBegin notes an answered begin.
func (c Capture) ObserveBegin(caller auth.Caller, o keys.BeginObservation) {
	e := eventFrom(caller, o.Operation, o.Caller, o.Key)
	switch outcome := o.Outcome.(type) {
	case keys.Acquired:
		e.Outcome, e.Record, e.Attempt = analytics.Acquired, outcome.ID, outcome.Attempt
		e.TakenOver = outcome.TakenOver
		if outcome.Resumed { // what it resumed was counted when it was acquired
			e.Outcome, e.TakenOver = analytics.Resumed, false
		}
	case keys.Replay:
		e.Outcome, e.Record, e.Attempt = analytics.Replay, outcome.ID, outcome.Attempt
		e.Age, e.Status = outcome.Age, outcome.Response.Status
	case keys.InProgress:
		e.Outcome, e.Record, e.Attempt, e.Age = analytics.InProgress, outcome.ID, outcome.Attempt, outcome.Age
	case keys.Mismatch:
		e.Outcome, e.Record, e.Age, e.Status = analytics.Mismatch, outcome.ID, outcome.Age, outcome.Stored
	case keys.Unknown:
		e.Outcome, e.Record, e.Attempt, e.Age = analytics.Unknown, outcome.ID, outcome.Attempt, outcome.Age
	}
	c.Recorder.Note(e)
	c.Next.ObserveBegin(caller, o)
}

// ObserveLateCompletion notes a late completion.
func (c Capture) ObserveLateCompletion(caller auth.Caller, o keys.LateObservation) {
	e := eventFrom(caller, o.Operation, o.Caller, o.Key)
	e.Outcome, e.Record, e.Attempt, e.Status = analytics.LateCompletion, o.ID, o.Attempt, o.Status
	c.Recorder.Note(e)
	c.Next.ObserveLateCompletion(caller, o)
}

// ObserveEnd notes an attempt that ended otherwise than by storing a response.
// A resolution is its decider's; what it decided about was in o.Namespace.
func (c Capture) ObserveEnd(caller auth.Caller, o keys.EndObservation) {
	e := eventFrom(caller, o.Operation, o.Caller, o.Key)
	e.Namespace, e.Record = o.Namespace, o.ID
	switch o.How {
	case keys.EndReleased:
		e.Outcome = analytics.Release
	case keys.EndDeclaredUnknown:
		e.Outcome = analytics.DeclaredUnknown
	case keys.EndResolved:
		e.Outcome = analytics.Resolution
	}
	c.Recorder.Note(e)
	if next, ok := c.Next.(keys.EndObserver); ok {
		next.ObserveEnd(caller, o)
	}
}

// ObserveCorrupt passes the alarm on.
func (c Capture) ObserveCorrupt(caller auth.Caller, id keys.ID) { c.Next.ObserveCorrupt(caller, id) }

func eventFrom(caller auth.Caller, operation, ofCaller, key string) analytics.Event {
	return analytics.Event{
		Tenant: caller.Tenant, Namespace: caller.Namespace, Credential: caller.Credential, TraceID: caller.TraceID,
		Operation: operation, Caller: ofCaller, Key: key,
	}
}
