package keys

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// CompleteEntry is one completion of a batch; Err is set where it could not
// even be read.
type CompleteEntry struct {
	Request CompleteRequest
	Err     error
}

// CompleteResult is what became of one completion of a batch.
type CompleteResult struct {
	Completion Completion
	Err        error
}

// completion is a valid completion on its way to the store.
type completion struct {
	held
	sent     Response
	digest   [digestSize]byte
	released bool
	stored   storedResponse
	headers  []Header // the stored ones
	dropped  []string
}

func (c *completion) weight() int { return len(c.stored.body) }

// Complete stores the response and ends the lease (wire contract, section 4).
// Repeating it with the same response answers the same. Kinds: invalid_request,
// body_too_large, not_found (also for another namespace's or tenant's record),
// lease_lost, already_completed, unavailable, internal.
func (s *Service) Complete(ctx context.Context, caller auth.Caller, req CompleteRequest) (Completion, error) {
	c, err := s.completion(ctx, caller, req)
	if err != nil {
		return Completion{}, err
	}
	for range maxRounds {
		after, err := ask(ctx, s, s.completes, c, caller.DatabaseNanos)
		if err != nil {
			return Completion{}, translate(err)
		}
		answer, settled, err := s.completedOr(ctx, c, after)
		if settled || err != nil {
			return answer, err
		}
	}
	return Completion{}, errStorm()
}

// CompleteBatch decides entries in order, each as if it had come right after
// those before it; one bad entry never fails another.
func (s *Service) CompleteBatch(ctx context.Context, caller auth.Caller, entries []CompleteEntry) []CompleteResult {
	results := make([]CompleteResult, len(entries))
	valid := make([]*completion, len(entries))
	for i, sent := range entries {
		if results[i].Err = sent.Err; sent.Err == nil {
			valid[i], results[i].Err = s.completion(ctx, caller, sent.Request)
		}
	}
	for _, places := range rounds(valid) {
		slices.SortFunc(places, func(a, b int) int { return valid[a].compare(valid[b].ref) })
		for range maxRounds {
			if places = s.completeRound(ctx, valid, results, places); len(places) == 0 {
				break
			}
		}
		for _, i := range places {
			results[i].Err = errStorm()
		}
	}
	return results
}

// completeRound completes the entries at places, which name each record once,
// in one statement, and returns the places that have to be decided again.
func (s *Service) completeRound(ctx context.Context, valid []*completion, results []CompleteResult, places []int) (again []int) {
	sorted := make([]*completion, len(places))
	for n, i := range places {
		sorted[n] = valid[i]
	}
	var after []*completed
	err := repeat(ctx, s.nowFunc, func() (err error) {
		after, err = complete(ctx, pooled(*s.store), sorted)
		return err
	})
	for n, i := range places {
		if err != nil {
			results[i].Err = translate(err)
			continue
		}
		var settled bool
		if results[i].Completion, settled, results[i].Err = s.completedOr(ctx, valid[i], after[n]); !settled && results[i].Err == nil {
			again = append(again, i)
		}
	}
	return again
}

// completedOr is the answer of a completion that changed its row, or else what
// the row says; settled is false where it has to be tried again.
func (s *Service) completedOr(ctx context.Context, c *completion, after *completed) (answer Completion, settled bool, err error) {
	if after == nil {
		return s.completeAgain(ctx, c)
	}
	s.touched(c.ref)
	s.admission.Stored(c.tenant, c.stored.bodyBytes)
	if after.operation != nil {
		s.observeEnd(c.by, EndObservation{How: EndReleased, ID: c.id, Namespace: c.namespace, Operation: *after.operation, Caller: *after.caller, Key: *after.key})
	}
	return c.answer(after), true, nil
}

// completion validates req (413, 400), finds what it refers to (404) and
// decides what is to be stored under the policy in force now.
func (s *Service) completion(ctx context.Context, caller auth.Caller, req CompleteRequest) (*completion, error) {
	snapshot, err := s.tenants.Snapshot(ctx, caller.Tenant, caller.Namespace)
	if err != nil {
		return nil, err
	}
	if err := validateResponse(req.Response, req.Faults, snapshot.BodyLimit); err != nil {
		return nil, err
	}
	c := &completion{sent: req.Response}
	if c.held, err = s.hold(ctx, caller, snapshot, req.ID, LeaseToken(req.Token)); err != nil {
		return nil, err
	}
	policy, err := s.policyOf(ctx, c.held)
	if err != nil {
		return nil, err
	}
	c.digest = digestOf(snapshot, c.id, req.Response)
	c.released = releases(policy.StoreErrors, req.Response.Status)
	c.prepare(policy)
	return c, nil
}

// prepare works out what the columns will hold.
func (c *completion) prepare(policy tenants.Policy) {
	if c.released {
		c.dropped = []string{}
		return
	}
	c.headers, c.dropped = filterHeaders(c.sent.Headers, policy)
	c.stored = storedResponse{
		status: c.sent.Status, headers: encodeHeaders(c.headers),
		body: c.sent.Body, bodyOmitted: c.sent.BodyOmitted, bodyRef: c.sent.BodyRef,
	}
	if policy.StoreBody == tenants.StoreBodyNone {
		c.stored.body, c.stored.bodyOmitted = nil, true
	}
	c.stored.bodyBytes = len(c.stored.body)
}

// releases says whether store_errors makes the status release the record
// instead of being stored.
func releases(policy tenants.StoreErrors, status int) bool {
	switch policy {
	case tenants.StoreErrorsClient:
		return status >= 500 || status == 408 || status == 409 || status == 425 || status == 429
	case tenants.StoreErrorsNone:
		return status >= 400
	case tenants.StoreErrorsAll:
	}
	return false
}

func (c *completion) answer(after *completed) Completion {
	if c.released {
		return Completion{ID: c.id, Released: true, DroppedHeaders: []string{}, ExpiresAt: after.expiresAt}
	}
	return Completion{ID: c.id, StoredHeaders: len(c.headers), DroppedHeaders: c.dropped, CompletedAt: after.completedAt, ExpiresAt: after.expiresAt}
}

// completeAgain decides a completion that changed no row: a repeat gets the
// first answer, a late one is kept and refused. settled is false where the row
// changed meanwhile.
func (s *Service) completeAgain(ctx context.Context, c *completion) (answer Completion, settled bool, err error) {
	r, err := s.look(ctx, c.ref)
	if err != nil {
		return Completion{}, true, err
	}
	same := hmac.Equal(r.responseDigest, c.digest[:])
	switch {
	case r.fence != c.fence:
		return Completion{}, true, s.late(ctx, c, r, errLeaseLost())
	case same && r.state == storedCompleted:
		return s.repeated(c, r)
	case same && r.state == storedOpen:
		return Completion{ID: c.id, Released: true, DroppedHeaders: []string{}, ExpiresAt: r.expiresAt}, true, nil
	case r.state == storedOpen:
		return Completion{}, true, s.late(ctx, c, r, errLeaseLost())
	case r.state == storedCompleted && r.resolved:
		return Completion{}, true, s.late(ctx, c, r, errAlreadyCompleted())
	case r.state == storedCompleted:
		return Completion{}, true, errAlreadyCompleted()
	default:
		return Completion{}, false, nil
	}
}

// repeated is the first answer again, from what was stored then: the policy
// may have changed since.
func (s *Service) repeated(c *completion, r *row) (Completion, bool, error) {
	stored, err := decodeHeaders(r.response.headers)
	if err != nil {
		return Completion{}, true, translate(err)
	}
	return Completion{
		ID: c.id, StoredHeaders: len(stored), DroppedHeaders: droppedBy(c.sent.Headers, stored),
		CompletedAt: r.completedAt, ExpiresAt: r.expiresAt,
	}, true, nil
}

// late keeps what a former holder tried to store, tells the observer, and
// returns the refusal. A failure to keep it is the answer instead: the caller
// repeats, and nothing that may mean work done twice goes unseen.
func (s *Service) late(ctx context.Context, c *completion, r *row, refusal error) error {
	err := repeat(ctx, s.nowFunc, func() error { return s.store.keepLate(ctx, c, r) })
	if err != nil {
		return translate(err)
	}
	s.observer.ObserveLateCompletion(c.by, LateObservation{
		ID: c.id, Operation: r.operation, Caller: r.caller, Key: r.key, Attempt: r.attempt, Status: c.sent.Status,
	})
	return refusal
}

// digestOf tells the repeat of a completion from another response: status,
// header pairs and body as sent, before anything is dropped, in whichever
// format. Absent and empty bodies are equal; outer blanks of a header's value
// are no part of it.
func digestOf(snapshot *tenants.Snapshot, id ID, r Response) [digestSize]byte {
	head := binary.BigEndian.AppendUint64(nil, uint64(r.Status)) //nolint:gosec // 200 to 599
	if r.BodyOmitted {
		head = append(head, 1)
	}
	trimmed := make([]Header, len(r.Headers))
	for i, h := range r.Headers {
		trimmed[i] = Header{Name: h.Name, Value: trimBlanks(h.Value)}
	}
	k := borrow(snapshot)
	defer k.giveBack()
	return k.start(responseDomain).bytes(id[:]).bytes(head).bytes(encodeHeaders(trimmed)).text(r.BodyRef).bytes(r.Body).stored()
}

func validateResponse(r Response, faults []problem.Field, bodyLimit int) error {
	if len(r.Body) > bodyLimit {
		p := problem.New(problem.BodyTooLarge, "The body has %d bytes; the tenant's limit is %d bytes. Nothing was stored and the lease is still held: complete with body_omitted, so that retries are told that the work is done.", len(r.Body), bodyLimit)
		return p
	}
	v := newValidation(faults...)
	if r.Status < MinStatus || r.Status > MaxStatus {
		v.fail("/status", "is required: a whole number from %d to %d", MinStatus, MaxStatus)
	}
	if r.BodyOmitted && len(r.Body) > 0 {
		v.fail("/body_omitted", "goes without a body")
	}
	if r.BodyRef != "" && !r.BodyOmitted {
		v.fail("/body_ref", "goes with body_omitted only")
	}
	if len(r.BodyRef) > MaxBodyRefBytes || !printableASCII(r.BodyRef) {
		v.fail("/body_ref", "must be 1 to %d printable ASCII characters", MaxBodyRefBytes)
	}
	return v.problem()
}

func errLeaseLost() error {
	return problem.New(problem.LeaseLost, "This token does not hold the record: another attempt acquired it, or it was released. Stop what runs under it; begin again to learn the outcome.")
}

func errAlreadyCompleted() error {
	return problem.New(problem.AlreadyCompleted, "A response is stored already and never changes. Begin again with the same request to read it.")
}

// String keeps a response out of logs: bodies and headers are the tenant's.
func (r Response) String() string {
	return fmt.Sprintf("response %d, %d headers, %d bytes", r.Status, len(r.Headers), len(r.Body))
}
