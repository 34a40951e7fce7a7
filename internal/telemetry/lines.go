package telemetry

import (
	"errors"
	"io"
	"sync"
	"time"
)

const (
	linesHeld   = 64 << 10               // bytes
	linesHeldBy = 100 * time.Millisecond // at the most
)

// Lines gathers what a busy logger writes, so that a request does not wait for
// a write of its own. A line that comes alone is sent at once; those that follow
// within a tenth of a second are sent together, at its end, or before where the
// buffer is full or NewLogger has a line at the level warn or above. A process
// that is killed loses that tenth of a second.
type Lines struct {
	mu     sync.Mutex // guards all below
	out    io.Writer
	held   []byte
	timing bool // a line was sent less than linesHeldBy ago
}

// NewLines gathers for out, which is written whole lines in their order.
func NewLines(out io.Writer) *Lines {
	return &Lines{out: out, held: make([]byte, 0, linesHeld)}
}

// Write takes one line. An error is that of what was sent.
func (l *Lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if len(l.held)+len(line) > linesHeld {
		err = l.send()
	}
	l.held = append(l.held, line...)
	if !l.timing {
		err = errors.Join(err, l.send())
		l.timing = true
		time.AfterFunc(linesHeldBy, l.tick)
	}
	return len(line), err
}

// tick ends a tenth of a second, and begins another where lines came in it.
func (l *Lines) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timing = len(l.held) > 0; l.timing {
		_ = l.send() // a log that cannot be written is nobody's failure
		time.AfterFunc(linesHeldBy, l.tick)
	}
}

// Flush sends what there is.
func (l *Lines) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.send()
}

func (l *Lines) send() error {
	if len(l.held) == 0 {
		return nil
	}
	_, err := l.out.Write(l.held)
	l.held = l.held[:0]
	return err
}
