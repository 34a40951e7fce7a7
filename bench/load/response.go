//go:build linux

package load

import (
	"bytes"
	"errors"
	"strconv"
)

var (
	errHead  = errors.New("the answer is no HTTP/1.1 answer")
	errChunk = errors.New("the answer's chunks cannot be read")
)

const statusEnd = len("HTTP/1.1 200")

// response reads one answer from what has come so far. used is 0 while it is
// not whole. scratch is room for a body that comes in chunks; it is returned
// for the next time.
func response(raw, scratch []byte) (answer Answer, used int, room []byte, err error) {
	end := bytes.Index(raw, []byte("\r\n\r\n"))
	if end < 0 {
		return Answer{}, 0, scratch, nil
	}
	head := raw[:end]
	if len(head) < statusEnd || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return Answer{}, 0, scratch, errHead
	}
	status, err := strconv.Atoi(string(head[statusEnd-3 : statusEnd]))
	if err != nil {
		return Answer{}, 0, scratch, errHead
	}
	answer = Answer{Status: status, Head: head}
	start := end + len("\r\n\r\n")
	if field(head, "Transfer-Encoding") != nil {
		body, length, err := dechunk(raw[start:], scratch[:0])
		if err != nil || length == 0 {
			return Answer{}, 0, body, err
		}
		answer.Body = body
		return answer, start + length, body, nil
	}
	length := 0
	if value := field(head, "Content-Length"); value != nil {
		if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
			return Answer{}, 0, scratch, errHead
		}
	}
	if len(raw)-start < length {
		return Answer{}, 0, scratch, nil
	}
	answer.Body = raw[start : start+length]
	return answer, start + length, scratch, nil
}

// field is the value of a header line; nil where there is none. Go's server
// writes names in their canonical case, and these two itself.
func field(head []byte, name string) []byte {
	for rest := head; ; {
		at := bytes.IndexByte(rest, '\n')
		if at < 0 {
			return nil
		}
		rest = rest[at+1:]
		if len(rest) > len(name) && string(rest[:len(name)]) == name && rest[len(name)] == ':' {
			line, _, _ := bytes.Cut(rest[len(name)+1:], []byte("\r\n"))
			return bytes.TrimSpace(line)
		}
	}
}

// dechunk appends the body in chunks (RFC 9112, section 7.1) to into. used is
// 0 while it is not whole. No trailers: our servers send none.
func dechunk(raw, into []byte) (body []byte, used int, err error) {
	body = into
	for at := 0; ; {
		line, _, whole := bytes.Cut(raw[at:], []byte("\r\n"))
		if !whole {
			return body, 0, nil
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return body, 0, errChunk
		}
		at += len(line) + len("\r\n")
		end := at + int(size) + len("\r\n")
		if end > len(raw) {
			return body, 0, nil
		}
		if string(raw[end-2:end]) != "\r\n" {
			return body, 0, errChunk
		}
		body = append(body, raw[at:end-2]...)
		if at = end; size == 0 {
			return body, at, nil
		}
	}
}
