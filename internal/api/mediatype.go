package api

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/onceward/onceward/internal/problem"
)

const (
	mediaJSON    = "application/json"
	mediaMessage = "application/http" // RFC 9112, section 10.2
)

// checkMediaType is the 415 of the order of checks. A call without a body does
// not look at Content-Type: whatever is sent with it is not read.
func (x *exchange) checkMediaType() error {
	if encodings := x.request.Header.Values("Content-Encoding"); len(encodings) > 0 {
		return problem.New(problem.UnsupportedMediaType, "Send the body as it is, without Content-Encoding.")
	}
	switch x.route.body {
	case noBody:
		return nil
	case optionalJSONBody:
		if x.request.ContentLength == 0 {
			return nil
		}
	case jsonBody, batchBody, completionBody:
	}
	switch contentType(x.request.Header) {
	case mediaJSON:
		return nil
	case mediaMessage:
		if x.route.body == completionBody {
			x.isMessage = true
			return nil
		}
	}
	if x.route.body == completionBody {
		return problem.New(problem.UnsupportedMediaType, "Send the response with Content-Type application/json, or application/http for one HTTP/1.1 message.")
	}
	return problem.New(problem.UnsupportedMediaType, "Send the body with Content-Type application/json.")
}

// contentType is mediaJSON or mediaMessage, or empty for anything that the
// service does not read: another type, several headers, JSON in another
// charset than UTF-8 (RFC 8259, section 8.1), a message that is a request.
func contentType(h http.Header) string {
	values := h["Content-Type"]
	if len(values) != 1 {
		return ""
	}
	if sent := values[0]; sent == mediaJSON || sent == mediaMessage { // as nearly everybody writes it
		return sent
	}
	mediaType, params, err := mime.ParseMediaType(values[0])
	if err != nil {
		return ""
	}
	switch mediaType {
	case mediaJSON:
		if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
			return ""
		}
	case mediaMessage:
		if !isResponseMessage(params) {
			return ""
		}
	default:
		return ""
	}
	return mediaType
}

func isResponseMessage(params map[string]string) bool {
	kind, ok := params["msgtype"]
	return !ok || strings.EqualFold(kind, "response")
}

// wantsMessage says whether a replay goes out as application/http: where the
// caller names that type and likes JSON no better (RFC 9110, section 12.5.1).
// Every other answer is JSON, so whoever names both wants both.
func wantsMessage(h http.Header) bool {
	accepted := h.Values("Accept")
	if len(accepted) == 1 && accepted[0] == mediaMessage { // as our own client writes it
		return true
	}
	var message float64
	var json quality
	for _, line := range accepted {
		for element := range strings.SplitSeq(line, ",") {
			mediaType, params, err := mime.ParseMediaType(element)
			if err != nil {
				continue
			}
			q := 1.0
			if text, ok := params["q"]; ok {
				if q, err = strconv.ParseFloat(text, 64); err != nil || q < 0 || q > 1 {
					continue
				}
			}
			switch mediaType {
			case mediaMessage:
				if isResponseMessage(params) {
					message = max(message, q)
				}
			case mediaJSON:
				json.set(3, q)
			case "application/*":
				json.set(2, q)
			case "*/*":
				json.set(1, q)
			}
		}
	}
	return message > 0 && message >= json.q
}

// quality is the q that the most specific range gives to a type.
type quality struct {
	q         float64
	precision int
}

func (v *quality) set(precision int, q float64) {
	if precision > v.precision {
		*v = quality{q, precision}
	}
}
