package client

import (
	"net/http"
	"strings"
)

// keyOf reads the one idempotency key of a request: bare, or as a string in
// quotes (a Structured Field, RFC 9651, section 3.3.3, as the IETF draft of the
// header has it). Both forms of the same characters are the same key. It is
// never trimmed or folded, and never made up.
func keyOf(h http.Header) (string, *Error) {
	var values []string
	for name, lines := range h { // an adapter may have put it in under another case
		if strings.EqualFold(name, keyHeader) {
			values = append(values, lines...)
		}
	}
	switch {
	case len(values) == 0:
		return "", checkKey("")
	case len(values) > 1:
		return "", badKey("The header " + keyHeader + " was sent more than once. Send one, with one key.")
	}
	key := strings.Trim(values[0], " \t")
	if strings.HasPrefix(key, `"`) {
		var ok bool
		if key, ok = unquoteKey(key); !ok {
			return "", badKey("The key begins with a quotation mark but is not one string in quotes, with a backslash before each quotation mark and backslash inside, and nothing after it.")
		}
	} else if strings.Contains(key, ",") {
		// What sits between may have joined two headers so.
		return "", badKey("The key has a comma, which parts two values of a header. Put a key with a comma into quotation marks.")
	}
	if e := checkKey(key); e != nil {
		return "", e
	}
	return key, nil
}

func badKey(detail string) *Error {
	e := checkKey("?")
	e.Detail = detail
	return e
}

// unquoteKey reads sf-string: printable ASCII in quotes, where a backslash
// stands before a quote or a backslash only.
func unquoteKey(quoted string) (string, bool) {
	var key strings.Builder
	for i := 1; i < len(quoted); i++ {
		switch c := quoted[i]; {
		case c == '"':
			return key.String(), i == len(quoted)-1
		case c == '\\':
			i++
			if i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", false
			}
			key.WriteByte(quoted[i])
		default:
			key.WriteByte(c) // what is no printable ASCII is refused with the key
		}
	}
	return "", false
}
