package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/onceward/onceward/internal/problem"
	"github.com/onceward/onceward/internal/tenants"
)

// bodyRule is what a call reads: media type and size go together.
type bodyRule int

const (
	// noBody reads nothing, whatever is sent.
	noBody bodyRule = iota
	// jsonBody is one JSON document: a body at the tenant's limit, with every
	// byte written as \u00XX, still fits.
	jsonBody
	// optionalJSONBody is jsonBody; nothing at all counts as {}.
	optionalJSONBody
	// completionBody is jsonBody, or one HTTP message as application/http.
	completionBody
	// batchBody is one JSON document of up to maxBatchBytes.
	batchBody
)

const (
	jsonExpansion  = 6        // \u00XX for one byte
	callRoomBytes  = 64 << 10 // for everything of a call but the body it carries
	maxBatchBytes  = 16 << 20
	firstReadBytes = 64 << 10 // reserved before any byte has come, however much is announced
)

// readBody is the 413 of the order of checks. It reads the whole body, never
// more than the call may have.
func (x *exchange) readBody() error {
	if x.route.body == noBody {
		return nil
	}
	limit, err := x.bodyLimit()
	if err != nil {
		return err
	}
	if x.request.ContentLength > limit {
		return requestTooLarge(limit)
	}
	// The server's own writer, not the exchange: MaxBytesReader tells it to
	// close a connection that still has the rest of the body on it.
	body := http.MaxBytesReader(x.ResponseWriter, x.request.Body, limit)
	x.body, err = x.readWithRoom(body, limit)
	var refused *problem.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &tooLarge):
		return requestTooLarge(limit)
	case err != nil:
		x.Header().Set("Connection", "close")
		return problem.Invalid(problem.Field{Reason: "the body ended before it was whole"})
	}
	// The server's read time-out was for the body. From here on it would only
	// cut off a caller that waits for its answer. A writer that has no
	// deadlines has none to lift.
	_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Time{})
	return nil
}

// readWithRoom reads a body that is small at once, and takes room for one that
// is large. What is not announced is large when it turns out to be: it may then
// come to the limit.
func (x *exchange) readWithRoom(body io.Reader, limit int64) ([]byte, error) {
	announced := x.request.ContentLength
	if announced >= 0 {
		if announced > firstReadBytes {
			if err := x.takeBodyRoom(announced); err != nil {
				return nil, err
			}
		}
		return readAll(body, announced)
	}
	first, err := readAll(io.LimitReader(body, firstReadBytes+1), announced)
	if err != nil || len(first) <= firstReadBytes {
		return first, err
	}
	if err := x.takeBodyRoom(limit); err != nil {
		return nil, err
	}
	whole := bytes.NewBuffer(first)
	_, err = whole.ReadFrom(body)
	return whole.Bytes(), err
}

// takeBodyRoom waits for room for a large body. Over HTTP/2 it does not wait:
// what nobody reads takes up the window of its connection, and others, of other
// tenants too behind a proxy, would wait with it.
func (x *exchange) takeBodyRoom(size int64) (err error) {
	x.bodyRoom, err = x.api.bodies.take(x.request.Context(), x.caller.Tenant, size, x.request.ProtoMajor < 2)
	return err
}

// giveBackBodyRoom may be called more than once.
func (x *exchange) giveBackBodyRoom() {
	if x.bodyRoom != nil {
		x.bodyRoom()
		x.bodyRoom = nil
	}
}

func (x *exchange) bodyLimit() (int64, error) {
	if x.route.body == batchBody {
		return maxBatchBytes, nil
	}
	if x.route.listener == Operator { // who has no tenant, and carries no body
		return callRoomBytes, nil
	}
	snapshot, err := x.api.tenants.Snapshot(x.request.Context(), x.caller.Tenant, x.caller.Namespace)
	if err != nil {
		return 0, err
	}
	if x.isMessage {
		return messageCallBytes(snapshot), nil
	}
	return jsonCallBytes(snapshot), nil
}

// jsonCallBytes and messageCallBytes are how large one call may be (wire
// contract, section 1).
func jsonCallBytes(s *tenants.Snapshot) int64 {
	return jsonExpansion*int64(s.BodyLimit) + callRoomBytes
}

func messageCallBytes(s *tenants.Snapshot) int64 { return int64(s.BodyLimit) + callRoomBytes }

func readAll(r io.Reader, announced int64) ([]byte, error) {
	if 0 <= announced && announced <= firstReadBytes { // the server lets no more than that through
		body := make([]byte, announced)
		_, err := io.ReadFull(r, body)
		return body, err
	}
	buf := bytes.NewBuffer(make([]byte, 0, min(max(announced, 0), firstReadBytes)+bytes.MinRead))
	_, err := buf.ReadFrom(r)
	return buf.Bytes(), err
}

func requestTooLarge(limit int64) error {
	return problem.New(problem.RequestTooLarge, "This call may have at most %d bytes.", limit)
}
