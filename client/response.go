package client

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// Response is what an operation answered: what is stored, and what every retry
// gets, byte for byte.
type Response struct {
	Status  int // 200 to 599
	Headers []Header
	Body    []byte
	// BodyOmitted says that the body was not kept: retries are told that the
	// work is done, and no more. BodyRef is then where the body is, if it is
	// anywhere: 1 to 2048 printable ASCII characters.
	BodyOmitted bool
	BodyRef     string
}

// Header is one line of a response. Order, letter case and repetition are kept.
type Header struct{ Name, Value string }

// JSONResponse is a response with v as its JSON body.
func JSONResponse(status int, v any) (Response, error) {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return Response{}, err
	}
	return Response{Status: status, Headers: []Header{{"Content-Type", "application/json"}}, Body: body}, nil
}

// Header is the value of the first header of that name in any letter case;
// empty where there is none.
func (r Response) Header(name string) string {
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			return h.Value
		}
	}
	return ""
}

// responseWire is a response as JSON.
type responseWire struct {
	Status      int         `json:"status"`
	Headers     [][2]string `json:"headers,omitempty"`
	Body        *string     `json:"body,omitzero"`
	BodyBase64  []byte      `json:"body_base64,omitzero"`
	BodyOmitted bool        `json:"body_omitted,omitzero"`
	BodyRef     string      `json:"body_ref,omitzero"`
}

func (w responseWire) response() Response {
	r := Response{Status: w.Status, BodyOmitted: w.BodyOmitted, BodyRef: w.BodyRef, Body: w.BodyBase64}
	if w.Body != nil {
		r.Body = []byte(*w.Body)
	}
	for _, h := range w.Headers {
		r.Headers = append(r.Headers, Header{h[0], h[1]})
	}
	return r
}

// wire is r as JSON. Lines that JSON has no way to say (Latin-1, mostly) are
// left out, as the service itself would.
func (r Response) wire() responseWire {
	w := responseWire{Status: r.Status, BodyOmitted: r.BodyOmitted, BodyRef: r.BodyRef}
	w.Body, w.BodyBase64 = bodyWire(r.Body)
	for _, h := range r.sendable() {
		if strings.ToValidUTF8(h.Value, "") == h.Value {
			w.Headers = append(w.Headers, [2]string{h.Name, h.Value})
		}
	}
	return w
}

// message is r as one HTTP/1.1 message: the exact bytes, whatever they are.
func (r Response) message() []byte {
	var b bytes.Buffer
	b.Grow(256 + len(r.Body))
	b.WriteString("HTTP/1.1 " + strconv.Itoa(r.Status) + " \r\n")
	for _, h := range r.sendable() {
		b.WriteString(h.Name + ": " + h.Value + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.Bytes()
}

// kept beside this process: what the service never stores and what would give
// the message another end than its own.
var neverSent = map[string]bool{ //nolint:gochecknoglobals // a set that Go cannot declare as a constant
	"Set-Cookie": true, "Set-Cookie2": true, "Content-Length": true, "Transfer-Encoding": true, "Trailer": true, "Date": true,
}

// sendable are the headers that can be sent and may be stored, with line ends
// in their values made spaces, as net/http itself sends them.
func (r Response) sendable() []Header {
	var list []Header
	for _, h := range r.Headers {
		if !isToken(h.Name) || neverSent[http.CanonicalHeaderKey(h.Name)] {
			continue
		}
		h.Value = strings.Trim(strings.NewReplacer("\r", " ", "\n", " ").Replace(h.Value), " \t")
		list = append(list, h)
	}
	return list
}

// isToken says whether s is a token (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
