package fingerprint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client/fingerprint"
)

// multipartOf is the canonical form of a multipart body of parts given as header lines and bytes in turn.
func multipartOf(fields ...string) string {
	var parts []part
	for field := range slices.Chunk(fields, 2) {
		parts = append(parts, part{Lines: field[:1], Content: strings.Join(field[1:], "")})
	}
	return string(referenceAppendParts(parts))
}

func TestMultipartIsItsPartsInOrder(t *testing.T) {
	t.Parallel()
	runCanonicalTests(t, "multipart/form-data; boundary=xyz", fingerprint.KindMultipart, []canonicalTest{
		{"one part", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--\r\n", multipartOf("a:1", "v")},
		{"two parts", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz\r\nA: 2\r\n\r\nw\r\n--xyz--\r\n", multipartOf("a:1", "v", "a:2", "w")},
		{"two parts in the other order", "--xyz\r\nA: 2\r\n\r\nw\r\n--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--\r\n", multipartOf("a:2", "w", "a:1", "v")},
		{"no CRLF at the end", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--", multipartOf("a:1", "v")},
		{"a CRLF at the start", "\r\n--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--", multipartOf("a:1", "v")},
		{"an empty part", "--xyz\r\nA: 1\r\n\r\n\r\n--xyz--", multipartOf("a:1", "")},
		{"line ends at the ends of a part", "--xyz\r\nA: 1\r\n\r\n\r\nv\r\n\r\n--xyz--", multipartOf("a:1", "\r\nv\r\n")},
		{"bare CR and LF in a part", "--xyz\r\nA: 1\r\n\r\n\n\n\r\r\n--xyz--", multipartOf("a:1", "\n\n\r")},
		{"a blank line in a part", "--xyz\r\nA: 1\r\n\r\nv\r\n\r\nB: 2\r\n--xyz--", multipartOf("a:1", "v\r\n\r\nB: 2")},
		{"every byte in a part", "--xyz\r\nA: 1\r\n\r\n\x00\xFF\xC3\r\n--xyz--", multipartOf("a:1", "\x00\xFF\xC3")},
		{"dashes in a part", "--xyz\r\nA: 1\r\n\r\n--\r\n--x\r\n--xy\r\nxyz\r\n-xyz\r\n--xyz--", multipartOf("a:1", "--\r\n--x\r\n--xy\r\nxyz\r\n-xyz")},

		{"header lines sorted", "--xyz\r\nC: 1\r\nB: 2\r\nA: 3\r\n\r\nv\r\n--xyz--", multipartOf("a:3\nb:2\nc:1", "v")},
		{"header lines sorted as lines: a dash before the colon", "--xyz\r\nA: 1\r\nA-B: 2\r\nA9: 3\r\n\r\nv\r\n--xyz--", multipartOf("a-b:2\na9:3\na:1", "v")},
		{"header name in lower case, value as it is", "--xyz\r\nCONTENT-Type: TEXT/Plain\r\n\r\nv\r\n--xyz--", multipartOf("content-type:TEXT/Plain", "v")},
		{"outer blanks of a value", "--xyz\r\nA:\t  1 \t 2\t \r\n\r\nv\r\n--xyz--", multipartOf("a:1 \t 2", "v")},
		{"empty values", "--xyz\r\nA:\r\nB: \t\r\n\r\nv\r\n--xyz--", multipartOf("a:\nb:", "v")},
		{"colons in a value", "--xyz\r\nA::1:\r\n\r\nv\r\n--xyz--", multipartOf("a::1:", "v")},
		{"UTF-8 in a value", "--xyz\r\nA: filename=\"é.png\"\r\n\r\nv\r\n--xyz--", multipartOf("a:filename=\"é.png\"", "v")},
		{"Latin-1 in a value", "--xyz\r\nA: \xE9\xA0\r\n\r\nv\r\n--xyz--", multipartOf("a:\xE9\xA0", "v")},
		{"all characters of a name", "--xyz\r\n!#$%&'*+-.^_`|~09AZaz: 1\r\n\r\nv\r\n--xyz--", multipartOf("!#$%&'*+-.^_`|~09azaz:1", "v")},

		{"no part", "--xyz--\r\n", ""},
		{"no part, with an empty line", "--xyz\r\n--xyz--\r\n", ""},
		{"no part, with two empty lines", "--xyz\r\n\r\n--xyz--\r\n", ""},
		{"a part without a header", "--xyz\r\n\r\nv\r\n--xyz--", ""},
		{"a part without a header, with a blank line in it", "--xyz\r\n\r\nv\r\n\r\nw\r\n--xyz--", ""},
		{"a second part without a header", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz\r\n\r\nw\r\n--xyz--", ""},
		{"a part without a blank line", "--xyz\r\nA: 1\r\n--xyz--", ""},
		{"a part that ends with its blank line", "--xyz\r\nA: 1\r\n\r\n--xyz--", ""},
		{"a header name twice", "--xyz\r\nA: 1\r\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a header name twice, in another case and apart", "--xyz\r\nA: 1\r\nB: 2\r\na: 3\r\n\r\nv\r\n--xyz--", ""},
		{"a blank after a header name", "--xyz\r\nA : 1\r\n\r\nv\r\n--xyz--", ""},
		{"a tab after a header name", "--xyz\r\nA\t: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a blank inside a header name", "--xyz\r\nA B: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a blank before the first header name", "--xyz\r\n A: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a folded header", "--xyz\r\nA: 1\r\n 2\r\n\r\nv\r\n--xyz--", ""},
		{"a header folded with a tab and a colon", "--xyz\r\nA: 1\r\n\tB: 2\r\n\r\nv\r\n--xyz--", ""},
		{"a header folded to a blank line", "--xyz\r\nA: 1\r\n \r\n\r\nv\r\n--xyz--", ""},
		{"a bare CR in a header", "--xyz\r\nA: 1\rB: 2\r\n\r\nv\r\n--xyz--", ""},
		{"a bare LF in a header", "--xyz\r\nA: 1\nB: 2\r\n\r\nv\r\n--xyz--", ""},
		{"a CR before the CRLF of a header", "--xyz\r\nA: 1\r\r\n\r\nv\r\n--xyz--", ""},
		{"header lines that end with LF", "--xyz\r\nA: 1\n\nv\r\n--xyz--", ""},
		{"a bare LF in a header name", "--xyz\r\n\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a zero byte in a header", "--xyz\r\nA: 1\x002\r\n\r\nv\r\n--xyz--", ""},
		{"a control in a header", "--xyz\r\nA: \x0B\r\n\r\nv\r\n--xyz--", ""},
		{"a delete in a header", "--xyz\r\nA: \x7F\r\n\r\nv\r\n--xyz--", ""},
		{"a header without a colon", "--xyz\r\nA\r\n\r\nv\r\n--xyz--", ""},
		{"a header without a name", "--xyz\r\n: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a header name in quotes", "--xyz\r\n\"A\": 1\r\n\r\nv\r\n--xyz--", ""},
		{"a header name that is not ASCII", "--xyz\r\né: 1\r\n\r\nv\r\n--xyz--", ""},

		{"bytes before the first delimiter", "x\r\n--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"two CRLFs before the first delimiter", "\r\n\r\n--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a LF before the first delimiter", "\n--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a CR before the first delimiter", "\r--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a blank before the first delimiter", " --xyz\r\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a byte order mark before the first delimiter", "\xEF\xBB\xBF--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"bytes after the last delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--x", ""},
		{"bytes after the last delimiter's line", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--\r\nx", ""},
		{"two CRLFs after the last delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--\r\n\r\n", ""},
		{"a LF after the last delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--\n", ""},
		{"a CR after the last delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--\r", ""},
		{"a blank after the last delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz-- \r\n", ""},
		{"a third dash after the last delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz---", ""},
		{"a part after the last delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz--\r\n--xyz\r\nB: 2\r\n\r\nw\r\n--xyz--", ""},
		{"a blank after the first delimiter", "--xyz \r\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"a tab after a delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz\t\r\nB: 2\r\n\r\nw\r\n--xyz--", ""},
		{"a LF after a delimiter", "--xyz\nA: 1\r\n\r\nv\r\n--xyz--", ""},
		{"one dash after the last delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz-", ""},
		{"cut short after the delimiter", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz", ""},
		{"cut short after the delimiter's line", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz\r\n", ""},
		{"cut short in a part", "--xyz\r\nA: 1\r\n\r\nv", ""},
		{"cut short in a header", "--xyz\r\nA: 1", ""},
		{"cut short after the first delimiter", "--xyz", ""},
		{"another boundary", "--xy\r\nA: 1\r\n\r\nv\r\n--xy--", ""},
		{"the boundary in another case", "--XYZ\r\nA: 1\r\n\r\nv\r\n--XYZ--", ""},

		// What some readers take for a delimiter, and others for content.
		{"a longer boundary in a part", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyzz\r\nB: 2\r\n\r\nw\r\n--xyz--", ""},
		{"a delimiter with text on its line in a part", "--xyz\r\nA: 1\r\n\r\nv\r\n--xyz text\r\n--xyz--", ""},
		{"a delimiter after a LF in a part", "--xyz\r\nA: 1\r\n\r\nv\n--xyz\r\nB: 2\r\n\r\nw\r\n--xyz--", ""},
		{"a delimiter after a CR in a part", "--xyz\r\nA: 1\r\n\r\nv\r--xyz\r\nB: 2\r\n\r\nw\r\n--xyz--", ""},
		{"a delimiter in the middle of a line", "--xyz\r\nA: 1\r\n\r\nv--xyz\r\nB: 2\r\n\r\nw\r\n--xyz--", ""},
		{"a delimiter after a third dash", "--xyz\r\nA: 1\r\n\r\nv\r\n---xyz\r\n--xyz--", ""},
		{"a delimiter at the start of a part", "--xyz\r\nA: 1\r\n\r\n--xyz\r\nB: 2\r\n\r\nw\r\n--xyz--", ""},
		{"a delimiter in a header", "--xyz\r\nA: --xyz\r\n\r\nv\r\n--xyz--", ""},
	})
}

func TestMultipartBoundary(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("b", 70)
	tests := []struct {
		parameters string
		boundary   string // by which the body is written
		want       fingerprint.Kind
	}{
		{"; boundary=x", "x", fingerprint.KindMultipart},
		{";boundary=x", "x", fingerprint.KindMultipart},
		{" ;\t boundary=x \t", "x", fingerprint.KindMultipart},
		{"; BOUNDARY=x", "x", fingerprint.KindMultipart},
		{"; boundary=\"x\"", "x", fingerprint.KindMultipart},
		{"; boundary=\"x\" ; charset=utf-8", "x", fingerprint.KindMultipart},
		{"; charset=utf-8; boundary=x", "x", fingerprint.KindMultipart},
		{"; boundary=x; charset=utf-8", "x", fingerprint.KindMultipart},
		{"; boundary=x;", "x", fingerprint.KindMultipart},
		{";; ;boundary=x;;", "x", fingerprint.KindMultipart},
		{"; boundary=X", "X", fingerprint.KindMultipart},
		{"; boundary=" + longest, longest, fingerprint.KindMultipart},
		{"; boundary=" + longest + "b", longest + "b", fingerprint.KindRaw},
		{"; boundary=\"" + longest + "\"", longest, fingerprint.KindMultipart},
		{"; boundary=\"" + longest + "b\"", longest + "b", fingerprint.KindRaw},
		{"; boundary=09AZaz'+_-.", "09AZaz'+_-.", fingerprint.KindMultipart},
		{"; boundary=\"09AZaz'()+_,-./:=? x\"", "09AZaz'()+_,-./:=? x", fingerprint.KindMultipart},
		{"; boundary=-", "-", fingerprint.KindMultipart},
		{"; boundary=----", "----", fingerprint.KindMultipart},

		{"", "", fingerprint.KindRaw},
		{";", "", fingerprint.KindRaw},
		{"; charset=utf-8", "", fingerprint.KindRaw},
		{"; boundary", "boundary", fingerprint.KindRaw},
		{"; boundary=", "", fingerprint.KindRaw},
		{"; boundary=\"\"", "", fingerprint.KindRaw},
		{"; boundary=; charset=utf-8", "", fingerprint.KindRaw},
		{"; boundary=x; boundary=x", "x", fingerprint.KindRaw},
		{"; boundary=x; Boundary=y", "x", fingerprint.KindRaw},
		{"; boundary=; boundary=x", "x", fingerprint.KindRaw},
		{"; boundary =x", "x", fingerprint.KindRaw},
		{"; boundary= x", "x", fingerprint.KindRaw},
		{"; boundary\t=\tx", "x", fingerprint.KindRaw},
		{"; boundary= \"x\"", "x", fingerprint.KindRaw},
		{"; boundary=\"\\x\"", "x", fingerprint.KindRaw},
		{"; boundary=\"\\x\"", "\\x", fingerprint.KindRaw},
		{"; boundary=x\\", "x\\", fingerprint.KindRaw},
		{"; boundary=\"x\\\"\"", "x\"", fingerprint.KindRaw},
		{"; charset=\"utf-8\"; boundary=x", "x", fingerprint.KindRaw},
		{"; boundary=x; charset=\"utf-8\"", "x", fingerprint.KindRaw},
		{"; a=\"; boundary=y\"; boundary=x", "x", fingerprint.KindRaw},
		{"; a=\"; boundary=y\"; boundary=x", "y", fingerprint.KindRaw},
		{"; a=\"\"; boundary=x", "x", fingerprint.KindRaw},
		{"; boundary=\"x", "x", fingerprint.KindRaw},
		{"; boundary=\"x", "\"x", fingerprint.KindRaw},
		{"; boundary=x\"", "x\"", fingerprint.KindRaw},
		{"; boundary=x\"y\"", "x", fingerprint.KindRaw},
		{"; boundary=\"x\"y", "x", fingerprint.KindRaw},
		{"; boundary=\"x\"a=b", "x", fingerprint.KindRaw},
		{"; boundary=x a=b", "x", fingerprint.KindRaw},
		{"; boundary=x y", "x", fingerprint.KindRaw},
		{"; boundary=x y", "x y", fingerprint.KindRaw},
		{"; boundary=\"x \"", "x ", fingerprint.KindRaw},
		{"; boundary=\"x \"", "x", fingerprint.KindRaw},
		{"; boundary=\" x\"", " x", fingerprint.KindRaw},
		{"; boundary=\"x\ty\"", "x\ty", fingerprint.KindRaw},
		{"; boundary=x, text/plain", "x", fingerprint.KindRaw},
		{"; boundary=x,y", "x,y", fingerprint.KindRaw},
		{"; boundary=x=y", "x=y", fingerprint.KindRaw},
		{"; boundary=é", "é", fingerprint.KindRaw},
		{"; boundary=\"x;y\"", "x;y", fingerprint.KindRaw},
		{"; boundary=\"x\r\ny\"", "x\r\ny", fingerprint.KindRaw},
		{"; boundary=\r\nx", "x", fingerprint.KindRaw},
		{"; boundary=x\r\n", "x", fingerprint.KindRaw},
		{";\u00A0boundary=x", "x", fingerprint.KindRaw},
		{"; boundary*=x", "x", fingerprint.KindRaw},
		{"; boundary*0=x", "x", fingerprint.KindRaw},
		{"; boundary=x; boundary*=utf-8''y", "x", fingerprint.KindRaw},
		{"; a; boundary=x", "x", fingerprint.KindRaw},
		{"; a=; boundary=x", "x", fingerprint.KindRaw},
		{"; =a; boundary=x", "x", fingerprint.KindRaw},
		{"; a =b; boundary=x", "x", fingerprint.KindRaw},
		{"; a=b/c; boundary=x", "x", fingerprint.KindRaw},
		{"; boundary=x; a=b c", "x", fingerprint.KindRaw},
		{", boundary=x", "x", fingerprint.KindRaw},
	}
	for _, tt := range tests {
		t.Run(tt.parameters, func(t *testing.T) {
			t.Parallel()
			delimiter := "--" + tt.boundary
			body := delimiter + "\r\nA: 1\r\n\r\nv\r\n" + delimiter + "--\r\n"
			kind, canonical := fingerprint.Canonical("multipart/form-data"+tt.parameters, []byte(body), nil)
			if kind != tt.want {
				t.Errorf("got kind %s, want %s", kind, tt.want)
			}
			want := body
			if tt.want == fingerprint.KindMultipart {
				want = multipartOf("a:1", "v")
			}
			if diff := cmp.Diff(string(canonical), want); diff != "" {
				t.Errorf("canonical body (-got +want):\n%s", diff)
			}
		})
	}
}
