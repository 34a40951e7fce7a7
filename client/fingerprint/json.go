package fingerprint

import "strconv"

// maxDepth is how many arrays and objects may lie within each other.
const maxDepth = 128

// document reads one JSON value from src and writes its canonical form to out as it goes. It does not recurse: what is
// open is in frames, so no nesting can exhaust the stack.
type document struct {
	src []byte
	pos int // of the next byte of src
	out []byte

	frames  []frame  // the open arrays and objects, outermost first
	members []member // the members so far of all open objects
	names   []byte   // the decoded names that are not in out as they are
	// pointers are the rests of the ignore pointers that still match. Each frame has its part of them; those from due
	// on match the value that comes next.
	pointers []string
	due      int

	// Room for the frames and members of a document of ordinary size, so that one allocation is enough.
	frameRoom  [8]frame
	memberRoom [24]member
}

// frame is an open array or object.
type frame struct {
	start    int // of its opening bracket in out
	object   bool
	unsorted bool // a name does not come after the one before it
	dropped  bool // a member is to be left out
	element  int  // the index of the current element of an array
	members  int  // document.members from here on are its own
	names    int  // document.names from here on are its own
	// document.pointers[pointers:pointersEnd] match the array or object itself.
	pointers, pointersEnd int
}

// member is a member of an open object: out[start:end] is its name and value.
type member struct {
	start, end int
	// The decoded name is at [name:nameEnd] of out or, where it has to be escaped there, of names.
	name, nameEnd int
	escaped       bool
	drop          bool // an ignore pointer ends here
}

// appendJSON appends the canonical form of a JSON text: RFC 8785 but for its numbers, which stay exact (see number).
// It reports false where src is not one JSON value by RFC 8259 in UTF-8 that has a single meaning: bad syntax or UTF-8,
// a lone surrogate, a byte order mark, a name twice in one object, more than maxDepth levels, an exponent of more than
// maxExponentDigits digits. Members that an ignore pointer names are checked like all others, and then left out.
func appendJSON(dst, src []byte, ignore []string) ([]byte, bool) {
	d := &document{src: src, out: dst}
	d.frames, d.members = d.frameRoom[:0], d.memberRoom[:0]
	for _, p := range ignore {
		if p != "" && ValidPointer(p) {
			d.pointers = append(d.pointers, p)
		}
	}
	ok := d.read()
	return d.out, ok
}

// read reads the whole document.
func (d *document) read() bool {
	for {
		due, ok := d.readValue()
		for ok && !due {
			if len(d.frames) == 0 {
				d.skipBlanks()
				return d.pos == len(d.src)
			}
			due, ok = d.readNext()
		}
		if !ok {
			return false
		}
	}
}

// skipBlanks moves to the next byte that is no white space and returns it; at the end, 0, which starts nothing.
func (d *document) skipBlanks() byte {
	for ; d.pos < len(d.src); d.pos++ {
		if c := d.src[d.pos]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// readValue reads a value: a scalar or an empty array or object to its end, any other up to its first value, which
// is then due.
func (d *document) readValue() (due, ok bool) {
	switch c := d.skipBlanks(); c {
	case '{', '[':
		return d.open(c)
	case '"':
		_, ok = d.readString()
		return false, ok
	case 't':
		return false, d.readLiteral("true")
	case 'f':
		return false, d.readLiteral("false")
	case 'n':
		return false, d.readLiteral("null")
	default:
		num, size := readNumber(d.src[d.pos:])
		if size == 0 || num.endless {
			return false, false
		}
		d.pos += size
		d.out = num.append(d.out)
		return false, true
	}
}

func (d *document) readLiteral(literal string) bool {
	end := d.pos + len(literal)
	if end > len(d.src) || string(d.src[d.pos:end]) != literal {
		return false
	}
	d.out = append(d.out, literal...)
	d.pos = end
	return true
}

// open opens an array or object.
func (d *document) open(bracket byte) (due, ok bool) {
	if len(d.frames) == maxDepth {
		return false, false
	}
	d.frames = append(d.frames, frame{
		start:       len(d.out),
		object:      bracket == '{',
		element:     -1,
		members:     len(d.members),
		names:       len(d.names),
		pointers:    d.due,
		pointersEnd: len(d.pointers),
	})
	d.out = append(d.out, bracket)
	d.pos++
	f := &d.frames[len(d.frames)-1]
	c := d.skipBlanks()
	switch {
	case f.object && c == '}', !f.object && c == ']':
		d.close(f)
		return false, true
	case f.object:
		return true, d.readName(f)
	default:
		d.nextElement(f)
		return true, true
	}
}

// readNext reads what follows a value inside an array or object: a comma and, in an object, the next name, after which
// a value is due; or the closing bracket.
func (d *document) readNext() (due, ok bool) {
	f := &d.frames[len(d.frames)-1]
	if f.object {
		d.members[len(d.members)-1].end = len(d.out)
	}
	c := d.skipBlanks()
	switch {
	case c == ',':
		d.pos++
		d.out = append(d.out, ',')
		if f.object {
			return true, d.readName(f)
		}
		d.nextElement(f)
		return true, true
	case f.object && c == '}':
		return false, d.closeObject(f)
	case !f.object && c == ']':
		d.close(f)
		return false, true
	default:
		return false, false
	}
}

// close writes the closing bracket, which is next in src, and drops the frame.
func (d *document) close(f *frame) {
	d.out = append(d.out, d.src[d.pos])
	d.pos++
	d.members = d.members[:f.members]
	d.names = d.names[:f.names]
	d.frames = d.frames[:len(d.frames)-1]
}

// nextElement notes that the next element of an array is due.
func (d *document) nextElement(f *frame) {
	f.element++
	if f.pointers == f.pointersEnd {
		d.match(f, nil)
		return
	}
	var room [20]byte
	d.match(f, strconv.AppendInt(room[:0], int64(f.element), 10))
}

// match finds which of the pointers that match f go on with name, to a value inside the one that is due. It reports
// whether one of them ends there.
func (d *document) match(f *frame, name []byte) (ends bool) {
	d.pointers = d.pointers[:f.pointersEnd]
	d.due = f.pointersEnd
	for i := f.pointers; i < f.pointersEnd; i++ {
		rest, ok := cutPointer(d.pointers[i], name)
		switch {
		case ok && rest == "":
			ends = true
		case ok:
			d.pointers = append(d.pointers, rest)
		}
	}
	return ends
}
