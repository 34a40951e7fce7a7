package client

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What one batch holds at the most (wire contract, sections 1 and 5).
const (
	maxBatchEntries     = 500
	maxBatchBytes       = 16 << 20
	maxBatchAnswerBytes = 1 << 30 // what is read of the answer: replays may be far larger
)

// BeginResult is the answer to one begin of a batch: an outcome, or the error
// that Begin would have returned.
type BeginResult struct {
	Outcome Outcome
	Err     error
}

// BeginBatch begins 1 to 500 operations in one call, in order, each decided as
// if it had come right after those before it: POST /v1/keys/batch. There is one
// result for each; one bad entry never fails another, and none waits. Its error
// says that the call as a whole failed; what it may have acquired is then held
// until the leases end.
//
// Batch is BeginBatch with everything that has to follow.
func (c *Client) BeginBatch(ctx context.Context, ops []Operation) ([]BeginResult, error) {
	if c.isClosed() {
		return nil, &Error{Code: ErrClosed, call: callBeginBatch, Detail: "the client was closed"}
	}
	results := make([]BeginResult, len(ops))
	entries := make([]jsontext.Value, 0, len(ops))
	places := make([]int, 0, len(ops)) // of the entries that are sent
	for i, op := range ops {
		wire, err := op.wire(rand.Text())
		if err == nil {
			var entry []byte
			if entry, err = encode(callBeginBatch, wire); err == nil {
				entries, places = append(entries, entry), append(places, i)
			}
		}
		results[i].Err = err
	}
	if len(entries) == 0 {
		return results, nil
	}
	r, err := postRequest(callBeginBatch, "/v1/keys/batch", map[string]any{"operations": entries})
	if err != nil {
		return nil, err
	}
	answers, a, err := c.batch(ctx, r, len(entries))
	if err != nil {
		return nil, err
	}
	for n, entry := range answers {
		i := places[n]
		if results[i].Err = entry.failure(callBeginBatch); results[i].Err == nil {
			var w outcomeWire
			if results[i].Err = entry.decode(callBeginBatch, &w); results[i].Err == nil {
				results[i].Outcome, results[i].Err = w.result(callBeginBatch, entry.Status, ops[i].Lease, a)
			}
		}
		if replay, ok := results[i].Outcome.(*Replay); ok {
			c.noteReplay(ctx, ops[i], replay)
		}
		c.noteConflict(ctx, ops[i], results[i].Err)
	}
	return results, nil
}

// CompleteEntry is one completion of a batch.
type CompleteEntry struct {
	Held     Held
	Response Response
}

// CompleteResult is the answer to one completion of a batch.
type CompleteResult struct {
	Completion Completion
	Err        error
}

// CompleteBatch completes 1 to 500 records in one call: POST
// /v1/responses/batch. There is one result for each, in order; its error says
// that the call as a whole failed.
func (c *Client) CompleteBatch(ctx context.Context, entries []CompleteEntry) ([]CompleteResult, error) {
	type entryWire struct {
		ID         RecordID `json:"id"`
		LeaseToken string   `json:"lease_token"`
		responseWire
	}
	list := make([]entryWire, len(entries))
	for i, e := range entries {
		list[i] = entryWire{e.Held.ID, string(e.Held.Token), e.Response.wire()}
	}
	r, err := postRequest(callCompleteBatch, "/v1/responses/batch", map[string]any{"responses": list})
	if err != nil {
		return nil, err
	}
	answers, _, err := c.batch(ctx, r, len(entries))
	if err != nil {
		return nil, err
	}
	results := make([]CompleteResult, len(entries))
	for i, entry := range answers {
		if results[i].Err = entry.failure(callCompleteBatch); results[i].Err != nil {
			continue
		}
		var w completionWire
		if results[i].Err = entry.decode(callCompleteBatch, &w); results[i].Err == nil {
			results[i].Completion, results[i].Err = w.completion(callCompleteBatch, entry.Status)
		}
	}
	return results, nil
}

// ResolveResult is the answer to one resolution of a batch.
type ResolveResult struct {
	Record Record
	Err    error
}

// ResolveBatch decides 1 to 200 records in one call: POST
// /v1/resolutions/batch; roles resolver and admin.
func (c *Client) ResolveBatch(ctx context.Context, resolutions []Resolution) ([]ResolveResult, error) {
	list := make([]resolutionWire, len(resolutions))
	for i, resolution := range resolutions {
		list[i] = resolution.wire()
		list[i].ID = resolution.ID
	}
	r, err := postRequest(callResolveBatch, "/v1/resolutions/batch", map[string]any{"resolutions": list})
	if err != nil {
		return nil, err
	}
	answers, _, err := c.batch(ctx, r, len(resolutions))
	if err != nil {
		return nil, err
	}
	results := make([]ResolveResult, len(resolutions))
	for i, entry := range answers {
		if results[i].Err = entry.failure(callResolveBatch); results[i].Err != nil {
			continue
		}
		var w struct {
			Record recordWire `json:"record"`
		}
		if results[i].Err = entry.decode(callResolveBatch, &w); results[i].Err == nil {
			results[i].Record = w.Record.record()
		}
	}
	return results, nil
}

// batchEntry is one result of a batch: a status, and the members of the single
// call's answer or a problem.
type batchEntry struct {
	Status  int                       `json:"status"`
	Problem *problem                  `json:"problem"`
	Members map[string]jsontext.Value `json:",embed"`
}

// failure is the error that the single call would have returned; nil for a success.
func (e batchEntry) failure(call string) error {
	switch {
	case e.Problem != nil && e.Problem.Code != "":
		return e.Problem.failure(call, e.Status)
	case e.Problem != nil || e.Status/100 != 2:
		return unexpected(call, e.Status, "a result is neither a success nor a problem with a code", nil)
	default:
		return nil
	}
}

func (e batchEntry) decode(call string, into any) error {
	members, err := json.Marshal(e.Members)
	if err == nil {
		err = json.Unmarshal(members, into)
	}
	if err != nil {
		return unexpected(call, e.Status, "a result is not the JSON that this version understands", err)
	}
	return nil
}

// batch makes a call of a batch and reads its results; a number of them other
// than that of the entries is an error.
func (c *Client) batch(ctx context.Context, r request, entries int) ([]batchEntry, answer, error) {
	r.maxBytes = maxBatchAnswerBytes
	a, _, err := c.do(ctx, r, c.config.RetryFor)
	if err != nil {
		return nil, answer{}, err
	}
	var w struct {
		Results []batchEntry `json:"results"`
	}
	if err := a.decode(r.call, &w); err != nil {
		return nil, answer{}, err
	}
	if len(w.Results) != entries {
		return nil, answer{}, unexpected(r.call, a.status, fmt.Sprintf("%d results came for %d entries", len(w.Results), entries), nil)
	}
	return w.Results, a, nil
}
