package postgres

import (
	"fmt"
	"sync/atomic"
	"time"
)

// roomMemory is how long a failure for want of room is told. Whoever asks
// /readyz by hand or every few seconds sees it; it is soon over when there is
// room again.
const roomMemory = 10 * time.Second

// Room remembers whether PostgreSQL lately had no room for a statement: no disk
// for its data, or no memory. No question that only reads shows that, and a
// write on purpose would find the space that the last row left. It is safe for
// use by many goroutines.
type Room struct {
	nowFunc func() time.Time
	last    atomic.Pointer[lack] // nil: never
}

type lack struct {
	kind ErrorKind
	at   time.Time
}

// NewRoom makes a Room; nowFunc is this process's clock.
func NewRoom(nowFunc func() time.Time) *Room { return &Room{nowFunc: nowFunc} }

// Note is told of what failed, as Config.OnError is.
func (r *Room) Note(kind ErrorKind) {
	if kind == ErrorDiskFull || kind == ErrorResources {
		r.last.Store(&lack{kind, r.nowFunc()})
	}
}

// Lack is what there was no room for within the last ten seconds, or nil.
func (r *Room) Lack() error {
	last := r.last.Load()
	if last == nil {
		return nil
	}
	ago := r.nowFunc().Sub(last.at)
	if ago > roomMemory {
		return nil
	}
	what := "had no memory left, or its disk failed"
	if last.kind == ErrorDiskFull {
		what = "had no disk left"
	}
	return fmt.Errorf("PostgreSQL %s for a statement %.1f s ago: new keys are answered 503 until it has room, what is stored is still replayed", what, ago.Seconds())
}
