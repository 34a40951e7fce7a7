package fingerprint

import (
	"strings"
	"unicode/utf8"
)

// ValidPointer reports whether p is a JSON pointer by RFC 6901 section 3: empty, or tokens that each follow a slash, in
// which a tilde stands only in ~0 and ~1. Such a pointer may still point at nothing, or at what cannot be ignored: the
// whole document (the empty pointer) and the elements of an array.
func ValidPointer(p string) bool {
	if p == "" {
		return true
	}
	if p[0] != '/' || !utf8.ValidString(p) {
		return false
	}
	for {
		tilde := strings.IndexByte(p, '~')
		if tilde < 0 {
			return true
		}
		p = p[tilde+1:]
		if p == "" || p[0] != '0' && p[0] != '1' {
			return false
		}
	}
}

// cutPointer compares the first token of a valid pointer that is not empty with name and, where they are the same,
// returns what of the pointer is left: empty where it ends here.
func cutPointer(p string, name []byte) (rest string, ok bool) {
	p = p[1:]
	for len(name) > 0 {
		if p == "" || p[0] == '/' {
			return "", false
		}
		c := p[0]
		p = p[1:]
		if c == '~' { // ~0 stands for a tilde, ~1 for a slash
			if p[0] == '1' {
				c = '/'
			}
			p = p[1:]
		}
		if c != name[0] {
			return "", false
		}
		name = name[1:]
	}
	return p, p == "" || p[0] == '/'
}
