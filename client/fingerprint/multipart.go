package fingerprint

import (
	"bytes"
	"slices"
)

const crlf = "\r\n"

// appendMultipart appends the canonical form of a body of multipart/form-data: per part its header lines and its
// bytes. It reports false where the body is not beyond doubt what RFC 2046 section 5.1.1 describes.
//
// Readers differ most about what ends a part: some find a delimiter at a bare line feed, some in the middle of a line,
// some when more text follows it on its line. So the delimiter must not occur in the body but as one, on a line of its
// own between CRLFs, and then all of them see the same parts.
func appendMultipart(dst, body []byte, boundary string) ([]byte, bool) {
	delimiter := append(make([]byte, 0, 2+maxBoundaryBytes), "--"...)
	delimiter = append(delimiter, boundary...)

	body = bytes.TrimPrefix(body, []byte(crlf))
	body, ok := bytes.CutPrefix(body, delimiter)
	if !ok || !bytes.HasPrefix(body, []byte(crlf)) {
		return dst, false // a preamble, or no part
	}
	var head header
	for {
		// body starts with the CRLF that ends the line of a delimiter: a part is due.
		body = body[len(crlf):]
		next := bytes.Index(body, delimiter)
		if next < 0 {
			return dst, false // cut short
		}
		part, ok := bytes.CutSuffix(body[:next], []byte(crlf))
		if !ok {
			return dst, false // a delimiter that does not start its line
		}
		if dst, ok = head.appendPart(dst, part); !ok {
			return dst, false
		}
		body = body[next+len(delimiter):]
		if after, last := bytes.CutPrefix(body, []byte("--")); last {
			return dst, len(after) == 0 || string(after) == crlf
		}
		if !bytes.HasPrefix(body, []byte(crlf)) {
			return dst, false // more text on the delimiter's line, be it a blank
		}
	}
}

// header is the header of a part. Its memory is used again for the next part.
type header struct {
	text  []byte // the lines in canonical form, one after the other
	lines []headerLine
}

// headerLine is one line, text[start:end] of its header; the name ends at colon.
type headerLine struct{ start, colon, end int }

func (h *header) line(l headerLine) []byte { return h.text[l.start:l.end] }

// appendPart appends the canonical form of one part: its header lines, sorted, and its bytes, each field preceded by its
// length.
func (h *header) appendPart(dst, part []byte) ([]byte, bool) {
	lines, content, ok := bytes.Cut(part, []byte(crlf+crlf))
	if !ok || !h.read(lines) {
		return dst, false
	}
	dst = appendLength(dst, 0)
	start := len(dst)
	for i, l := range h.lines {
		if i > 0 {
			dst = append(dst, '\n')
		}
		dst = append(dst, h.line(l)...)
	}
	setLength(dst, start)
	dst = appendLength(dst, len(content))
	return append(dst, content...), true
}

// read reads the header lines of a part and sorts them. It reports false where there is none, where a name occurs
// twice, or where one is not a line of RFC 9112 section 5 (without folding).
func (h *header) read(text []byte) bool {
	h.text, h.lines = h.text[:0], h.lines[:0]
	for more := true; more; {
		var line []byte
		line, text, more = bytes.Cut(text, []byte(crlf))
		if !h.readLine(line) {
			return false
		}
	}
	slices.SortFunc(h.lines, func(a, b headerLine) int { return bytes.Compare(h.line(a), h.line(b)) })
	// Lines of one name share all up to the colon, so sorting has made them neighbours.
	for i := 1; i < len(h.lines); i++ {
		a, b := h.lines[i-1], h.lines[i]
		if bytes.Equal(h.text[a.start:a.colon], h.text[b.start:b.colon]) {
			return false
		}
	}
	return true
}

// readLine reads one header line. A folded line starts with a blank, which no name does.
func (h *header) readLine(line []byte) bool {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 {
		return false
	}
	l := headerLine{start: len(h.text)}
	for _, c := range name {
		if !isTokenByte(c) {
			return false
		}
		h.text = append(h.text, lowerASCII(c))
	}
	l.colon = len(h.text)
	h.text = append(h.text, ':')
	for _, c := range value {
		// A bare CR or LF is the end of a line to some readers, and a zero byte the end of everything.
		if c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	h.text = append(h.text, bytes.Trim(value, " \t")...)
	l.end = len(h.text)
	h.lines = append(h.lines, l)
	return true
}
