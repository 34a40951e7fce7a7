package fingerprint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client/fingerprint"
)

// canonicalTest is a body and its canonical form; an empty want says that the body is raw.
type canonicalTest struct {
	name, body, want string
}

func runCanonicalTests(t *testing.T, contentType string, kind fingerprint.Kind, tests []canonicalTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantKind, want := kind, tt.want
			if want == "" {
				wantKind, want = fingerprint.KindRaw, tt.body
			}
			gotKind, got := fingerprint.Canonical(contentType, []byte(tt.body), nil)
			if gotKind != wantKind {
				t.Errorf("got kind %s, want %s", gotKind, wantKind)
			}
			if diff := cmp.Diff(string(got), want); diff != "" {
				t.Errorf("canonical body (-got +want):\n%s", diff)
			}
			result := fingerprint.Compute(request(contentType, []byte(tt.body)))
			if want := sumOfFields(string(wantKind), want); result.BodySum != want {
				t.Errorf("Compute and Canonical disagree: got BodySum %x, want %x", result.BodySum, want)
			}
		})
	}
}

func TestJSONNumbersStayExact(t *testing.T) {
	t.Parallel()
	runCanonicalTests(t, "application/json", fingerprint.KindJSON, []canonicalTest{
		{"100", "100", "1e2"},
		{"4999.0", "4999.0", "4999"},
		{"0.10", "0.10", "1e-1"},
		{"-0", "-0", "0"},
		{"-0.0e-5", "-0.0e-5", "0"},
		{"1.0", "1.0", "1"},
		{"1e0", "1e0", "1"},
		{"1E+0", "1E+0", "1"},
		{"1e-0", "1e-0", "1"},
		{"10", "10", "1e1"},
		{"-10.010", "-10.010", "-1001e-2"},
		{"zeros on both sides", "0.0012300e+2", "123e-3"},
		{"a point that cancels the exponent", "1.5e1", "15"},
		{"zeros that cancel the exponent", "1500e-2", "15"},
		{"digits beyond 64 bits", "123456789012345678901234567890", "12345678901234567890123456789e1"},
		{"beyond double precision", "10000000000000000000001", "10000000000000000000001"},
		{"beyond the range of a double", "1e400", "1e400"},
		{"below the range of a double", "1e-400", "1e-400"},
		{"exponent of 15 digits", "1e+999999999999999", "1e999999999999999"},
		{"negative exponent of 15 digits", "1e-999999999999999", "1e-999999999999999"},
		{"canonical exponent past the limit of the written one", "10e999999999999999", "1e1000000000000000"},
		{"canonical exponent past the limit, below zero", "0.1e-999999999999999", "1e-1000000000000000"},
		{"15 digits after leading zeros", "1e0000999999999999999", "1e999999999999999"},
		{"exponent of 16 digits", "1e1000000000000000", ""},
		{"negative exponent of 16 digits", "1e-1000000000000000", ""},
		{"16 digits after leading zeros", "1e00001000000000000000", ""},
		{"exponent of 16 digits of zero", "0e1000000000000000", ""},
		{"exponent that wraps round 64 bits", "1e18446744073709551617", ""},
		{"exponent of zeros alone", "1e0000000000000000000", "1"},
		{"plus sign", "+1", ""},
		{"leading zero", "01", ""},
		{"leading zero after the sign", "-01", ""},
		{"two zeros", "00", ""},
		{"no digit before the point", ".5", ""},
		{"no digit after the point", "5.", ""},
		{"no digit after the point before the exponent", "5.e1", ""},
		{"no digit in the exponent", "5e", ""},
		{"no digit in the exponent after its sign", "5e-", ""},
		{"sign alone", "-", ""},
		{"two points", "1.2.3", ""},
		{"two exponents", "1e2e3", ""},
		{"hexadecimal", "0x1", ""},
		{"separator", "1_0", ""},
		{"NaN", "NaN", ""},
		{"Infinity", "-Infinity", ""},
		{"two numbers", "1 2", ""},
	})
}

func TestJSONStringsHaveShortestEscapes(t *testing.T) {
	t.Parallel()
	runCanonicalTests(t, "application/json", fingerprint.KindJSON, []canonicalTest{
		{"empty", `""`, `""`},
		{"short escapes", `"\u0008\u0009\u000a\u000C\u000d\u0022\u005c"`, `"\b\t\n\f\r\"\\"`},
		{"other controls", `"\u0000\u001F\u000b"`, `"\u0000\u001f\u000b"`},
		{"delete is no control here", `"\u007f\u0080"`, "\"\x7F\u0080\""},
		{"needless escapes", `"\u0041\/\u00e9\u2028"`, "\"A/é\u2028\""},
		{"surrogate pair", `"\uD83D\uDE00"`, `"😀"`},
		{"first and last surrogate pair", `"\ud800\udc00\udbff\udfff"`, "\"\U00010000\U0010FFFF\""},
		{"neighbours of the surrogates", `"\ud7ff\ue000"`, "\"\uD7FF\uE000\""},
		{"noncharacters", `"\uffff\ufffe"`, "\"\uFFFF\uFFFE\""},
		{"replacement character, escaped", `"\ufffd"`, "\"\uFFFD\""},
		{"replacement character, literal", "\"\uFFFD\"", "\"\uFFFD\""},
		{"byte order mark inside a string", "\"\uFEFF\"", "\"\uFEFF\""},
		{"escaped backslash before a letter", `"\\u0041"`, `"\\u0041"`},
		{"lone high surrogate", `"\ud800"`, ""},
		{"lone low surrogate", `"\udc00"`, ""},
		{"high surrogate before a letter", `"\ud800a"`, ""},
		{"high surrogate before another escape", `"\ud800\n"`, ""},
		{"high surrogate twice", `"\ud800\ud800"`, ""},
		{"high surrogate before what is no escape", `"\ud83dxude00"`, ""},
		{"surrogates in wrong order", `"\udc00\ud800"`, ""},
		{"high surrogate before an escaped replacement character", `"\ud800\ufffd"`, ""},
		{"high surrogate before half an escape", `"\ud800\udc0"`, ""},
		{"lone surrogate in a name", `{"\ud800":1}`, ""},
		{"surrogate in UTF-8", "\"\xED\xA0\x80\"", ""},
		{"surrogate pair in UTF-8", "\"\xED\xA0\xBD\xED\xB8\x80\"", ""},
		{"overlong UTF-8", "\"\xC0\x80\"", ""},
		{"UTF-8 cut short by the quote", "\"\xE2\x82\"", ""},
		{"UTF-8 cut short by the end", "\"\xE2\x82", ""},
		{"beyond U+10FFFF", "\"\xF4\x90\x80\x80\"", ""},
		{"byte FF", "\"\xFF\"", ""},
		{"UTF-16", "\"\x00a\x00\"", ""},
		{"literal control", "\"\x1F\"", ""},
		{"literal line feed", "\"\n\"", ""},
		{"literal zero byte", "\"\x00\"", ""},
		{"unknown escape", `"\a"`, ""},
		{"capital U", `"\U0041"`, ""},
		{"single quote escape", `"\'"`, ""},
		{"three hexadecimal digits", `"\u004"`, ""},
		{"no hexadecimal digit", `"\u004g"`, ""},
		{"sign among hexadecimal digits", `"\u+041"`, ""},
		{"no closing quote", `"a`, ""},
		{"escaped closing quote", `"a\"`, ""},
		{"backslash at the end", `"a\`, ""},
		{"quote alone", `"`, ""},
		{"single quotes", `'a'`, ""},
	})
}

func TestJSONMembersAreSortedByUTF16Units(t *testing.T) {
	t.Parallel()
	runCanonicalTests(t, "application/json", fingerprint.KindJSON, []canonicalTest{
		{"two members", `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{"every level", `{"b":[{"d":1,"c":{"f":1,"e":2}}],"a":0}`, `{"a":0,"b":[{"c":{"e":2,"f":1},"d":1}]}`},
		{"shorter name first", `{"aa":1,"a":2,"":3}`, `{"":3,"a":2,"aa":1}`},
		{"capitals first", `{"a":1,"B":2}`, `{"B":2,"a":1}`},
		{"numbers in names are text", `{"2":1,"10":2}`, `{"10":2,"2":1}`},
		{"surrogates before U+E000", `{"\ue000":1,"\ud83d\ude00":2}`, `{"😀":2,"` + "\uE000" + `":1}`},
		{"surrogates before U+FFFF", `{"a\uffff":1,"a\udbff\udfff":2}`, "{\"a\U0010FFFF\":2,\"a\uFFFF\":1}"},
		{"surrogates after U+D7FF", `{"\ud800\udc00":1,"\ud7ff":2}`, "{\"\uD7FF\":2,\"\U00010000\":1}"},
		{"among surrogates", `{"\udbff\udfff":1,"\ud800\udc00":2}`, "{\"\U00010000\":2,\"\U0010FFFF\":1}"},
		{"among the last of the plane", `{"\uffff":1,"\ue000":2}`, "{\"\uE000\":2,\"\uFFFF\":1}"},
		{"by the decoded name, not the written one", `{"a":1,"\n":2,"\u0000":3,"\"":4,"\\":5}`, `{"\u0000":3,"\n":2,"\"":4,"\\":5,"a":1}`},
		{"the name's own object does not matter", `{"c":{"\n":1},"b":{"\t":1},"\n":1}`, `{"\n":1,"b":{"\t":1},"c":{"\n":1}}`},
		{"escapes of a name", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		{"the same name in different objects", `{"a":{"a":1},"b":{"a":{"a":2}}}`, `{"a":{"a":1},"b":{"a":{"a":2}}}`},
		{"a name twice", `{"a":1,"a":1}`, ""},
		{"a name twice, apart", `{"a":1,"c":2,"b":3,"a":1}`, ""},
		{"a name twice, once escaped", `{"a":1,"\u0061":1}`, ""},
		{"an escaped name twice", `{"\n":1,"b":2,"\u000a":1}`, ""},
		{"the empty name twice", `{"":1,"":1}`, ""},
		{"a name twice far inside", `[[{"x":[{"a":1,"a":2}]}]]`, ""},
	})
}

func TestJSONIsOneValueOfRFC8259(t *testing.T) {
	t.Parallel()
	runCanonicalTests(t, "application/json", fingerprint.KindJSON, []canonicalTest{
		{"true", "true", "true"},
		{"false", "false", "false"},
		{"null", "null", "null"},
		{"empty containers", `[{},[],{"a":{}}]`, `[{},[],{"a":{}}]`},
		{"white space of every kind", " \t\r\n[ \t\r\n1 \t\r\n, \t\r\n{ \t\r\n\"a\" \t\r\n: \t\r\n2 \t\r\n} \t\r\n] \t\r\n", `[1,{"a":2}]`},
		{"white space in empty containers", "[ { } , [ ] ]", "[{},[]]"},
		{"only white space", " ", ""},
		{"form feed", "[1,\f2]", ""},
		{"no-break space", "[1,\u00A02]", ""},
		{"zero byte after the value", "1\x00", ""},
		{"zero byte before the value", "\x001", ""},
		{"byte order mark", "\xEF\xBB\xBF1", ""},
		{"byte order mark after white space", " \xEF\xBB\xBF1", ""},
		{"byte order mark at the end", "1\xEF\xBB\xBF", ""},
		{"UTF-16 with its byte order mark", "\xFF\xFE1\x00", ""},
		{"two values", "[][]", ""},
		{"text after the value", "{}x", ""},
		{"comma after the value", "1,", ""},
		{"trailing comma in an array", "[1,]", ""},
		{"trailing comma in an object", `{"a":1,}`, ""},
		{"leading comma", "[,1]", ""},
		{"two commas", "[1,,2]", ""},
		{"no comma in an array", "[1 2]", ""},
		{"no comma in an object", `{"a":1 "b":2}`, ""},
		{"no colon", `{"a" 1}`, ""},
		{"two colons", `{"a"::1}`, ""},
		{"no value", `{"a":}`, ""},
		{"no value at all", `{"a"}`, ""},
		{"bare name", `{a:1}`, ""},
		{"number for a name", `{1:1}`, ""},
		{"colon in an array", `["a":1]`, ""},
		{"mismatched brackets", `[1}`, ""},
		{"mismatched brackets the other way", `{"a":1]`, ""},
		{"closing bracket alone", "]", ""},
		{"one closing bracket too many", "[]]", ""},
		{"array cut short", "[1", ""},
		{"array cut short after a comma", "[1,", ""},
		{"object cut short", `{"a":1`, ""},
		{"object cut short in a name", `{"a`, ""},
		{"object cut short after a name", `{"a"`, ""},
		{"opening bracket alone", "{", ""},
		{"literal cut short", "tru", ""},
		{"literal with more", "truer", ""},
		{"literal in capitals", "True", ""},
		{"undefined", "undefined", ""},
		{"comment", "[1/*2*/]", ""},
		{"comment after the value", "1//", ""},
	})
}

func TestJSONHasAtMost128Levels(t *testing.T) {
	t.Parallel()
	nest := func(open, inside, end string, levels int) string {
		return strings.Repeat(open, levels) + inside + strings.Repeat(end, levels)
	}
	siblings := "[" + strings.TrimSuffix(strings.Repeat(nest("[", "", "]", 127)+",", 300), ",") + "]"
	tests := []canonicalTest{
		{"128 arrays", nest("[", "", "]", 128), nest("[", "", "]", 128)},
		{"129 arrays", nest("[", "", "]", 129), ""},
		{"128 arrays round a number", nest("[", "1", "]", 128), nest("[", "1", "]", 128)},
		{"128 objects", nest(`{"a":`, "1", "}", 128), nest(`{"a":`, "1", "}", 128)},
		{"129 objects", nest(`{"a":`, "1", "}", 129), ""},
		{"128 levels, the innermost an empty object", nest("[", "{}", "]", 127), nest("[", "{}", "]", 127)},
		{"129 levels, the innermost an empty object", nest("[", "{}", "]", 128), ""},
		{"arrays and objects", nest(`[{"a":`, "1", "}]", 64), nest(`[{"a":`, "1", "}]", 64)},
		{"arrays and objects, one more", nest(`[{"a":`, "[]", "}]", 64), ""},
		{"128 levels side by side", siblings, siblings},
		{"129 levels late in the document", "[1," + nest("[", "", "]", 128) + "]", ""},
	}
	runCanonicalTests(t, "application/json", fingerprint.KindJSON, tests)
}
