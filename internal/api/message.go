package api

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/onceward/onceward/internal/keys"
)

// One HTTP/1.1 response as application/http (RFC 9112): how a completion may
// be sent and a replay asked for. The bytes after the blank line are the body,
// all of them and nothing else, so what frames a message on a connection
// (transfer codings, a length that says otherwise) has no place here.

const crlf = "\r\n"

// parseMessage reads one response. It is strict where leniency would let two
// readers see two messages; a header that is merely odd is left to the rules
// for what is stored. Its errors say what is wrong without quoting any of it.
func parseMessage(raw []byte) (keys.Response, error) {
	head, body, ok := bytes.Cut(raw, []byte(crlf+crlf))
	if !ok {
		return keys.Response{}, errors.New("there is no blank line after the header; lines end with CR LF")
	}
	lines := strings.Split(string(head), crlf)
	for i, line := range lines {
		if strings.Contains(line, "\n") {
			return keys.Response{}, fmt.Errorf("line %d has a line feed without a carriage return before it", i+1)
		}
	}
	status, err := parseStatusLine(lines[0])
	if err != nil {
		return keys.Response{}, err
	}
	response := keys.Response{Status: status, Body: body, Headers: make([]keys.Header, 0, len(lines)-1)}
	for i, line := range lines[1:] {
		header, err := parseHeaderLine(line)
		if err == nil {
			err = checkFraming(header, len(body))
		}
		if err != nil {
			return keys.Response{}, fmt.Errorf("line %d %w", i+2, err)
		}
		response.Headers = append(response.Headers, header)
	}
	return response, nil
}

// parseStatusLine takes HTTP/1.1 SP 3DIGIT SP [ reason-phrase ] (RFC 9112,
// section 4). The reason is not kept.
func parseStatusLine(line string) (status int, err error) {
	rest, ok := strings.CutPrefix(line, "HTTP/1.1 ")
	if !ok || len(rest) < len("200 ") || rest[3] != ' ' {
		return 0, errors.New("line 1 must be HTTP/1.1, a space, a status of three digits, a space and the reason, which may be empty")
	}
	for _, c := range []byte(rest[:3]) {
		if c < '0' || c > '9' {
			return 0, errors.New("line 1 must have a status of three digits")
		}
		status = 10*status + int(c-'0')
	}
	if status < keys.MinStatus || status > keys.MaxStatus {
		return 0, fmt.Errorf("line 1 must have a status from %d to %d: a final response", keys.MinStatus, keys.MaxStatus)
	}
	for _, c := range []byte(rest[4:]) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return 0, errors.New("line 1 has a control character in its reason")
		}
	}
	return status, nil
}

func parseHeaderLine(line string) (keys.Header, error) {
	if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
		return keys.Header{}, errors.New("is folded: it begins with a blank; write every header on one line")
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok {
		return keys.Header{}, errors.New("has no colon")
	}
	return keys.Header{Name: name, Value: strings.Trim(value, " \t")}, nil
}

// checkFraming refuses what would give the body another end than the end of
// the message. A length may stand without a body, as in the answer to HEAD.
func checkFraming(h keys.Header, bodyBytes int) error {
	name := strings.TrimSpace(h.Name)
	if strings.EqualFold(name, "Transfer-Encoding") {
		return errors.New("is Transfer-Encoding; send the body decoded, as all that follows the blank line")
	}
	if strings.EqualFold(name, "Content-Length") && bodyBytes > 0 {
		length, err := strconv.ParseUint(h.Value, 10, 63)
		if err != nil || length != uint64(bodyBytes) {
			return errors.New("is a Content-Length other than what follows the blank line")
		}
	}
	return nil
}

// sendReplayMessage answers a begin with the stored response as one message,
// byte for byte, and everything else about it in Onceward-* headers.
func sendReplayMessage(x *exchange, r keys.Replay) error {
	h := x.Header()
	h.Set("Onceward-Id", r.ID.String())
	h.Set("Onceward-Attempt", strconv.Itoa(r.Attempt))
	h.Set("Onceward-Created-At", timeText(r.CreatedAt))
	h.Set("Onceward-Completed-At", timeText(r.CompletedAt))
	h.Set("Onceward-Expires-At", timeText(r.ExpiresAt))
	h.Set("Onceward-Age", string(appendSeconds(nil, r.Age)))
	if r.Response.BodyOmitted {
		h.Set("Onceward-Body-Omitted", "true")
		if r.Response.BodyRef != "" {
			h.Set("Onceward-Body-Ref", r.Response.BodyRef)
		}
	}
	if !r.FingerprintMatched {
		h.Set("Onceward-Fingerprint-Matched", "false")
	}
	x.write(http.StatusOK, mediaMessage, appendMessageHead(nil, r.Response), r.Response.Body)
	return nil
}

// appendMessageHead writes a stored response up to the first byte of its body.
// What is stored can end no line: keys refuses controls in names and values.
func appendMessageHead(buf []byte, r keys.Response) []byte {
	buf = append(buf, "HTTP/1.1 "...)
	buf = strconv.AppendInt(buf, int64(r.Status), 10)
	buf = append(buf, " "+crlf...)
	for _, h := range r.Headers {
		buf = append(buf, h.Name...)
		buf = append(buf, ": "...)
		buf = append(buf, h.Value...)
		buf = append(buf, crlf...)
	}
	return append(buf, crlf...)
}
