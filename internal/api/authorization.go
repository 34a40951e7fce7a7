package api

import (
	"net/http"
	"strings"
)

// bearerToken returns the one token of the one Authorization header (RFC 6750,
// section 2.1; the scheme in any letter case, RFC 9110, section 11.1). ok is
// false for anything else: two headers, another scheme, two tokens.
func bearerToken(h http.Header) (token string, ok bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	if !strings.EqualFold(scheme, "Bearer") || !isToken68(token) {
		return "", false
	}
	return token, true
}

// isToken68 is the form of a credential in RFC 9110, section 11.2.
func isToken68(s string) bool {
	body := strings.TrimRight(s, "=")
	for i := range len(body) {
		c := body[i]
		if !isAlphanumeric(c) && strings.IndexByte("-._~+/", c) < 0 {
			return false
		}
	}
	return body != ""
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
