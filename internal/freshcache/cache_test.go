package freshcache

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type number int

func (n number) String() string { return strconv.Itoa(int(n)) }

// bench is a cache over a function that can be swapped, with a clock that only
// the test moves.
type bench struct {
	*Cache[number, string]
	loadFunc func(ctx context.Context, key number) (string, bool, error)
	loads    atomic.Int64
	nowNanos atomic.Int64
}

const (
	testTrust       = 4 * time.Second
	testLoadTimeout = 3 * time.Second
)

func newBench(t *testing.T, loadFunc func(ctx context.Context, key number) (string, bool, error)) *bench {
	t.Helper()
	b := &bench{loadFunc: loadFunc}
	start := time.Now()
	cache, err := New(Config[number, string]{
		LoadFunc: func(ctx context.Context, key number) (string, bool, error) {
			b.loads.Add(1)
			return b.loadFunc(ctx, key)
		},
		Trust:       testTrust,
		LoadTimeout: testLoadTimeout,
		MaxPresent:  100,
		MaxAbsent:   10,
		NowFunc:     func() time.Time { return start.Add(time.Duration(b.nowNanos.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Cache = cache
	return b
}

func (b *bench) advance(d time.Duration) { b.nowNanos.Add(int64(d)) }

func (b *bench) mustGet(t *testing.T, key number) (string, bool) {
	t.Helper()
	value, found, err := b.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %v: %v", key, err)
	}
	return value, found
}

func even(_ context.Context, key number) (string, bool, error) {
	return fmt.Sprintf("value %d", key), key%2 == 0, nil
}

func TestACopyIsUsedUntilTrustEndsAndNotAMomentLonger(t *testing.T) {
	t.Parallel()
	for _, key := range []number{2, 3} { // one that is there, one that is not
		b := newBench(t, even)
		b.mustGet(t, key)
		b.advance(testTrust - 1)
		if b.mustGet(t, key); b.loads.Load() != 1 {
			t.Errorf("key %d: %d reads within trust, want 1", key, b.loads.Load())
		}
		b.advance(1)
		if b.mustGet(t, key); b.loads.Load() != 2 {
			t.Errorf("key %d: %d reads at the end of trust, want 2", key, b.loads.Load())
		}
	}
}

func TestAgeIsCountedFromBeforeTheRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, even)
	b.loadFunc = func(ctx context.Context, key number) (string, bool, error) {
		b.advance(testTrust - 1) // the read itself takes nearly all of it
		return even(ctx, key)
	}
	b.mustGet(t, 2)
	b.advance(1)
	if b.mustGet(t, 2); b.loads.Load() != 2 {
		t.Errorf("%d reads, want 2: the copy was as old as its read", b.loads.Load())
	}
}

func TestAnAnswerThatComesTooLateIsNotUsed(t *testing.T) {
	t.Parallel()
	b := newBench(t, even)
	b.loadFunc = func(ctx context.Context, key number) (string, bool, error) {
		b.advance(testTrust)
		return even(ctx, key)
	}
	if _, _, err := b.Get(t.Context(), 2); !errors.Is(err, ErrSlow) {
		t.Errorf("got %v, want ErrSlow", err)
	}
}

func TestAFailedReadIsNoAnswerAndIsNotRemembered(t *testing.T) {
	t.Parallel()
	b := newBench(t, even)
	b.mustGet(t, 2)
	b.advance(testTrust)
	broken := errors.New("database down")
	b.loadFunc = func(context.Context, number) (string, bool, error) { return "", false, broken }
	if value, _, err := b.Get(t.Context(), 2); !errors.Is(err, broken) || value != "" {
		t.Errorf("got %q, %v, want no value and the error: an old copy never stands in", value, err)
	}
	b.loadFunc = even
	if value, found := b.mustGet(t, 2); !found || value != "value 2" {
		t.Errorf("got %q, %v after the database came back", value, found)
	}
}

func TestAllWhoAskAtOnceShareOneRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, func(ctx context.Context, key number) (string, bool, error) {
			<-release
			return even(ctx, key)
		})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if value, found, err := b.Get(t.Context(), 4); err != nil || !found || value != "value 4" {
					t.Errorf("got %q, %v, %v", value, found, err)
				}
			})
		}
		synctest.Wait() // all fifty wait for the read
		close(release)
		wg.Wait()
		if got := b.loads.Load(); got != 1 {
			t.Errorf("%d reads for fifty callers, want 1", got)
		}
	})
}

func TestACallerThatLeavesTakesNobodyElsesAnswerAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, func(ctx context.Context, key number) (string, bool, error) {
			select {
			case <-release:
				return even(ctx, key)
			case <-ctx.Done():
				return "", false, ctx.Err()
			}
		})
		leaving, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, _, err := b.Get(leaving, 4)
			first <- err
		}()
		synctest.Wait() // its read is under way
		second := make(chan string, 1)
		go func() {
			value, _, _ := b.Get(t.Context(), 4)
			second <- value
		}()
		synctest.Wait()
		leave()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the one who left got %v", err)
		}
		close(release)
		if value := <-second; value != "value 4" {
			t.Errorf("the one who stayed got %q", value)
		}
		if got := b.loads.Load(); got != 1 {
			t.Errorf("%d reads, want 1", got)
		}
	})
}

func TestAReadThatNeverEndsIsEndedByItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(ctx context.Context, _ number) (string, bool, error) {
			<-ctx.Done()
			return "", false, ctx.Err()
		})
		began := time.Now()
		_, _, err := b.Get(t.Context(), 4)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != testLoadTimeout {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestWhatWasReadBeforeAForgetIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		row := "old"
		release := make(chan struct{})
		b := newBench(t, func(context.Context, number) (string, bool, error) {
			seen := row
			<-release
			return seen, true, nil
		})
		early := make(chan string, 1)
		go func() {
			value, _, _ := b.Get(t.Context(), 4)
			early <- value
		}()
		synctest.Wait() // it has seen the old row and is on its way back
		row = "new"
		b.Forget(4)
		late := make(chan string, 1)
		go func() {
			value, _, _ := b.Get(t.Context(), 4)
			late <- value
		}()
		synctest.Wait()
		close(release)
		if got := <-early; got != "old" {
			t.Errorf("who asked before the change got %q", got)
		}
		if got := <-late; got != "new" {
			t.Errorf("who asked after Forget got %q, want the new row", got)
		}
		synctest.Wait()
		if value, _ := b.mustGet(t, 4); value != "new" {
			t.Errorf("%q was kept", value)
		}
	})
}

func TestForgetDropsAnAbsentKeyToo(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(context.Context, number) (string, bool, error) { return "", false, nil })
	if _, found := b.mustGet(t, 7); found {
		t.Fatal("found what is not there")
	}
	b.loadFunc = func(context.Context, number) (string, bool, error) { return "made", true, nil }
	b.Forget(7)
	if value, found := b.mustGet(t, 7); !found || value != "made" {
		t.Errorf("got %q, %v after it was made", value, found)
	}
}

func TestAFloodOfAbsentKeysDrivesOutNoRealOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, even)
	b.mustGet(t, 2)
	for key := number(1); key < 2001; key += 2 {
		b.mustGet(t, key)
	}
	before := b.loads.Load()
	if b.mustGet(t, 2); b.loads.Load() != before {
		t.Error("a thousand absent keys drove out the one that is there")
	}
	b.absent.CleanUp()
	if got := b.absent.EstimatedSize(); got > 10 {
		t.Errorf("%d absent keys are kept, want at most 10", got)
	}
}

func TestSettingsThatCannotHoldAreRefused(t *testing.T) {
	t.Parallel()
	good := Config[number, string]{LoadFunc: even, Trust: 2, LoadTimeout: 1, MaxPresent: 1, MaxAbsent: 1}
	if _, err := New(good); err != nil {
		t.Errorf("the smallest settings are refused: %v", err)
	}
	for name, change := range map[string]func(c *Config[number, string]){
		"a read as long as trust": func(c *Config[number, string]) { c.LoadTimeout = c.Trust },
		"no time to read":         func(c *Config[number, string]) { c.LoadTimeout = 0 },
		"no values":               func(c *Config[number, string]) { c.MaxPresent = 0 },
		"no absent keys":          func(c *Config[number, string]) { c.MaxAbsent = 0 },
	} {
		cfg := good
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
