package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	// flushTimeout bounds one attempt to write a window.
	flushTimeout = 10 * time.Second
	// lastFlushTimeout is how long the end of the process waits for the last
	// window to be written.
	lastFlushTimeout = 5 * time.Second
	lastFlushPause   = 100 * time.Millisecond
)

// Run flushes until ctx ends, and then once more: the caller ends it after the
// last Note. It returns an error where the last window could not be written,
// and says how much was in it.
func (r *Recorder) Run(ctx context.Context) error {
	r.attempt(ctx) // the first reading of the database's clock
	ticker := time.NewTicker(r.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return r.last(ctx)
		case <-ticker.C:
			r.attempt(ctx)
		}
	}
}

// attempt flushes and logs what failed: the next tick tries again.
func (r *Recorder) attempt(ctx context.Context) {
	if err := r.Flush(ctx); err != nil && ctx.Err() == nil {
		r.logger.WarnContext(ctx, "analytics could not be written; the next flush tries again", slog.Any("error", err))
	}
}

func (r *Recorder) last(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastFlushTimeout)
	defer cancel()
	for {
		err := r.Flush(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			left := r.abandon()
			return fmt.Errorf("write the last analytics: %d outcomes are lost: %w", left, err)
		case <-time.After(lastFlushPause):
		}
	}
}

// abandon counts what will never be written.
func (r *Recorder) abandon() (left int64) {
	r.flushMu.Lock()
	defer r.flushMu.Unlock()
	if r.pending != nil {
		left += r.pending.outcomes()
	}
	left += r.swap().outcomes()
	r.lost.Add(left)
	return left
}

// Flush writes what was noted so far. A window that could not be written is
// kept and comes first the next time, under the same number: where the outcome
// of its COMMIT was unknown, it counts once.
func (r *Recorder) Flush(ctx context.Context) error {
	r.flushMu.Lock()
	defer r.flushMu.Unlock()
	if r.pending != nil {
		if err := r.writePending(ctx); err != nil {
			return err
		}
	}
	if r.pending = r.swap(); r.pending.empty() {
		r.pending = nil
		return r.readClock(ctx)
	}
	r.seq++
	return r.writePending(ctx)
}

func (r *Recorder) swap() *window {
	fresh := newWindow()
	fresh.events, r.spare = r.spare, nil
	r.mu.Lock()
	defer r.mu.Unlock()
	full := r.window
	r.window = fresh
	return full
}

func (r *Recorder) writePending(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	asked := r.clock.nowFunc()
	fresh, err := r.store.write(ctx, flush{process: r.process, seq: r.seq, window: r.pending}, r.names)
	if err != nil {
		r.failures.Add(1)
		return err
	}
	r.names.merge(fresh.names)
	if !fresh.now.IsZero() {
		r.clock.set(fresh.now, asked)
	}
	r.flushes.Add(1)
	written := r.pending
	r.pending = nil
	r.logEvents(ctx, written.events)
	clear(written.events)
	r.spare = written.events[:0]
	return nil
}

// readClock keeps the reading of the database's clock fresh while there is
// nothing to write.
func (r *Recorder) readClock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	asked := r.clock.nowFunc()
	now, err := r.store.now(ctx)
	if err == nil {
		r.clock.set(now, asked)
	}
	if errors.Is(err, context.Canceled) {
		return nil // the process is ending; there was nothing to write
	}
	return err
}
