package client

import (
	"bufio"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// storedHeader tells the end user that the answer is real but that its record
// does not have it (yet): a retry may be told that the work is in progress.
const storedHeader = "Onceward-Stored"

// capture keeps the response of a handler to be stored, and sends it.
//
// Until the handler flushes, takes the connection over or writes more than is
// stored, nothing is sent, so that the answer can still say whether it is
// stored. From then on everything is passed on as it is written, but for the
// end: the last byte of a body of a declared length, or else the end of the
// message, which net/http sends when the handler chain returns. So a response
// is stored before its last byte is sent, either way.
//
// The header map is the one of the writer below, so that what outer handlers
// have set is seen and can be changed as ever. What the handler itself decided
// is what it left different at its WriteHeader.
type capture struct {
	below   http.ResponseWriter
	isHead  bool
	limit   int         // of bytes that are kept
	outer   http.Header // as it was before the handler
	decided http.Header // as it was at the handler's WriteHeader
	status  int         // the handler's; 0: not yet

	body     []byte // what is kept, up to limit
	written  int64  // by the handler
	declared int64  // the handler's Content-Length; -1: none
	omitted  bool   // the body is not kept
	passing  bool   // the header has been sent, and bytes are passed on
	passed   int64  // bytes passed on
	last     []byte // the last byte, held back
	broken   bool   // the writer below takes no more
	hijacked bool
}

func newCapture(w http.ResponseWriter, r *http.Request, limit int) *capture {
	return &capture{below: w, isHead: r.Method == http.MethodHead, limit: limit, outer: w.Header().Clone(), declared: -1}
}

// writer is the capture as a handler gets it: a Flusher only where the writer
// below can flush, so that a handler that asks is told the truth.
func (c *capture) writer() http.ResponseWriter {
	for w := c.below; ; {
		switch below := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return flushingCapture{c}
		case interface{ Unwrap() http.ResponseWriter }:
			w = below.Unwrap()
		default:
			return c
		}
	}
}

// flushingCapture is a capture over a writer that can flush.
type flushingCapture struct{ *capture }

// Flush passes on what was written, and everything from now on.
func (c flushingCapture) Flush() { _ = c.FlushError() }

// FlushError is Flush for http.ResponseController.
func (c flushingCapture) FlushError() error {
	if c.hijacked {
		return http.ErrHijacked
	}
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	c.pass()
	// What cannot be delivered any more is no matter of the handler's.
	_ = http.NewResponseController(c.below).Flush()
	return nil
}

// Header is the header map of the writer below.
func (c *capture) Header() http.Header { return c.below.Header() }

// Unwrap lets http.ResponseController reach the deadlines of the writer below.
func (c *capture) Unwrap() http.ResponseWriter { return c.below }

// WriteHeader takes the handler's decision. An informational status is passed
// on at once and is not the decision.
func (c *capture) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("onceward: WriteHeader with the status %d, which is none", status)) // as net/http does
	}
	switch {
	case c.hijacked || c.status != 0:
	case status >= 100 && status < 200 && status != http.StatusSwitchingProtocols:
		c.below.WriteHeader(status)
	default:
		c.status = status
		c.decided = c.below.Header().Clone()
		if length, err := strconv.ParseInt(c.decided.Get("Content-Length"), 10, 64); err == nil && length >= 0 {
			c.declared = length
		}
	}
}

// Write takes a part of the body. Its errors are those of a handler that
// breaks the rules. That a part cannot be delivered is none: the connection's
// fate must not look to the handler like a failure of its work.
func (c *capture) Write(p []byte) (int, error) {
	if c.hijacked {
		return 0, http.ErrHijacked
	}
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !bodyAllowed(c.status):
		return 0, http.ErrBodyNotAllowed
	case c.declared >= 0 && c.written+int64(len(p)) > c.declared:
		return 0, http.ErrContentLength
	}
	c.written += int64(len(p))
	switch {
	case c.omitted:
	case len(c.body)+len(p) <= c.limit:
		c.body = append(c.body, p...)
		if !c.passing {
			return len(p), nil
		}
	default:
		c.pass()
		c.body, c.omitted = nil, true
	}
	c.forward(p)
	return len(p), nil
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// pass sends the header and what has been kept, once.
func (c *capture) pass() {
	if c.passing {
		return
	}
	c.passing = true
	c.sendHeader()
	c.forward(c.body)
}

// sendHeader sends the header as it was decided, with what net/http would find
// out from the first bytes. What the handler has changed since is put back:
// trailers are read after the body.
func (c *capture) sendHeader() {
	h := c.below.Header()
	now := h.Clone()
	c.sniff()
	replaceHeader(h, c.decided)
	c.below.WriteHeader(c.status)
	for name := range c.decided {
		if _, kept := now[name]; !kept {
			delete(h, name)
		}
	}
	maps.Copy(h, now)
}

// sniff settles the content type as net/http does, so that the replay has the
// one that was sent.
func (c *capture) sniff() {
	if _, has := c.decided["Content-Type"]; has || len(c.body) == 0 || c.decided.Get("Content-Encoding") != "" || c.decided.Get("Transfer-Encoding") != "" {
		return
	}
	c.decided.Set("Content-Type", http.DetectContentType(c.body))
}

func replaceHeader(h, with http.Header) {
	clear(h)
	maps.Copy(h, with)
}

// forward passes bytes on, all but the last byte of a declared length.
func (c *capture) forward(p []byte) {
	if len(p) == 0 {
		return
	}
	c.passed += int64(len(p))
	if c.passed == c.declared && !c.isHead {
		c.last = slices.Clone(p[len(p)-1:])
		p = p[:len(p)-1]
	}
	if !c.broken && len(p) > 0 {
		_, err := c.below.Write(p) //nolint:gosec // the handler's own bytes
		c.broken = err != nil
	}
}

// Hijack gives the connection to the handler. What it sends on it is not seen;
// the record will say that the work is done.
func (c *capture) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if c.status != 0 && !c.hijacked {
		c.pass()
	}
	conn, rw, err := http.NewResponseController(c.below).Hijack()
	if err == nil {
		c.hijacked, c.omitted, c.body = true, true, nil
		if c.decided == nil {
			c.decided = c.outer // nothing was decided
		}
	}
	return conn, rw, err
}

// Push is http.Pusher, where the writer below is one.
func (c *capture) Push(target string, opts *http.PushOptions) error {
	if pusher, ok := c.below.(http.Pusher); ok {
		return pusher.Push(target, opts)
	}
	return http.ErrNotSupported
}

// response is what is stored. It is what the handler decided, whatever becomes
// of its delivery.
func (c *capture) response() Response {
	if c.status == 0 {
		if !c.hijacked {
			c.WriteHeader(http.StatusOK) // as net/http does for a handler that writes nothing
		} else {
			c.status = http.StatusOK
		}
	}
	if !c.passing {
		c.sniff()
	}
	response := Response{Status: storable(c.status), Body: c.body, BodyOmitted: c.omitted}
	for _, name := range slices.Sorted(maps.Keys(c.decided)) {
		outer, has := c.outer[name]
		if has && slices.Equal(outer, c.decided[name]) && !strings.HasPrefix(name, "Content-") {
			continue // an outer handler's, which will set its own on the replay
		}
		for _, value := range c.decided[name] {
			response.Headers = append(response.Headers, Header{name, value})
		}
	}
	return response
}

// finish sends what is left, once the record knows or is not going to soon.
// An error of the connection changes nothing: the retry gets the response.
func (c *capture) finish(known bool) {
	switch {
	case c.hijacked:
	case !c.passing:
		if !known {
			c.decided.Set(storedHeader, "false")
		}
		c.pass()
	case !known:
		// Too late for a header; a trailer, where the message can have one.
		c.below.Header().Set(http.TrailerPrefix+storedHeader, "false")
	}
	if len(c.last) > 0 && !c.broken {
		_, _ = c.below.Write(c.last) //nolint:gosec // the handler's own byte
	}
}
