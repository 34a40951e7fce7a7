package keys

import "time"

// Header is one header line, as the caller wrote it.
type Header struct {
	Name  string
	Value string
}

// Response is what a completion stores and a replay returns.
type Response struct {
	Status      int // 200 to 599
	Headers     []Header
	Body        []byte // nil and empty are the same
	BodyOmitted bool   // the body was not kept; Body is empty
	BodyRef     string // where the caller keeps it, or empty
}

// Completion is the answer to a complete.
type Completion struct {
	ID ID
	// Released is true where the policy's store_errors made the completion
	// release the record instead of storing the response.
	Released       bool
	StoredHeaders  int
	DroppedHeaders []string  // by the name of each dropped line, in order
	CompletedAt    time.Time // zero where released
	ExpiresAt      time.Time
}
