package client

import (
	"net/http"
	"strconv"
	"strings"
)

// replay answers a request with the stored response, byte for byte.
func (p *protector) replay(w http.ResponseWriter, r *http.Request, replay *Replay) {
	h := w.Header()
	writeStored(h, replay.Response)
	h.Set("Idempotent-Replay", "true")
	if !p.config.OnlyIdempotentReplay {
		h.Set("Idempotent-Replayed", "true")
	}
	response := replay.Response
	switch {
	case !bodyAllowed(response.Status):
		response.Body = nil // 204 and 304 have neither body nor length
	case r.Method == http.MethodHead && len(response.Body) == 0:
		// No length is better than a wrong one: what GET would send is not known.
	default:
		h.Set("Content-Length", strconv.Itoa(len(response.Body)))
	}
	w.WriteHeader(response.Status)
	if len(response.Body) > 0 {
		_, _ = w.Write(response.Body) // a retry gets it again
	}
}

// writeStored puts the headers of a stored response into h, in place of what
// outer handlers have set under the same names, in the letter case in which
// they were stored.
func writeStored(h http.Header, response Response) {
	for _, stored := range response.Headers {
		for name := range h {
			if strings.EqualFold(name, stored.Name) {
				delete(h, name)
			}
		}
	}
	for _, stored := range response.Headers {
		h[stored.Name] = append(h[stored.Name], stored.Value)
	}
	if response.BodyOmitted {
		// They describe a body that is not there.
		for _, name := range []string{"Content-Type", "Content-Encoding"} {
			deleteFold(h, name)
		}
		h.Set("Onceward-Body-Omitted", "true")
	}
	if response.Header("Content-Type") == "" || response.BodyOmitted {
		h["Content-Type"] = nil // keeps net/http from making one up
	}
}

func deleteFold(h http.Header, name string) {
	for n := range h {
		if strings.EqualFold(n, name) {
			delete(h, n)
		}
	}
}
