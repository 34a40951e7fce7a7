package fingerprint_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client/fingerprint"
)

// sumOfFields is the SHA-256 of fields that are each preceded by their length.
func sumOfFields(fields ...string) [32]byte {
	var b []byte
	for _, field := range fields {
		b = binary.BigEndian.AppendUint64(b, uint64(len(field)))
		b = append(b, field...)
	}
	return sha256.Sum256(b)
}

func TestSumIsOverSixLengthPrecededFields(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		request   fingerprint.Request
		kind      fingerprint.Kind
		method    string
		query     string
		canonical string
	}{
		{
			name: "nothing at all",
			kind: fingerprint.KindNone,
		},
		{
			name: "JSON",
			request: fingerprint.Request{
				Method: "pAtCh", Path: "/a%2Fb/../c//", Query: "b=2&a=1",
				ContentType: "application/json", Body: []byte(`{"b":10,"a":null}`),
			},
			kind: fingerprint.KindJSON, method: "PATCH", query: "a=1&b=2", canonical: `{"a":null,"b":1e1}`,
		},
		{
			name: "form",
			request: fingerprint.Request{
				Method: "POST", ContentType: "application/x-www-form-urlencoded", Body: []byte("b=2&a=1"),
			},
			kind: fingerprint.KindForm, method: "POST", canonical: "a=1&b=2",
		},
		{
			name: "multipart",
			request: fingerprint.Request{
				Method: "POST", ContentType: "multipart/form-data; boundary=x", Body: []byte("--x\r\nA: 1\r\n\r\nv\r\n--x--"),
			},
			kind: fingerprint.KindMultipart, method: "POST",
			canonical: "\x00\x00\x00\x00\x00\x00\x00\x03a:1\x00\x00\x00\x00\x00\x00\x00\x01v",
		},
		{
			name: "JSON that does not parse",
			request: fingerprint.Request{
				Method: "POST", ContentType: "application/json", Body: []byte(`{"b":1,"a":2,}`),
			},
			kind: fingerprint.KindRaw, method: "POST", canonical: `{"b":1,"a":2,}`,
		},
		{
			name:    "any other media type",
			request: fingerprint.Request{Method: "POST", ContentType: "text/csv", Body: []byte("b,a")},
			kind:    fingerprint.KindRaw, method: "POST", canonical: "b,a",
		},
		{
			name:    "only ASCII letters of the method change case",
			request: fingerprint.Request{Method: "poſt-ı-\xFF"},
			kind:    fingerprint.KindNone, method: "POſT-ı-\xFF",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := fingerprint.Result{
				Sum:       sumOfFields("onceward-fp-1", tt.method, tt.request.Path, tt.query, string(tt.kind), tt.canonical),
				Kind:      tt.kind,
				MethodSum: sha256.Sum256([]byte(tt.method)),
				PathSum:   sha256.Sum256([]byte(tt.request.Path)),
				QuerySum:  sha256.Sum256([]byte(tt.query)),
				BodySum:   sumOfFields(string(tt.kind), tt.canonical),
			}
			got := fingerprint.Compute(tt.request)
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
			if got, want := got.Hex(), hex.EncodeToString(want.Sum[:]); got != want {
				t.Errorf("got Hex %s, want %s", got, want)
			}
		})
	}
}

func TestPartDigestsSayWhichPartDiffers(t *testing.T) {
	t.Parallel()
	base := func() fingerprint.Request {
		return fingerprint.Request{
			Method: "POST", Path: "/v1/charges", Query: "a=1", ContentType: "application/json", Body: []byte("1"),
		}
	}
	tests := []struct {
		name   string
		change func(*fingerprint.Request)
		want   []string
	}{
		{"nothing", func(*fingerprint.Request) {}, nil},
		{"method", func(r *fingerprint.Request) { r.Method = "PUT" }, []string{"sum", "method"}},
		{"path", func(r *fingerprint.Request) { r.Path = "/v1/charge" }, []string{"sum", "path"}},
		{"query", func(r *fingerprint.Request) { r.Query = "a=2" }, []string{"sum", "query"}},
		{"body", func(r *fingerprint.Request) { r.Body = []byte("2") }, []string{"sum", "body"}},
		{
			"kind of the same bytes",
			func(r *fingerprint.Request) { r.ContentType = "text/plain" },
			[]string{"sum", "body"},
		},
		{
			"a byte moved from one field to the next",
			func(r *fingerprint.Request) { r.Method, r.Path = "POST/", "v1/charges" },
			[]string{"sum", "method", "path"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			changed := base()
			tt.change(&changed)
			a, b := fingerprint.Compute(base()), fingerprint.Compute(changed)
			var got []string
			for _, part := range []struct {
				name string
				same bool
			}{
				{"sum", a.Sum == b.Sum},
				{"method", a.MethodSum == b.MethodSum},
				{"path", a.PathSum == b.PathSum},
				{"query", a.QuerySum == b.QuerySum},
				{"body", a.BodySum == b.BodySum},
			} {
				if !part.same {
					got = append(got, part.name)
				}
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("differing digests (-got +want):\n%s", diff)
			}
		})
	}
}

func TestKindFollowsTheMediaType(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	tests := []struct {
		contentType string
		body        string
		want        fingerprint.Kind
	}{
		{"application/json", "", fingerprint.KindNone},
		{"multipart/form-data", "", fingerprint.KindNone},
		{"", "1", fingerprint.KindRaw},
		{"application/json", "1", fingerprint.KindJSON},
		{"APPLICATION/Json", "1", fingerprint.KindJSON},
		{" application/json\t; charset=utf-8", "1", fingerprint.KindJSON},
		{"application/json;", "1", fingerprint.KindJSON},
		{"application/problem+json", "1", fingerprint.KindJSON},
		{"application/problem+JSON ;x", "1", fingerprint.KindJSON},
		{"x+json", "1", fingerprint.KindJSON},
		{"application/json5", "1", fingerprint.KindRaw},
		{"application/jso", "1", fingerprint.KindRaw},
		{"application/json+xml", "1", fingerprint.KindRaw},
		{"application/json-seq", "1", fingerprint.KindRaw},
		{"text/json", "1", fingerprint.KindRaw},
		{"text/plain; x=a/b+json", "1", fingerprint.KindRaw},
		{"text/plain, application/problem+json", "1", fingerprint.KindRaw}, // a header sent twice is no media type
		{"application/json, application/json", "1", fingerprint.KindRaw},
		{"application\x0Fjson", "1", fingerprint.KindRaw},
		{"application/problem\x0Bjson", "1", fingerprint.KindRaw},
		{"applİcation/json", "1", fingerprint.KindRaw}, // Unicode's lower case of İ is an i
		{"application/jſon", "1", fingerprint.KindRaw}, // and ſ folds to an s
		{form, "a", fingerprint.KindForm},
		{"Application/X-WWW-Form-urlencoded; charset=latin1", "a", fingerprint.KindForm},
		{"application/x-www-form-urlencoded+json", "a", fingerprint.KindRaw},
		{form, "\xFF\x00%", fingerprint.KindForm}, // a form always parses
		{form, "&", fingerprint.KindForm},
		{"multipart/form-data", "--x\r\nA: 1\r\n\r\nv\r\n--x--", fingerprint.KindRaw},
		{"Multipart/Form-Data; Boundary=x", "--x\r\nA: 1\r\n\r\nv\r\n--x--", fingerprint.KindMultipart},
		{"multipart/mixed; boundary=x", "--x\r\nA: 1\r\n\r\nv\r\n--x--", fingerprint.KindRaw},
	}
	for _, tt := range tests {
		t.Run(tt.contentType+"/"+tt.body, func(t *testing.T) {
			t.Parallel()
			if got, _ := fingerprint.Canonical(tt.contentType, []byte(tt.body), nil); got != tt.want {
				t.Errorf("got kind %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRawBodyIsReturnedItself(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"text/plain", "application/json", "multipart/form-data; boundary=x"} {
		body := []byte("{]")
		kind, canonical := fingerprint.Canonical(contentType, body, nil)
		if kind != fingerprint.KindRaw || &canonical[0] != &body[0] || len(canonical) != len(body) {
			t.Errorf("%s: got kind %s and %q, want the body itself as raw", contentType, kind, canonical)
		}
	}
}

func TestBodyIsOnlyRead(t *testing.T) {
	t.Parallel()
	for _, v := range readVectors(t) {
		body := bytes.Clone(v.Body)
		fingerprint.Compute(v.request())
		_, canonical := fingerprint.Canonical(v.ContentType, v.Body, v.Ignore)
		if v.Kind != fingerprint.KindRaw {
			for i := range canonical {
				canonical[i] = '!'
			}
		}
		if diff := cmp.Diff(v.Body, body); diff != "" {
			t.Errorf("%s: the body was changed (-got +want):\n%s", v.Name, diff)
		}
	}
}

func TestWholeNumberReadsJSONNumbersExactly(t *testing.T) {
	t.Parallel()
	type answer struct {
		N  int64
		OK bool
	}
	tests := []struct {
		text string
		want answer
	}{
		{"30", answer{30, true}},
		{"30.0", answer{30, true}},
		{"3e1", answer{30, true}},
		{"3E+1", answer{30, true}},
		{"0.3e2", answer{30, true}},
		{"300e-1", answer{30, true}},
		{"30.000e0", answer{30, true}},
		{"3e0000000000000000000001", answer{30, true}},
		{"-30", answer{-30, true}},
		{"0", answer{0, true}},
		{"-0", answer{0, true}},
		{"0.00", answer{0, true}},
		{"0e99999999999999999999", answer{0, true}},
		{"-0.0e-99999999999999999999", answer{0, true}},
		{"9223372036854775807", answer{math.MaxInt64, true}},
		{"9223372036854775807.000", answer{math.MaxInt64, true}},
		{"0.9223372036854775807e19", answer{math.MaxInt64, true}},
		{"9223372036854775808", answer{}},
		{"-9223372036854775808", answer{math.MinInt64, true}},
		{"-92233720368547758080e-1", answer{math.MinInt64, true}},
		{"-9223372036854775809", answer{}},
		{"9007199254740993", answer{9007199254740993, true}},
		{"1e18", answer{1_000_000_000_000_000_000, true}},
		{"9e18", answer{9_000_000_000_000_000_000, true}},
		{"1e19", answer{}},
		{"-1e19", answer{}},
		{"18446744073709551616", answer{}}, // 2^64: wraps round to 0
		{"99999999999999999999", answer{}},
		{"10000000000000000000000", answer{}},
		{"1e999999999999999", answer{}},
		{"1e9999999999999999", answer{}},
		{"1e18446744073709551616", answer{}}, // an exponent that wraps round to 0
		{"1e-999999999999999", answer{}},
		{"1e-18446744073709551616", answer{}},
		{"1" + strings.Repeat("0", 100_000) + "e-100000", answer{1, true}},
		{"0." + strings.Repeat("0", 99_999) + "1e100000", answer{1, true}},
		{"0.5", answer{}},
		{"30.01", answer{}},
		{"31e-1", answer{}},
		{"", answer{}},
		{"-", answer{}},
		{"+1", answer{}},
		{"01", answer{}},
		{"00", answer{}},
		{"-01", answer{}},
		{"1.", answer{}},
		{".5", answer{}},
		{"1e", answer{}},
		{"1e+", answer{}},
		{"1.e1", answer{}},
		{" 1", answer{}},
		{"1 ", answer{}},
		{"1_000", answer{}},
		{"0x10", answer{}},
		{"1e1.0", answer{}},
		{"NaN", answer{}},
		{"Infinity", answer{}},
		{"\"30\"", answer{}},
		{"٣", answer{}},
	}
	for _, tt := range tests {
		t.Run(tt.text[:min(len(tt.text), 30)], func(t *testing.T) {
			t.Parallel()
			n, ok := fingerprint.WholeNumber(tt.text)
			if diff := cmp.Diff(answer{n, ok}, tt.want); diff != "" {
				t.Errorf("(-got +want):\n%s", diff)
			}
		})
	}
}
