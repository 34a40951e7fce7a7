package fingerprint_test

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// referenceForm is the canonical form of a query or a form body.
func referenceForm(text string) string {
	escape := regexp.MustCompile(`(?s)\+|%[0-9a-fA-F]{2}`)
	decode := func(s string) string {
		return escape.ReplaceAllStringFunc(s, func(e string) string {
			if e == "+" {
				return " "
			}
			var b []byte
			if _, err := fmt.Sscanf(e, "%%%2x", &b); err != nil {
				panic(err)
			}
			return string(b)
		})
	}
	encode := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			if strings.Contains("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", s[i:i+1]) {
				b.WriteByte(s[i])
			} else {
				fmt.Fprintf(&b, "%%%02X", s[i])
			}
		}
		return b.String()
	}
	type pair struct{ name, value string }
	var pairs []pair
	sorted := true
	for segment := range strings.SplitSeq(text, "&") {
		if segment == "" {
			continue
		}
		name, value, _ := strings.Cut(segment, "=")
		p := pair{decode(name), decode(value)}
		if strings.ContainsAny(p.name, "[. ") {
			sorted = false
		}
		for _, other := range pairs {
			if other.name != p.name && byteLower(other.name) == byteLower(p.name) {
				sorted = false
			}
		}
		pairs = append(pairs, p)
	}
	if sorted {
		slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	}
	written := make([]string, 0, len(pairs))
	for _, p := range pairs {
		written = append(written, encode(p.name)+"="+encode(p.value))
	}
	return strings.Join(written, "&")
}

// byteLower puts ASCII letters in lower case and, unlike asciiLower, leaves bad UTF-8 as it is.
func byteLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return string(b)
}

const (
	tchar     = "[!#$%&'*+.^_`|~0-9A-Za-z-]"
	plainName = "[!#$%&'+.^_`|~0-9A-Za-z-]" // no asterisk, thus no RFC 2231
	bchars    = `[0-9A-Za-z'()+_,./:=?-](?:[0-9A-Za-z'()+_,./:=? -]{0,68}[0-9A-Za-z'()+_,./:=?-])?`
)

var (
	parameters = regexp.MustCompile(`^[^;]*(?:[ \t]*;[ \t]*(?:` +
		`(?i:boundary)="` + bchars + `"|` + plainName + `+=` + tchar + `+)?)*[ \t]*$`)
	boundaries = regexp.MustCompile(`;[ \t]*(?i:boundary)=(?:"([^"]*)"|([^ \t;]*))`)
	partSyntax = regexp.MustCompile(`(?s)^\r\n((?:` + tchar + `+:[^\x00-\x08\x0A-\x1F\x7F]*\r\n)+)\r\n(.*)\r\n$`)
)

// referenceBoundary finds the boundary in a content type.
func referenceBoundary(contentType string) (string, bool) {
	// The patterns are about bytes, those of package regexp about runes.
	if !isASCII(contentType[max(0, strings.Index(contentType, ";")):]) || !parameters.MatchString(contentType) {
		return "", false
	}
	found := boundaries.FindAllStringSubmatch(contentType, -1)
	if len(found) != 1 {
		return "", false
	}
	boundary := found[0][1] + found[0][2]
	return boundary, regexp.MustCompile(`^` + bchars + `$`).MatchString(boundary)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 })
}

// part is a part of a multipart body: its header lines in canonical form, sorted, and its bytes.
type part struct {
	Lines   []string
	Content string
}

// referenceParts takes a multipart body apart at every occurrence of its delimiter, wherever that is.
func referenceParts(body, boundary string) ([]part, bool) {
	pieces := strings.Split(latin1(body), "--"+boundary)
	first, last := pieces[0], pieces[len(pieces)-1]
	if len(pieces) < 3 || first != "" && first != "\r\n" || last != "--" && last != "--\r\n" {
		return nil, false
	}
	var parts []part
	for _, piece := range pieces[1 : len(pieces)-1] {
		m := partSyntax.FindStringSubmatch(piece)
		if m == nil {
			return nil, false
		}
		var p part
		names := map[string]bool{}
		for line := range strings.SplitSeq(strings.TrimSuffix(m[1], "\r\n"), "\r\n") {
			name, value, _ := strings.Cut(line, ":")
			name = asciiLower(name)
			if names[name] {
				return nil, false
			}
			names[name] = true
			p.Lines = append(p.Lines, bytesOf(name+":"+strings.Trim(value, " \t")))
		}
		slices.Sort(p.Lines)
		p.Content = bytesOf(m[2])
		parts = append(parts, p)
	}
	return parts, true
}

// latin1 makes every byte a rune of its own, so that a regular expression sees bytes. bytesOf is its inverse.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

func bytesOf(s string) string {
	var b []byte
	for _, r := range s {
		b = append(b, byte(r&0xFF))
	}
	return string(b)
}

func referenceAppendParts(parts []part) []byte {
	var b []byte
	field := func(text string) {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	for _, p := range parts {
		field(strings.Join(p.Lines, "\n"))
		field(p.Content)
	}
	return b
}
