//go:build unix

package processtest

import (
	"encoding/json"
	"index/suffixarray"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/api/apitest"
)

// shortestSecret is the length from which a text of a request is so much its
// own that a log which has it must have it from there.
const shortestSecret = 8

// checkLog fails the test for a secret, an error, a panic or a data race in a
// log.
func checkLog(tb testing.TB, log string, secrets map[string]string, expected []string) {
	tb.Helper()
	if i := strings.Index(log, "WARNING: DATA RACE"); i >= 0 {
		tb.Errorf("data race in the API:\n%.8000s", log[i:])
	}
	var said strings.Builder
	for line := range strings.Lines(log) {
		var members map[string]any
		if json.Unmarshal([]byte(line), &members) != nil {
			// Only what the runtime writes at a crash is no JSON.
			tb.Errorf("the API wrote what is no line of its log: %.4000s", line)
			said.WriteString(line)
			continue
		}
		if members["level"] == "ERROR" && !slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(line, text) }) {
			tb.Errorf("the API logged an error: %.4000s", line)
		}
		// As the values are, not as JSON writes them: a quote in a body would
		// be escaped.
		for _, name := range slices.Sorted(maps.Keys(members)) {
			writeTexts(&said, members[name])
		}
	}
	checkSecrets(tb, "the log of the API", said.String(), secrets)
}

// checkSecrets fails the test for each secret in a text.
func checkSecrets(tb testing.TB, name, text string, secrets map[string]string) {
	tb.Helper()
	index := suffixarray.New([]byte(text))
	for secret, what := range secrets {
		if at := index.Lookup([]byte(secret), 1); len(at) > 0 {
			around := text[max(0, at[0]-200):min(len(text), at[0]+200)]
			tb.Errorf("%s holds %s: …%s…", name, what, around)
		}
	}
}

func writeTexts(into *strings.Builder, value any) {
	switch v := value.(type) {
	case string:
		into.WriteString(v)
		into.WriteByte('\n')
	case []any:
		for _, element := range v {
			writeTexts(into, element)
		}
	case map[string]any:
		for name, element := range v {
			into.WriteString(name)
			into.WriteByte('\n')
			writeTexts(into, element)
		}
	}
}

// secretsOf are the texts of the exchanges that no log may hold, and what each
// is: credentials, tokens, keys, owners, callers, fingerprints, bodies.
func secretsOf(exchanges []apitest.Exchange) map[string]string {
	secrets := map[string]string{}
	add := func(secret, what string) {
		if len(secret) >= shortestSecret {
			secrets[secret] = what
		}
	}
	for _, e := range exchanges {
		credential := strings.TrimPrefix(e.RequestHeader.Get("Authorization"), "Bearer ")
		add(credential[strings.LastIndex(credential, "_")+1:], "the secret of an API key")
		add(e.RequestHeader.Get("Onceward-Lease"), "a lease token")
		for _, body := range [][]byte{e.RequestBody, e.Body} {
			var value any
			if json.Unmarshal(body, &value) == nil {
				addMembers(value, add)
				continue
			}
			_, message, _ := strings.Cut(string(body), "\r\n\r\n")
			add(message, "the body of a message")
		}
	}
	return secrets
}

// addMembers finds the secrets among the members of a JSON document.
func addMembers(value any, add func(secret, what string)) {
	switch v := value.(type) {
	case []any:
		for _, element := range v {
			addMembers(element, add)
		}
	case map[string]any:
		for name, member := range v {
			text, isText := member.(string)
			switch {
			case !isText:
				addMembers(member, add)
			case slices.Contains([]string{"key", "owner", "caller", "fingerprint", "body", "body_base64", "body_ref", "token", "lease_token"}, name):
				add(text, "the member "+name+" of a request or answer")
			}
		}
	}
}
