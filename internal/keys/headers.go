package keys

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/onceward/onceward/internal/tenants"
)

// neverStored are the header fields that a stored response never has (wire
// contract, section 4): they are secrets, or belong to one connection or one
// moment.
//
//nolint:gochecknoglobals // a set that Go cannot declare as a constant
var neverStored = map[string]bool{
	"set-cookie": true, "set-cookie2": true,
	"authorization": true, "proxy-authorization": true, "proxy-authenticate": true, "authentication-info": true,
	"connection": true, "keep-alive": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
	"content-length": true, "date": true, "age": true,
}

// filterHeaders parts the lines of a response into those that are stored, with
// their values trimmed of outer blanks, and the names of those that are not,
// in order. It never fails: a line that cannot be stored is dropped and said.
func filterHeaders(lines []Header, policy tenants.Policy) (stored []Header, dropped []string) {
	dropped = []string{}
	perConnection := namedByConnection(lines)
	size := 0
	for _, line := range lines {
		line.Value = trimBlanks(line.Value)
		name := strings.ToLower(line.Name)
		length := len(line.Name) + len(line.Value)
		if neverStored[name] || perConnection[name] || stripped(name, policy) || !storable(line) ||
			name != "www-authenticate" && holdsCredential(line.Value) ||
			len(stored) == MaxHeaders || size+length > MaxHeaderBytes {
			dropped = append(dropped, printable(line.Name))
			continue
		}
		size += length
		stored = append(stored, line)
	}
	return stored, dropped
}

func stripped(name string, policy tenants.Policy) bool {
	return contains(policy.StripHeaders, name) || len(policy.KeepHeaders) > 0 && !contains(policy.KeepHeaders, name)
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// namedByConnection are the fields that Connection names: they belong to the
// connection (RFC 9110, section 7.6.1).
func namedByConnection(lines []Header) map[string]bool {
	var names map[string]bool
	for _, line := range lines {
		if !strings.EqualFold(line.Name, "Connection") {
			continue
		}
		for option := range strings.SplitSeq(line.Value, ",") {
			if names == nil {
				names = make(map[string]bool)
			}
			names[strings.ToLower(trimBlanks(option))] = true
		}
	}
	return names
}

// storable says whether the name is a token and the value UTF-8 without
// controls but HTAB (RFC 9110, sections 5.1 and 5.5).
func storable(line Header) bool {
	if !made(line.Name, 1, len(line.Name), isTokenByte) || !utf8.ValidString(line.Value) {
		return false
	}
	for _, r := range line.Value {
		if r < 0x20 && r != '\t' || r >= 0x7f && r <= 0x9f {
			return false
		}
	}
	return true
}

// holdsCredential says whether a value is, letter case apart, Bearer and one
// token, or Basic and base64 with a colon inside: a secret, whatever the name
// of its header.
func holdsCredential(value string) bool {
	scheme, rest, found := strings.Cut(value, " ")
	rest = trimBlanks(rest)
	if !found || rest == "" || strings.ContainsAny(rest, " \t") {
		return false
	}
	switch strings.ToLower(scheme) {
	case "bearer":
		return true
	case "basic":
		decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(rest, "="))
		return err == nil && strings.Contains(string(decoded), ":")
	default:
		return false
	}
}

// trimBlanks removes the outer blanks that are no part of a field's value
// (optional white space, RFC 9110, section 5.6.3).
func trimBlanks(s string) string { return strings.Trim(s, " \t") }

// droppedBy says which lines of a completion are not among the stored ones, by
// name and in order: what the first answer said, worked out again for its
// repeat. Lines with equal name and value are always stored or dropped
// together, except where the limits of count or size cut them off, which are
// met in order.
func droppedBy(sent, stored []Header) []string {
	dropped := []string{}
	next := 0
	for _, line := range sent {
		line.Value = trimBlanks(line.Value)
		if next < len(stored) && stored[next] == line {
			next++
			continue
		}
		dropped = append(dropped, printable(line.Name))
	}
	return dropped
}

// printable is a header's name as a text column takes it: no NUL, valid UTF-8.
func printable(name string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(name, "\ufffd"), "\x00", "\ufffd")
}
