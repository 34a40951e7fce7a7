package client

import (
	"context"
	"sync"
)

// BatchFunc does one operation of a batch: number i. See Func for what its
// result decides.
type BatchFunc func(ctx context.Context, i int, lease *Lease) (Response, error)

// BatchResult is how one operation of a batch ended, as Do would have returned it.
type BatchResult struct {
	Result
	Err error
}

// Batch is Do for many operations, for consumers of a queue that delivers at
// least once: it begins all of them in as few calls as it can, runs those that
// are new one after the other in their order, and stores their responses while
// the next ones run, again in as few calls as it can. Operations that another
// attempt holds (another consumer's, or an earlier entry's with the same key)
// are waited for at the end, as Do does.
//
// There is one result for each operation, in order; one that fails never fails
// another. It returns when all responses are stored or have failed to be for as
// long as Config.StoreTimeout. Where ctx ends, what has not begun to run is
// given back. Acknowledge a message once its result has no error, or an error
// that a redelivery cannot mend.
func (c *Client) Batch(ctx context.Context, ops []Operation, do BatchFunc) []BatchResult {
	results := make([]BatchResult, len(ops))
	for from := 0; from < len(ops); {
		to := chunkEnd(ops, from)
		b := &batchRun{client: c, ops: ops[from:to], results: results[from:to], do: func(ctx context.Context, i int, lease *Lease) (Response, error) {
			return do(ctx, from+i, lease)
		}}
		b.run(ctx)
		from = to
	}
	return results
}

// chunkEnd is where a batch that begins at from must end to be sent in one call.
func chunkEnd(ops []Operation, from int) int {
	const roomPerEntry = 8 << 10 // for all of a begin but the body
	bytes := 0
	for i := from; i < len(ops) && i-from < maxBatchEntries; i++ {
		bytes += roomPerEntry
		if r := ops[i].Request; r != nil {
			bytes += len(r.Path) + len(r.Query) + 2*len(r.Body) // escapes, or base64
		}
		if bytes > maxBatchBytes && i > from {
			return i
		}
	}
	return min(len(ops), from+maxBatchEntries)
}

// batchRun is one call's worth of a batch.
type batchRun struct {
	client  *Client
	ops     []Operation
	results []BatchResult
	do      BatchFunc
}

func (b *batchRun) run(ctx context.Context) {
	// Not canceled halfway: what it acquires must be run or given back.
	begun, err := b.client.BeginBatch(context.WithoutCancel(ctx), b.ops)
	switch {
	case CodeOf(err) == ErrRequestTooLarge && len(b.ops) > 1:
		b.half(0, len(b.ops)/2).run(ctx)
		b.half(len(b.ops)/2, len(b.ops)).run(ctx)
		return
	case err != nil:
		for i := range b.results {
			b.results[i].Err = err
		}
		return
	}
	leases := make([]*heldEntry, len(b.ops))
	for i, r := range begun {
		b.results[i].Err = r.Err
		switch o := r.Outcome.(type) {
		case *Replay:
			b.results[i].Result = o.result()
		case *Acquired:
			leases[i] = b.hold(ctx, o, b.ops[i])
		}
	}
	b.runHeld(ctx, leases)
	for i := range b.ops {
		if CodeOf(b.results[i].Err) == ErrInProgress && b.ops[i].Wait >= 0 && ctx.Err() == nil {
			b.results[i].Result, b.results[i].Err = b.client.Do(ctx, b.ops[i], func(ctx context.Context, lease *Lease) (Response, error) {
				return b.do(ctx, i, lease)
			})
		}
	}
}

func (b *batchRun) half(from, to int) *batchRun {
	return &batchRun{client: b.client, ops: b.ops[from:to], results: b.results[from:to], do: func(ctx context.Context, i int, lease *Lease) (Response, error) {
		return b.do(ctx, from+i, lease)
	}}
}

// runHeld runs what was acquired, in order. A panic of one gives the rest back
// and goes on.
func (b *batchRun) runHeld(ctx context.Context, leases []*heldEntry) {
	storing := &batchCompleter{client: b.client}
	defer storing.done.Wait()
	next := 0
	defer func() {
		for _, entry := range leases[next:] {
			if entry != nil {
				storing.giveBack(ctx, entry)
			}
		}
	}()
	for next < len(leases) {
		i, entry := next, leases[next]
		next++
		if entry != nil {
			b.runEntry(ctx, i, entry, storing)
		}
	}
}

// heldEntry is an operation that waits for its turn; its lease is renewed
// meanwhile.
type heldEntry struct {
	lease     *Lease
	op        Operation
	takenOver bool
	work      context.Context //nolint:containedctx // ends when the lease is lost
	cancel    context.CancelCauseFunc
	keeper    *keeper
}

func (b *batchRun) hold(ctx context.Context, a *Acquired, op Operation) *heldEntry {
	e := &heldEntry{lease: b.client.newLease(op, a), op: op, takenOver: a.TakenOver}
	e.work, e.cancel = context.WithCancelCause(context.WithValue(ctx, leaseKey{}, e.lease))
	e.keeper = e.lease.keep(ctx, e.cancel)
	return e
}

// end stops renewing.
func (e *heldEntry) end() {
	e.keeper.end()
	e.cancel(nil)
}

// runEntry runs one operation and hands its response over to be stored.
func (b *batchRun) runEntry(ctx context.Context, i int, e *heldEntry, storing *batchCompleter) {
	result := &b.results[i]
	result.ID, result.Attempt = e.lease.ID, e.lease.Attempt
	switch {
	case e.takenOver && !e.op.Resumable:
		e.end()
		result.Err = b.client.refuseTakeover(ctx, e.lease)
		return
	case e.work.Err() != nil: // the consumer stops, or the lease was lost while it waited
		result.Err = context.Cause(e.work) //nolint:contextcheck // the entry's own, made of ctx
		storing.giveBack(ctx, e)
		return
	}
	returned := false
	defer func() {
		if !returned {
			e.end()
			_, _ = b.client.settle(ctx, e.lease.unknown())
		}
	}()
	response, err := b.do(e.work, i, e.lease) //nolint:contextcheck // the entry's own, made of ctx
	returned = true
	if err != nil {
		e.end()
		result.Result, result.Err = b.client.conclude(ctx, e.lease, response, err)
		return
	}
	result.Response = response
	storing.add(&toStore{context.WithoutCancel(ctx), e, response, result})
}

// batchCompleter stores responses in as few calls as it can: those that come
// while a call is under way go together into the next one. What a batch cannot
// settle is settled by itself.
type batchCompleter struct {
	client *Client
	done   sync.WaitGroup

	mu      sync.Mutex // guards what follows
	waiting []*toStore
	sending bool
}

type toStore struct {
	ctx      context.Context //nolint:containedctx // of the operation, for its values
	entry    *heldEntry      // still renewed
	response Response
	result   *BatchResult
}

func (s *batchCompleter) add(t *toStore) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, t)
	if !s.sending {
		s.sending = true
		s.done.Go(s.send)
	}
}

// giveBack frees the key of an operation that has not run. It does not wait:
// where the service is away, hundreds of them would each wait in turn.
func (s *batchCompleter) giveBack(ctx context.Context, e *heldEntry) {
	s.done.Go(func() {
		e.end()
		_, _ = s.client.settle(ctx, e.lease.release())
	})
}

func (s *batchCompleter) send() {
	for {
		s.mu.Lock()
		batch := s.waiting
		if len(batch) == 0 {
			s.sending = false
			s.mu.Unlock()
			return
		}
		n := storeChunk(batch)
		batch, s.waiting = batch[:n], batch[n:]
		s.mu.Unlock()
		s.store(batch)
	}
}

// storeChunk is how many of the responses fit into one call.
func storeChunk(list []*toStore) int {
	const roomPerEntry = 64 << 10 // for the headers
	bytes := 0
	for i, t := range list {
		if bytes += roomPerEntry + 2*len(t.response.Body); i > 0 && bytes > maxBatchBytes || i == maxBatchEntries {
			return i
		}
	}
	return len(list)
}

func (s *batchCompleter) store(batch []*toStore) {
	if len(batch) > 1 {
		entries := make([]CompleteEntry, len(batch))
		for i, t := range batch {
			entries[i] = CompleteEntry{t.entry.lease.held, t.response}
		}
		ctx, cancel := context.WithTimeout(batch[0].ctx, s.client.config.CallTimeout)
		stored, err := s.client.CompleteBatch(ctx, entries)
		cancel()
		var rest []*toStore
		for i, t := range batch {
			if err == nil && stored[i].Err == nil {
				t.entry.end()
				t.result.Stored, t.result.delivered = !stored[i].Completion.Released, true
				continue
			}
			rest = append(rest, t)
		}
		batch = rest
	}
	var each sync.WaitGroup
	for _, t := range batch {
		each.Go(func() {
			t.entry.end()
			t.result.Result, t.result.Err = s.client.conclude(t.ctx, t.entry.lease, t.response, nil)
		})
	}
	each.Wait()
}
