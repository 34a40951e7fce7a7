// Package freshcache owns short-lived copies in memory of what the database
// said: bounded in number and in age, each read once however many ask for it.
//
// It must not outlive a promise: a copy is used until Trust after its read was
// started and not a moment longer, whatever the database does meanwhile. A read
// that fails is an error for those who asked; an older copy never stands in.
package freshcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"
)

// ErrSlow means that a read was answered so late that what it says may not be
// trusted any more, as after the process was stopped for a while.
var ErrSlow = errors.New("the answer came too late to be trusted")

// Key is what a copy is found by. Two keys are equal if and only if their
// strings are.
type Key interface {
	comparable
	fmt.Stringer
}

// Config says what is kept and for how long. LoadFunc, Trust, LoadTimeout and
// the two limits have no defaults.
type Config[K Key, V any] struct {
	// LoadFunc reads the value of a key; found is false where the database
	// answered that there is none. Its context ends after LoadTimeout and not
	// with any caller's, whose values it carries. It must end with it.
	LoadFunc func(ctx context.Context, key K) (value V, found bool, err error)

	// Trust is how long a copy is used, counted from before its read.
	Trust time.Duration

	// LoadTimeout bounds one read; it is shorter than Trust.
	LoadTimeout time.Duration

	// MaxPresent and MaxAbsent bound the number of copies of values, and of
	// keys that have none. They are bounded apart: a flood of invented keys
	// drives out no real one.
	MaxPresent, MaxAbsent int

	// NowFunc is the process clock, with its monotonic reading; nil is time.Now.
	NowFunc func() time.Time
}

// Cache holds the copies. It is safe for use by many goroutines and owns none.
type Cache[K Key, V any] struct {
	cfg     Config[K, V]
	present *otter.Cache[K, entry[V]]
	absent  *otter.Cache[K, entry[V]]
	flights singleflight.Group

	mu         sync.Mutex
	generation uint64 // owned by mu; raised by Forget
}

type entry[V any] struct {
	value  V
	found  bool
	readAt time.Time // before the read was sent
}

// New makes an empty cache; the error says which setting is wrong.
func New[K Key, V any](cfg Config[K, V]) (*Cache[K, V], error) {
	if cfg.LoadTimeout <= 0 || cfg.LoadTimeout >= cfg.Trust {
		return nil, fmt.Errorf("a read may take %s and be trusted for %s: the first must be above zero and below the second", cfg.LoadTimeout, cfg.Trust)
	}
	if cfg.MaxPresent <= 0 || cfg.MaxAbsent <= 0 {
		return nil, fmt.Errorf("limits of %d values and %d absent keys: both must be above zero", cfg.MaxPresent, cfg.MaxAbsent)
	}
	if cfg.NowFunc == nil {
		cfg.NowFunc = time.Now
	}
	// Age is judged here, by the monotonic clock; the library only bounds the
	// number. Given an expiry it would run a goroutine of its own, for ever.
	present, err := otter.New(&otter.Options[K, entry[V]]{MaximumSize: cfg.MaxPresent})
	if err != nil {
		return nil, fmt.Errorf("make the cache of values: %w", err)
	}
	absent, err := otter.New(&otter.Options[K, entry[V]]{MaximumSize: cfg.MaxAbsent})
	if err != nil {
		return nil, fmt.Errorf("make the cache of absent keys: %w", err)
	}
	return &Cache[K, V]{cfg: cfg, present: present, absent: absent}, nil
}

// Get returns what the database said of key at most Trust ago; found is false
// where it said that there is nothing. All who ask while it is being read get
// the one answer. The end of ctx ends the waiting of this caller alone.
func (c *Cache[K, V]) Get(ctx context.Context, key K) (value V, found bool, err error) {
	if e, ok := c.kept(key); ok {
		return e.value, e.found, nil
	}
	flight := c.flights.DoChan(key.String(), func() (any, error) { return c.load(ctx, key) })
	select {
	case <-ctx.Done():
		return value, false, context.Cause(ctx)
	case result := <-flight:
		if result.Err != nil {
			return value, false, result.Err
		}
		e, ok := result.Val.(entry[V])
		if !ok {
			return value, false, fmt.Errorf("a read of another type was under way: %T", result.Val)
		}
		if !c.fresh(e) {
			return value, false, ErrSlow
		}
		return e.value, e.found, nil
	}
}

// Forget drops what is known of key: who asks from now on gets an answer that
// was read after now. It is for the process that has just changed the row;
// the others notice within Trust.
func (c *Cache[K, V]) Forget(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A read that is under way may have seen the row before the change: it
	// answers those who wait for it already, and is not kept.
	c.generation++
	c.flights.Forget(key.String())
	c.present.Invalidate(key)
	c.absent.Invalidate(key)
}

func (c *Cache[K, V]) kept(key K) (e entry[V], ok bool) {
	if e, ok = c.present.GetIfPresent(key); ok && c.fresh(e) {
		return e, true
	}
	if e, ok = c.absent.GetIfPresent(key); ok && c.fresh(e) {
		return e, true
	}
	return entry[V]{}, false
}

func (c *Cache[K, V]) fresh(e entry[V]) bool {
	return c.cfg.NowFunc().Sub(e.readAt) < c.cfg.Trust
}

func (c *Cache[K, V]) load(ctx context.Context, key K) (entry[V], error) {
	generation := c.currentGeneration()
	// A caller that looked just before another's read ended comes here just
	// after it.
	if e, ok := c.kept(key); ok {
		return e, nil
	}
	e := entry[V]{readAt: c.cfg.NowFunc()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.LoadTimeout)
	defer cancel()
	var err error
	if e.value, e.found, err = c.cfg.LoadFunc(ctx, key); err != nil {
		return entry[V]{}, err
	}
	c.keep(key, e, generation)
	return e, nil
}

func (c *Cache[K, V]) currentGeneration() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

// keep stores what a read said, unless something was forgotten since it began.
// Any key's Forget counts: a read is then not kept, and soon made again.
func (c *Cache[K, V]) keep(key K, e entry[V], generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.generation != generation {
		return
	}
	if e.found {
		c.present.Set(key, e)
		c.absent.Invalidate(key)
	} else {
		c.absent.Set(key, e)
		c.present.Invalidate(key)
	}
}
