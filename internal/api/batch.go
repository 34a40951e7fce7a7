package api

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/keys"
	"github.com/onceward/onceward/internal/problem"
)

// batchEntries is the one array of a batch, with every entry as it was sent:
// what is wrong inside an entry is that entry's own fault and nobody else's.
// nil means that the array was absent.
type batchEntries []jsontext.Value

// UnmarshalJSONFrom reads the array without looking into its entries.
func (e *batchEntries) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if *e != nil {
		return reason("this member is given more than once")
	}
	if dec.PeekKind() != '[' {
		return reason("must be an array")
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	entries := make(batchEntries, 0, 16)
	for dec.PeekKind() != ']' {
		entry, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if len(entries) == keys.MaxBatchEntries { // before all of a long list is kept
			return errBatchSize
		}
		entries = append(entries, entry.Clone())
	}
	*e = entries
	_, err := dec.ReadToken()
	return err
}

const errBatchSize = reason("must have 1 to 500 entries")

// batchOptions let the document pass as long as it is JSON, so that a repeated
// member or bad UTF-8 in an entry is found when that entry is decoded.
//
//nolint:gochecknoglobals // compiled once; a constant that Go cannot declare
var batchOptions = json.JoinOptions(decodeOptions, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// decodeBatch reads the document into envelope, whose one member entries is,
// under the name given.
func decodeBatch(data []byte, envelope any, entries *batchEntries, name string) error {
	if err := decodeWith(batchOptions, data, envelope); err != nil {
		return err
	}
	if len(*entries) == 0 {
		return problem.Invalid(problem.Field{Pointer: "/" + name, Reason: string(errBatchSize)})
	}
	return nil
}

// atEntry makes the pointers of a problem with one entry absolute: they begin
// at the document that was sent.
func atEntry(err error, name string, i int) *problem.Error {
	e := asProblem(err)
	if len(e.Fields) == 0 {
		return e
	}
	moved := *e
	moved.Fields = make([]problem.Field, len(e.Fields))
	for j, f := range e.Fields {
		if f.Parameter == "" {
			f.Pointer = fmt.Sprintf("/%s/%d%s", name, i, f.Pointer)
		}
		moved.Fields[j] = f
	}
	moved.Detail = problem.Invalid(moved.Fields...).Detail
	return &moved
}

const operationsMember, responsesMember = "operations", "responses"

// beginBatchRequest is POST /v1/keys/batch.
type beginBatchRequest struct{ entries []keys.BatchEntry }

func (r *beginBatchRequest) decode(x *exchange) error {
	var b struct {
		Operations batchEntries `json:"operations"`
	}
	if err := decodeBatch(x.body, &b, &b.Operations, operationsMember); err != nil {
		return err
	}
	if err := x.limit(len(b.Operations) - 1); err != nil { // the call itself has counted as one
		return err
	}
	r.entries = make([]keys.BatchEntry, len(b.Operations))
	for i, raw := range b.Operations {
		r.entries[i].Request, r.entries[i].Err = decodeBegin(raw)
		if r.entries[i].Err == nil { // an entry over its caller's rate is refused alone
			_, r.entries[i].Err = x.limitCaller(r.entries[i].Request.Caller)
		}
	}
	return nil
}

func (a *API) beginBatch(ctx context.Context, caller auth.Caller, req beginBatchRequest) (batchAnswer, error) {
	return func(results *resultWriter) error {
		return a.keys.BeginBatch(ctx, caller, req.entries, func(i int, outcome keys.Outcome, err error) error {
			if err != nil {
				return results.problem(atEntry(err, operationsMember, i))
			}
			switch o := outcome.(type) {
			case keys.Acquired:
				return results.result(http.StatusCreated, func(out *object) { acquiredMembers(out, o) })
			case keys.Replay:
				return results.result(http.StatusOK, func(out *object) { replayMembers(out, o) })
			default:
				return results.problem(asProblem(refusal(o)))
			}
		})
	}, nil
}

// completeBatchRequest is POST /v1/responses/batch.
type completeBatchRequest struct{ entries []keys.CompleteEntry }

func (r *completeBatchRequest) decode(x *exchange) error {
	var b struct {
		Responses batchEntries `json:"responses"`
	}
	if err := decodeBatch(x.body, &b, &b.Responses, responsesMember); err != nil {
		return err
	}
	r.entries = make([]keys.CompleteEntry, len(b.Responses))
	for i, raw := range b.Responses {
		r.entries[i].Request, r.entries[i].Err = decodeCompletion(raw)
	}
	return nil
}

// decodeCompletion reads one entry, which says in members what the single call
// says in its path and a header.
func decodeCompletion(raw []byte) (keys.CompleteRequest, error) {
	var b struct {
		ID         *string `json:"id"`
		LeaseToken *string `json:"lease_token"`
		responseBody
	}
	if err := decodeJSON(raw, &b); err != nil {
		return keys.CompleteRequest{}, err
	}
	req := keys.CompleteRequest{ID: text0(b.ID), Token: text0(b.LeaseToken)}
	req.Response, req.Faults = b.response()
	if b.ID == nil {
		req.Faults = append(req.Faults, required("/id"))
	}
	if req.Token == "" {
		req.Faults = append(req.Faults, required("/lease_token"))
	}
	return req, nil
}

func (a *API) completeBatch(ctx context.Context, caller auth.Caller, req completeBatchRequest) (batchAnswer, error) {
	return func(results *resultWriter) error {
		for i, r := range a.keys.CompleteBatch(ctx, caller, req.entries) {
			var err error
			if r.Err != nil {
				err = results.problem(atEntry(r.Err, responsesMember, i))
			} else {
				err = results.result(http.StatusOK, func(o *object) { completionMembers(o, r.Completion) })
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// batchAnswer decides the entries of a batch and writes each result as soon as
// it is known: together they may be far larger than what was sent.
type batchAnswer func(*resultWriter) error

const (
	batchBufferBytes = 64 << 10
	// batchWriteTimeout is how long the caller may take to read batchBufferBytes
	// of the answer. The whole may take as long as it is large.
	batchWriteTimeout = 30 * time.Second
)

func (b batchAnswer) send(x *exchange) error {
	out := &steadyWriter{x: x, deadlines: http.NewResponseController(x.ResponseWriter)}
	results := &resultWriter{x: x, out: bufio.NewWriterSize(out, batchBufferBytes)}
	err := b(results)
	if err == nil {
		x.outcome = "batch"
		err = results.end()
	}
	if err != nil && results.begun {
		// 200 is on its way. A body that is cut off says what has happened; one
		// that ends well with too few results would not.
		x.noteFailure(err)
		panic(http.ErrAbortHandler)
	}
	return err
}

// resultWriter writes {"results": [...]} as the results come.
type resultWriter struct {
	x     *exchange
	out   *bufio.Writer
	begun bool   // something has been handed to out
	buf   []byte // of the last entry, for the next
}

// result writes one entry that was answered: its status beside the members of
// the single call.
func (w *resultWriter) result(status int, members func(*object)) error {
	o := openObject(w.buf[:0])
	o.number("status", int64(status))
	members(&o)
	return w.write(o.close())
}

// problem writes one entry that was refused.
func (w *resultWriter) problem(e *problem.Error) error {
	document, err := e.Document(w.x.api.baseURL, w.x.requestID)
	if err != nil {
		return err
	}
	o := openObject(w.buf[:0])
	o.number("status", int64(e.HTTPStatus()))
	o.member("problem")
	o.buf = append(o.buf, document...)
	return w.write(o.close())
}

func (w *resultWriter) write(entry []byte) error {
	w.buf = entry
	if cap(w.buf) > batchBufferBytes {
		w.buf = nil // one large body must not be paid for until the end
	}
	separator := ","
	if !w.begun {
		w.begun = true
		w.x.Header().Set("Content-Type", mediaJSON)
		separator = `{"results":[`
	}
	if _, err := w.out.WriteString(separator); err != nil {
		return err
	}
	_, err := w.out.Write(entry)
	return err
}

func (w *resultWriter) end() error {
	if _, err := w.out.WriteString("]}"); err != nil {
		return err
	}
	return w.out.Flush()
}

// steadyWriter gives every piece of the answer its own time, in place of the
// one time-out that the server has for a whole answer.
type steadyWriter struct {
	x         *exchange
	deadlines *http.ResponseController
}

func (w *steadyWriter) Write(b []byte) (written int, err error) {
	for len(b) > 0 && err == nil {
		// A writer that has no deadlines has no slow reader to guard against.
		_ = w.deadlines.SetWriteDeadline(w.x.api.nowFunc().Add(batchWriteTimeout))
		var n int
		n, err = w.x.Write(b[:min(len(b), batchBufferBytes)])
		written += n
		b = b[n:]
	}
	return written, err
}
