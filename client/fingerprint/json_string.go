package fingerprint

import (
	"unicode/utf16"
	"unicode/utf8"
)

// readString reads the string that starts at pos and writes its canonical form. It reports whether that form has an
// escape, and false where it is not a string of Unicode characters: bad UTF-8 and lone surrogates, which a decoder that
// replaces them would make equal.
func (d *document) readString() (escaped, ok bool) {
	src := d.src
	from := d.pos // what is not yet written, at first the opening quote
	for i := d.pos + 1; i < len(src); {
		switch c := src[i]; {
		case c == '"':
			i++
			d.out = append(d.out, src[from:i]...)
			d.pos = i
			return escaped, true
		case c == '\\':
			r, size := readEscape(src[i:])
			if size == 0 {
				return false, false
			}
			d.out = append(d.out, src[from:i]...)
			before := len(d.out)
			d.out = appendCharacter(d.out, r)
			escaped = escaped || d.out[before] == '\\'
			i += size
			from = i
		case c < ' ':
			return false, false
		case c < utf8.RuneSelf:
			i++
		default:
			r, size := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && size == 1 {
				return false, false
			}
			i += size
		}
	}
	return false, false
}

// readEscape reads the escape with which text starts, or the two that make a surrogate pair, and returns the
// character and how many bytes it took: 0 where it is none.
func readEscape(text []byte) (r rune, size int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch c := text[1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		const size = len(`\uXXXX`)
		r, ok := readUnit(text)
		if !ok {
			return 0, 0
		}
		if !utf16.IsSurrogate(r) {
			return r, size
		}
		low, ok := readUnit(text[size:])
		if !ok {
			return 0, 0
		}
		// DecodeRune answers U+FFFD, which no pair stands for, unless r is a high and low a low surrogate.
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return 0, 0
		}
		return r, 2 * size
	default:
		return 0, 0
	}
}

// readUnit reads one UTF-16 code unit, written \uXXXX.
func readUnit(text []byte) (unit rune, ok bool) {
	const size = len(`\uXXXX`)
	if len(text) < size || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:size] {
		digit, ok := unhex(c)
		if !ok {
			return 0, false
		}
		unit = unit<<4 | rune(digit)
	}
	return unit, true
}

// appendCharacter appends a character as RFC 8785 section 3.2.2.2 writes it inside a string: literally unless it has to
// be escaped, and then as short as can be.
func appendCharacter(dst []byte, r rune) []byte {
	const hexDigits = "0123456789abcdef"
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	if r < ' ' {
		return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&0xF])
	}
	return utf8.AppendRune(dst, r)
}

// appendUnescaped appends the characters of a canonical string, given without its quotes.
func appendUnescaped(dst, written []byte) []byte {
	for i := 0; i < len(written); {
		if written[i] != '\\' {
			dst = append(dst, written[i])
			i++
			continue
		}
		r, size := readEscape(written[i:])
		dst = utf8.AppendRune(dst, r)
		i += size
	}
	return dst
}
