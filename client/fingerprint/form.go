package fingerprint

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// pair is one name and value of a form, decoded: text[name:value] and text[value:end] of the decoded text.
type pair struct {
	prefix           uint64 // the first bytes of the name, the first of them highest, filled up with zeros
	name, value, end int
}

// form is a form taken apart.
type form struct {
	text  []byte // names and values, decoded, one after the other
	pairs []pair
	// ordered says that a name has a byte by which some framework builds structure out of the order of the pairs.
	ordered bool
	// upper says that a name has a capital letter: without one no two names can differ in case alone.
	upper bool
}

// appendForm appends the canonical form of a query or of a body of application/x-www-form-urlencoded. It cannot fail.
func appendForm[T string | []byte](dst []byte, src T) []byte {
	if len(src) == 0 {
		return dst
	}
	segments := 1
	for i := range len(src) {
		if src[i] == '&' {
			segments++
		}
	}
	f := form{text: make([]byte, 0, len(src)), pairs: make([]pair, 0, segments)}
	readForm(&f, src)
	order := f.order()
	for i, p := range f.pairs {
		if order != nil {
			p = f.pairs[order[i]]
		}
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = appendEscaped(dst, f.name(p))
		dst = append(dst, '=')
		dst = appendEscaped(dst, f.text[p.value:p.end])
	}
	return dst
}

// readForm takes src apart at its ampersands, and each segment that is not empty at its first equals sign.
func readForm[T string | []byte](f *form, src T) {
	for start := 0; start < len(src); start++ {
		end := start
		for end < len(src) && src[end] != '&' {
			end++
		}
		if end > start {
			readPair(f, src[start:end])
		}
		start = end
	}
}

func readPair[T string | []byte](f *form, src T) {
	text := f.text
	p := pair{name: len(text), value: -1}
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case c == '=' && p.value < 0:
			p.value = len(text)
			continue
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(src):
			hi, okHi := unhex(src[i+1])
			lo, okLo := unhex(src[i+2])
			if okHi && okLo {
				c = hi<<4 | lo
				i += 2
			}
		}
		if p.value < 0 {
			f.ordered = f.ordered || c == '[' || c == '.' || c == ' '
			f.upper = f.upper || 'A' <= c && c <= 'Z'
		}
		text = append(text, c)
	}
	p.end = len(text)
	if p.value < 0 {
		p.value = p.end
	}
	var prefix [8]byte
	copy(prefix[:], text[p.name:p.value])
	p.prefix = binary.BigEndian.Uint64(prefix[:])
	f.text = text
	f.pairs = append(f.pairs, p)
}

func (f *form) name(p pair) []byte { return f.text[p.name:p.value] }

// order returns the order in which the pairs are written, as indices of pairs; nil where it is that of the form. They
// are sorted by name, pairs of one name in the order of the form, unless that could change what a framework reads:
// "a[]=1&b=2&a[]=3", "A=1&a=2" and the like keep their order.
func (f *form) order() []int {
	if f.ordered || !f.upper && f.sorted() {
		return nil
	}
	order := make([]int, len(f.pairs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		if c := f.compareNames(&f.pairs[i], &f.pairs[j]); c != 0 {
			return c
		}
		return cmp.Compare(i, j)
	})
	if f.upper && f.differInCase(order) {
		return nil
	}
	return order
}

// sorted reports whether the names are sorted as they are.
func (f *form) sorted() bool {
	for i := 1; i < len(f.pairs); i++ {
		if f.compareNames(&f.pairs[i-1], &f.pairs[i]) > 0 {
			return false
		}
	}
	return true
}

// compareNames compares two names. Their prefixes, where they differ, decide as the names would, and much faster.
func (f *form) compareNames(a, b *pair) int {
	if a.prefix != b.prefix {
		return cmp.Compare(a.prefix, b.prefix)
	}
	return bytes.Compare(f.name(*a), f.name(*b))
}

// differInCase reports whether two names differ only in the case of ASCII letters. In the order given, which is
// sorted, equal names are neighbours.
func (f *form) differInCase(order []int) bool {
	names := make([][]byte, 0, len(order))
	for _, i := range order {
		if name := f.name(f.pairs[i]); len(names) == 0 || !bytes.Equal(name, names[len(names)-1]) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, compareFoldASCII)
	for i := 1; i < len(names); i++ {
		if compareFoldASCII(names[i-1], names[i]) == 0 {
			return true
		}
	}
	return false
}

func compareFoldASCII(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if x, y := lowerASCII(a[i]), lowerASCII(b[i]); x != y {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// appendEscaped appends text with every byte but the unreserved ones of RFC 3986 section 2.3 as %XX.
func appendEscaped(dst, text []byte) []byte {
	const hexDigits = "0123456789ABCDEF"
	for _, c := range text {
		if isAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~' {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&0xF])
		}
	}
	return dst
}

// unhex returns the value of one hexadecimal digit.
func unhex(c byte) (value byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	default:
		return 0, false
	}
}
