package fingerprint

import (
	"bytes"
	"cmp"
	"slices"
)

// readName reads the name of a member and the colon after it.
func (d *document) readName(f *frame) bool {
	if d.skipBlanks() != '"' {
		return false
	}
	m := member{start: len(d.out)}
	var ok bool
	if m.escaped, ok = d.readString(); !ok {
		return false
	}
	m.name, m.nameEnd = m.start+1, len(d.out)-1 // within the quotes
	if m.escaped {
		written := d.out[m.name:m.nameEnd]
		m.name = len(d.names)
		d.names = appendUnescaped(d.names, written)
		m.nameEnd = len(d.names)
	}
	if d.skipBlanks() != ':' {
		return false
	}
	d.pos++
	d.out = append(d.out, ':')

	name := d.name(m)
	if len(d.members) > f.members && compareUTF16(d.name(d.members[len(d.members)-1]), name) >= 0 {
		f.unsorted = true
	}
	m.drop = d.match(f, name)
	f.dropped = f.dropped || m.drop
	d.members = append(d.members, m)
	return true
}

// name returns the decoded name of a member.
func (d *document) name(m member) []byte {
	if m.escaped {
		return d.names[m.name:m.nameEnd]
	}
	return d.out[m.name:m.nameEnd]
}

// closeObject puts the members of an object in order, leaves out the ignored ones, and closes it. It reports false
// where a name occurs twice, be it an ignored one.
func (d *document) closeObject(f *frame) bool {
	members := d.members[f.members:]
	if f.unsorted {
		slices.SortFunc(members, func(a, b member) int { return compareUTF16(d.name(a), d.name(b)) })
		for i := 1; i < len(members); i++ {
			if bytes.Equal(d.name(members[i-1]), d.name(members[i])) {
				return false
			}
		}
	}
	if f.unsorted || f.dropped {
		d.rewrite(f.start+1, members)
	}
	d.close(f)
	return true
}

// rewrite writes the members, which are all that follows start in out, anew: in the order given, without the ignored
// ones. The old text is kept behind the new one meanwhile, so that a buffer with room to spare is enough.
func (d *document) rewrite(start int, members []member) {
	old := len(d.out)
	first := true
	for _, m := range members {
		if m.drop {
			continue
		}
		if !first {
			d.out = append(d.out, ',')
		}
		first = false
		d.out = append(d.out, d.out[m.start:m.end]...)
	}
	d.out = d.out[:start+copy(d.out[start:], d.out[old:])]
}

// compareUTF16 compares two names in UTF-8 by their UTF-16 code units, as RFC 8785 section 3.2.3 sorts them. That is
// the order of their bytes, but for characters beyond U+FFFF (lead bytes F0 to F4), whose surrogates come before
// U+E000 to U+FFFF (lead bytes EE and EF).
func compareUTF16(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		// Both start a character or both continue one, and a byte from EE up only starts one.
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			x, y = y, x
		}
		return cmp.Compare(x, y)
	}
	return cmp.Compare(len(a), len(b))
}
