package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/onceward/onceward/internal/keys"
)

// maxWaitSeconds is the longest wait; more counts as this.
const maxWaitSeconds = int(keys.MaxWait / time.Second)

// preferredWait is the N of Prefer: wait=N (RFC 7240, section 4.3), at most
// maxWaitSeconds. ok is false where no wait is asked for, or N is no whole
// number: a preference that is not understood is ignored. Of several waits
// the first counts (section 2).
func preferredWait(h http.Header) (seconds int, ok bool) {
	for _, line := range h.Values("Prefer") {
		for preference := range splitOutsideQuotes(line, ',') {
			for first := range splitOutsideQuotes(preference, ';') { // what follows are parameters
				name, value, _ := strings.Cut(first, "=")
				if strings.EqualFold(strings.Trim(name, " \t"), "wait") {
					return waitSeconds(strings.Trim(value, " \t"))
				}
				break
			}
		}
	}
	return 0, false
}

func waitSeconds(value string) (seconds int, ok bool) {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		value = value[1 : n-1]
	}
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0, false
		}
		seconds = min(10*seconds+int(value[i]-'0'), maxWaitSeconds)
	}
	return seconds, value != ""
}

// splitOutsideQuotes yields the parts of s between separators that stand in no
// quoted-string (RFC 9110, section 5.6.4).
func splitOutsideQuotes(s string, separator byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i < len(s); i++ {
			switch {
			case quoted && s[i] == '\\':
				i++
			case s[i] == '"':
				quoted = !quoted
			case !quoted && s[i] == separator:
				if !yield(s[start:i]) {
					return
				}
				start = i + 1
			}
		}
		yield(s[start:])
	}
}
