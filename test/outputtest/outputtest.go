// Package outputtest owns what tests keep of the output of a process or a
// goroutine. It must know nothing of what is written.
package outputtest

import (
	"bytes"
	"sync"
)

// Buffer may be read while it is written. The zero value is ready to use.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write never fails.
func (b *Buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// Reset forgets what was written so far.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset()
}

// String is all that was written so far, or since Reset.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
