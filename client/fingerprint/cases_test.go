package fingerprint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/client/fingerprint"
)

// sumOf is the fingerprint of a POST of that JSON text.
func sumOf(body string) string {
	return fingerprint.Compute(request("application/json", []byte(body))).Hex()
}

func checkAllDiffer(t *testing.T, bodies ...string) {
	t.Helper()
	seen := map[string]string{}
	for _, body := range bodies {
		sum := sumOf(body)
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q share a fingerprint", other, body)
		}
		seen[sum] = body
	}
}

func checkAllSame(t *testing.T, bodies ...string) {
	t.Helper()
	for _, body := range bodies[1:] {
		if sumOf(body) != sumOf(bodies[0]) {
			t.Errorf("%q and %q have different fingerprints", bodies[0], body)
		}
	}
}

// B019: a canonical form in double precision maps neighbouring integers to one text.
func TestNeighbouringLargeIntegersDiffer(t *testing.T) {
	t.Parallel()
	checkAllDiffer(t, `{"id":9007199254740993}`, `{"id":9007199254740992}`, `{"id":9007199254740994}`)
	checkAllDiffer(t, `10000000000000000000001`, `10000000000000000000002`, `10000000000000000000000`)
	checkAllDiffer(t, `0.1`, `0.1000000000000000055511151231257827`, `1e400`, `1e401`, `1e-400`, `0`)
}

// B025: a decoder that replaces lone surrogates and bad UTF-8 makes distinct strings equal.
func TestStringsThatAreNoUnicodeDiffer(t *testing.T) {
	t.Parallel()
	checkAllDiffer(t, `{"s":"\ud800"}`, `{"s":"\ud801"}`, `{"s":"\udc00"}`, "{\"s\":\"\uFFFD\"}", "{\"s\":\"\xFF\"}", "{\"s\":\"\xFE\"}")
	checkAllSame(t, "{\"s\":\"\uFFFD\"}", `{"s":"\ufffd"}`)
}

// B053: only the top level was sorted, or nothing.
func TestOrderOfMembersCountsOnNoLevelAndOrderOfElementsOnAll(t *testing.T) {
	t.Parallel()
	checkAllSame(t,
		`{"a":{"b":[{"d":"A","c":2}],"e":3},"f":4}`,
		`{"f":4,"a":{"e":3,"b":[{"c":2,"d":"A"}]}}`,
		"\n{ \"f\" : 4 ,\t\"a\" : { \"e\" : 3 , \"b\" : [ { \"c\" : 2 , \"d\" : \"A\" } ] } }\r\n",
		`{"a":{"b":[{"d":"\u0041","c":2}],"\u0065":3},"f":4}`,
	)
	checkAllDiffer(t,
		`{"a":[1,2,{"b":[3,4]}]}`,
		`{"a":[2,1,{"b":[3,4]}]}`,
		`{"a":[1,2,{"b":[4,3]}]}`,
		`{"a":[1,{"b":[3,4]},2]}`,
	)
}

// B055: minus zero was written differently by two implementations of one canonical form.
func TestSpellingsOfZeroAndOfOneAreOneValueEach(t *testing.T) {
	t.Parallel()
	checkAllSame(t, `-0`, `0`, `0.0`, `-0.00`, `0e5`, `-0E-5`)
	checkAllSame(t, `1`, `1.0`, `1e0`, `1E+0`, `1e-0`, `0.1e1`, `10e-1`)
	checkAllDiffer(t, `0`, `1`, `-1`)
}

// B057: a small, deeply nested document overflows the stack of a reader that recurses, which in Go ends the process.
func TestFiveMegabytesOfOpeningBracketsAreRawWithinASecond(t *testing.T) {
	t.Parallel()
	const size = 5_000_000
	for name, body := range map[string]string{
		"arrays":                    strings.Repeat("[", size),
		"objects":                   strings.Repeat(`{"a":`, size/5),
		"arrays and objects":        strings.Repeat(`[{"":`, size/5),
		"arrays that are closed":    strings.Repeat("[", size/2) + strings.Repeat("]", size/2),
		"arrays in an ignored part": `{"ignored":` + strings.Repeat("[", size),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request("application/json", []byte(body))
			r.IgnorePointers = []string{"/ignored"}
			start := time.Now()
			result := fingerprint.Compute(r)
			if took := time.Since(start); took > time.Second {
				t.Errorf("took %s, want less than 1 s", took)
			}
			if want := sumOfFields("raw", body); result.Kind != fingerprint.KindRaw || result.BodySum != want {
				t.Errorf("got kind %s and BodySum %x, want raw and %x", result.Kind, result.BodySum, want)
			}
		})
	}
}

// B119: the same visible text in composed and decomposed form is different bytes. Strings are not normalised.
func TestComposedAndDecomposedLettersDiffer(t *testing.T) {
	t.Parallel()
	checkAllDiffer(t, "{\"name\":\"\u00E9\"}", "{\"name\":\"e\u0301\"}")
	checkAllDiffer(t, "{\"\u00E9\":1}", "{\"e\u0301\":1}")
	checkAllSame(t, "{\"name\":\"e\u0301\"}", `{"name":"e\u0301"}`)
	// Two names that look the same are two names.
	if kind, _ := fingerprint.Canonical("application/json", []byte("{\"\u00E9\":1,\"e\u0301\":2}"), nil); kind != fingerprint.KindJSON {
		t.Errorf("got kind %s, want json", kind)
	}
}
