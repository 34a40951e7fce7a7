package fingerprint_test

import (
	"bytes"
	"errors"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client/fingerprint"
)

// FuzzCompute holds every answer against the reference, and two bodies under one content type against each other:
// one fingerprint where, and only where, they mean the same.
func FuzzCompute(f *testing.F) {
	vectors := readVectors(f)
	for i, v := range vectors {
		other := vectors[(i+1)%len(vectors)].Body
		f.Add(v.ContentType, v.Query, v.Body, other, strings.Join(v.Ignore, " "))
	}
	for _, tt := range formTests() {
		f.Add("application/x-www-form-urlencoded", tt.form, []byte(tt.form), []byte(tt.want), "")
	}
	for _, pair := range [][2]string{
		{`{"b":1.50,"a":"\u00e9"}`, "{ \"a\" : \"\u00E9\" , \"b\" : 15e-1 }"},
		{`[1e999999999999999,-0,1E+0]`, `[10e999999999999998,0,1.0]`},
		{`{"😀":[],"":{}}`, `{"":{},"\ue000":[]}`},
		{`{"a":[{"b":1},{"b":2}]}`, `{"a":[{},{"b":2}]}`},
		{`"\ud83d\ude00\u0000\b\/"`, `"😀\u0000\u0008/"`},
		{`"\ud83d"`, `"\ude00"`},
		{strings.Repeat("[", 128) + strings.Repeat("]", 128), strings.Repeat("[", 129) + strings.Repeat("]", 129)},
	} {
		f.Add("application/json", "", []byte(pair[0]), []byte(pair[1]), "/a/0/b /b")
	}
	for _, contentType := range []string{
		"multipart/form-data; boundary=x", `multipart/form-data; boundary="x y"; a=b`, "multipart/form-data; boundary=x; boundary*=y",
	} {
		f.Add(contentType, "", []byte("--x\r\nA: 1\r\nB:2\r\n\r\n\r\n--\r\n--x--\r\n"), []byte("\r\n--x\r\nB:2\r\nA:1\r\n\r\n\r\n--\r\n--x--"), "")
		f.Add(contentType, "", []byte("--x y\r\nA: 1\r\n\r\n\n--x y--"), []byte("--x y\r\nA: 1\r\n\r\n--x y--"), "")
	}

	f.Fuzz(func(t *testing.T, contentType, query string, body, other []byte, pointers string) {
		if len(body) > 1<<12 || len(other) > 1<<12 || len(query) > 1<<12 {
			t.Skip("the reference is slow")
		}
		ignore := strings.Split(pointers, " ")
		meaning := checkAgainstReference(t, contentType, body, ignore)
		otherMeaning := checkAgainstReference(t, contentType, other, ignore)

		r := fingerprint.Request{Query: query, ContentType: contentType, Body: body, IgnorePointers: ignore}
		result := fingerprint.Compute(r)
		r.Body = other
		if got, want := fingerprint.Compute(r).Sum == result.Sum, meaning == otherMeaning; got != want {
			t.Errorf("%q and %q: same fingerprint %t, same meaning %t", body, other, got, want)
		}

		canonicalQuery := fingerprint.CanonicalQuery(query)
		if want := referenceForm(query); canonicalQuery != want {
			t.Errorf("CanonicalQuery(%q): got %q, want %q", query, canonicalQuery, want)
		}
		if again := fingerprint.CanonicalQuery(canonicalQuery); again != canonicalQuery {
			t.Errorf("CanonicalQuery(%q): got %q, want it unchanged", canonicalQuery, again)
		}
		checkWholeNumber(t, string(body))
		for _, p := range ignore {
			fingerprint.ValidPointer(p)
		}
	})
}

// checkAgainstReference checks kind and canonical form of a body, and returns both.
func checkAgainstReference(t *testing.T, contentType string, body []byte, ignore []string) (meaning string) {
	t.Helper()
	before := bytes.Clone(body)
	kind, canonical := fingerprint.Canonical(contentType, body, ignore)
	wantKind, want := referenceCanonical(contentType, body, ignore)
	if kind != wantKind || !bytes.Equal(canonical, want) {
		t.Errorf("%s: %q with %q\ngot  %s %q\nwant %s %q", contentType, body, ignore, kind, canonical, wantKind, want)
	}
	if !bytes.Equal(body, before) {
		t.Errorf("%s: %q was changed to %q", contentType, before, body)
	}
	result := fingerprint.Compute(fingerprint.Request{ContentType: contentType, Body: body, IgnorePointers: ignore})
	if result.Kind != kind || result.BodySum != sumOfFields(string(kind), string(canonical)) {
		t.Errorf("%s: %q: Compute and Canonical disagree", contentType, body)
	}
	switch kind {
	case fingerprint.KindJSON, fingerprint.KindForm:
		if len(canonical) == 0 {
			break // a form of empty segments; as a body of its own it would be none
		}
		if againKind, again := fingerprint.Canonical(contentType, canonical, nil); againKind != kind || !bytes.Equal(again, canonical) {
			t.Errorf("%s: canonical %q becomes %s %q", contentType, canonical, againKind, again)
		}
	case fingerprint.KindMultipart:
		checkOtherReaders(t, contentType, body)
	case fingerprint.KindNone, fingerprint.KindRaw:
	}
	return string(kind) + string(canonical)
}

// checkOtherReaders holds a multipart body against three readers that end a part in three ways: mime/multipart, one that
// looks for the delimiter anywhere, and one that looks for it after any line feed. What we call multipart, all
// of them must read alike.
func checkOtherReaders(t *testing.T, contentType string, body []byte) {
	t.Helper()
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		if errors.Is(err, mime.ErrInvalidMediaParameter) || strings.HasPrefix(err.Error(), "mime: duplicate") {
			return // it takes no empty parameter and none twice, which do not touch the boundary
		}
		t.Fatalf("ParseMediaType(%q): %v", contentType, err)
	}
	want, ok := referenceParts(string(body), parameters["boundary"])
	if !ok {
		t.Fatalf("%q: mime reads the boundary as %q, by which the body does not parse", contentType, parameters["boundary"])
	}

	var got []part
	reader := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	for {
		p, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && strings.Contains(err.Error(), "malformed MIME header") {
			return // it refuses more headers than we do, and whoever uses it never sees this body
		}
		if err != nil {
			t.Fatalf("%q: mime/multipart: %v", body, err)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			t.Fatalf("%q: mime/multipart: %v", body, err)
		}
		var lines []string
		for name, values := range p.Header {
			for _, value := range values {
				lines = append(lines, asciiLower(name)+":"+value)
			}
		}
		slices.Sort(lines)
		got = append(got, part{Lines: lines, Content: string(content)})
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("%q as read by mime/multipart (-got +want):\n%s", body, diff)
	}

	delimiter := "--" + parameters["boundary"]
	anywhere := strings.Count(string(body), delimiter)
	afterLF := strings.Count("\n"+string(body), "\n"+delimiter)
	if anywhere != len(want)+1 || afterLF != len(want)+1 {
		t.Errorf("%q has %d parts, but %d delimiters and %d after a line feed", body, len(want), anywhere, afterLF)
	}
}

// checkWholeNumber holds WholeNumber against math/big.
func checkWholeNumber(t *testing.T, text string) {
	t.Helper()
	n, ok := fingerprint.WholeNumber(text)
	var want decimal
	valid := numberParts.MatchString(text)
	if valid {
		want = referenceNumber(text)
	}
	wantOK := valid && want.exponent.Sign() >= 0 && want.exponent.IsInt64() && want.exponent.Int64() < 20
	if wantOK {
		want.mantissa.Mul(want.mantissa, new(big.Int).Exp(big.NewInt(10), want.exponent, nil))
		wantOK = want.mantissa.IsInt64()
	}
	if ok != wantOK || ok && n != want.mantissa.Int64() {
		t.Errorf("WholeNumber(%q): got %d, %t, want %v, %t", text, n, ok, want.mantissa, wantOK)
	}
}
