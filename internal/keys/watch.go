package keys

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// BatchKind is what a batch is made of: each kind has a queue and a connection
// of its own.
type BatchKind int

// The kinds.
const (
	BatchBegins    BatchKind = iota // records that are made
	BatchReads                      // records that are looked at
	BatchCompletes                  // responses that are stored
	BatchLeases                     // leases that are renewed or given back, recovery points
	batchKinds
)

// String is the name of a kind in figures and spans.
func (k BatchKind) String() string {
	return [batchKinds]string{"begin", "read", "complete", "lease"}[k]
}

// BatchKinds names every kind, in order.
func BatchKinds() []string {
	names := make([]string, batchKinds)
	for k := range batchKinds {
		names[k] = k.String()
	}
	return names
}

// BatchObserver is told of each batch after it was answered, however it ended.
// Halves of a batch that was refused whole count for themselves. Like an
// Observer it must never block: all callers of the kind wait for it.
type BatchObserver interface {
	ObserveBatch(kind BatchKind, entries int, took time.Duration)
}

// Stats are figures of a Service since it was made.
type Stats struct {
	Queues                 [batchKinds]QueueStats // by BatchKind
	CacheHits, CacheMisses int64                  // of the replay cache; a begin of a new key is a miss
}

// QueueStats are figures of the queue of one kind.
type QueueStats struct {
	Waiting int   // entries, now
	Refused int64 // entries that found the queue, or their tenant's share of it, full
}

// QueueLimit is how many entries of a kind wait at most. No tenant may have
// more than a quarter of them.
const QueueLimit = maxQueued

// Stats reads the figures. It may be called at any time and waits for nobody
// who waits for the database.
func (s *Service) Stats() Stats {
	return Stats{
		Queues:    [batchKinds]QueueStats{s.inserts.queue.stats(), s.reads.queue.stats(), s.completes.queue.stats(), s.leases.queue.stats()},
		CacheHits: s.replays.hits.Load(), CacheMisses: s.replays.misses.Load(),
	}
}

func (q *queue[E, R]) stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return QueueStats{Waiting: q.size, Refused: q.refused}
}

// watch is who is told of the batches of one kind. Its zero value tells nobody
// and costs nothing.
type watch struct {
	kind     BatchKind
	observer BatchObserver // nil: nobody counts
	tracer   trace.Tracer  // nil: no spans
}

// span begins the span of a batch, if any of the requests that travel in it is
// traced: below the first of them, with a link to each.
func (b *batcher[E, R]) span(tasks []*task[E, R]) (context.Context, trace.Span) {
	ctx := context.Background()
	if b.watch.tracer == nil {
		return ctx, nil
	}
	var links []trace.Link
	for _, t := range tasks {
		if at := trace.SpanContextFromContext(t.ctx); at.IsSampled() {
			links = append(links, trace.Link{SpanContext: at})
		}
	}
	if len(links) == 0 {
		return ctx, nil
	}
	return b.watch.tracer.Start(trace.ContextWithSpanContext(ctx, links[0].SpanContext), "batch "+b.watch.kind.String(), //nolint:spancheck // endSpan ends it
		trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("onceward.batch.entries", len(tasks))))
}

// endSpan ends it. What failed is said by the pgx spans below, and never here:
// an error's text may have values of a caller in it.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// ask hands an entry to a batcher, and adds how long the answer took to what
// its request has spent on the database (nil: nobody asks).
func ask[E entrant, R any](ctx context.Context, s *Service, b *batcher[E, R], e E, spent *atomic.Int64) (R, error) {
	if spent == nil {
		return b.do(ctx, e)
	}
	began := s.nowFunc()
	answer, err := b.do(ctx, e)
	spent.Add(int64(s.nowFunc().Sub(began)))
	return answer, err
}
