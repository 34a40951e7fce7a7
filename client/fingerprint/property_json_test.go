package fingerprint_test

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/onceward/onceward/client/fingerprint"
)

// A JSON value of the property tests: nil, bool, string, numeral, []any or object.
type (
	numeral struct {
		mantissa int64
		exponent int
	}
	namedValue struct {
		name  string
		value any
	}
	object []namedValue // of different names
)

// text has the characters that a canonical form can get wrong.
func text() *rapid.Generator[string] {
	return rapid.StringOf(rapid.OneOf(
		rapid.RuneFrom([]rune("abAB~/\"\\\x00\b\n\x1F\x7Fé\u0301\u2028\uD7FF\uE000\uFEFF\uFFFD\uFFFF😀\U00010000\U0010FFFF")),
		rapid.Rune(),
	)).Filter(func(s string) bool { return len(s) < 40 })
}

func numerals() *rapid.Generator[numeral] {
	return rapid.Custom(func(t *rapid.T) numeral {
		return numeral{
			mantissa: rapid.OneOf(rapid.Int64(), rapid.Int64Range(-120, 120)).Draw(t, "mantissa"),
			exponent: rapid.IntRange(-25, 25).Draw(t, "exponent"),
		}
	})
}

func values(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.SampledFrom([]any{nil, true, false}),
		text().AsAny(),
		numerals().AsAny(),
	}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return values(depth - 1) })
	return rapid.OneOf(append(scalars,
		rapid.SliceOfN(inner, 0, 4).AsAny(),
		rapid.Custom(func(t *rapid.T) object {
			o := object{}
			for _, name := range rapid.SliceOfNDistinct(text(), 0, 5, rapid.ID).Draw(t, "names") {
				o = append(o, namedValue{name, inner.Draw(t, "member")})
			}
			return o
		}).AsAny(),
	)...)
}

// spell writes a value in one of the ways that JSON allows.
func spell(t *rapid.T, value any) string {
	blank := func() string {
		return rapid.SampledFrom([]string{"", "", "", " ", "\n", "\t\r\n "}).Draw(t, "white space")
	}
	var s string
	switch v := value.(type) {
	case string:
		s = spellString(t, v)
	case numeral:
		s = spellNumeral(t, v)
	case []any:
		elements := make([]string, 0, len(v))
		for _, element := range v {
			elements = append(elements, spell(t, element))
		}
		s = "[" + blank() + strings.Join(elements, ",") + "]"
	case object:
		members := make([]string, 0, len(v))
		for _, m := range v {
			members = append(members, blank()+spellString(t, m.name)+blank()+":"+spell(t, m.value))
		}
		s = "{" + blank() + strings.Join(rapid.Permutation(members).Draw(t, "order"), ",") + "}"
	default:
		s = map[any]string{nil: "null", true: "true", false: "false"}[v]
	}
	return blank() + s + blank()
}

func spellString(t *rapid.T, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		short := strings.IndexRune("\"\\/\b\f\n\r\t", r)
		must := r < 0x20 || r == '"' || r == '\\'
		switch way := rapid.IntRange(0, 3).Draw(t, "way"); {
		case short >= 0 && (way == 0 || must && way == 1):
			b.WriteString(`\` + string(`"\/bfnrt`[short]))
		case must || way == 2:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "hex"), unit)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// spellNumeral moves the decimal point and writes zeros that do not count.
func spellNumeral(t *rapid.T, n numeral) string {
	sign, digits := "", big.NewInt(n.mantissa).String()
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if n.mantissa == 0 && rapid.Bool().Draw(t, "minus zero") {
		sign = "-"
	}
	trailing := rapid.IntRange(0, 3).Draw(t, "trailing zeros")
	digits += strings.Repeat("0", trailing)
	exponent := n.exponent - trailing
	fraction := rapid.IntRange(0, len(digits)+2).Draw(t, "digits after the point")
	exponent += fraction
	if fraction >= len(digits) {
		digits = strings.Repeat("0", fraction-len(digits)+1) + digits
	}
	whole := strings.TrimLeft(digits[:len(digits)-fraction], "0")
	if whole == "" {
		whole = "0"
	}
	s := sign + whole
	if fraction > 0 {
		s += "." + digits[len(digits)-fraction:]
	}
	if exponent != 0 || rapid.Bool().Draw(t, "exponent zero") {
		mark := rapid.SampledFrom([]string{"e", "E"}).Draw(t, "exponent mark")
		zeros := strings.Repeat("0", rapid.IntRange(0, 20).Draw(t, "leading zeros"))
		switch {
		case exponent < 0:
			s += mark + "-" + zeros + fmt.Sprint(-exponent)
		default:
			s += mark + rapid.SampledFrom([]string{"", "+"}).Draw(t, "plus") + zeros + fmt.Sprint(exponent)
		}
	}
	return s
}

// alter returns a value that means something else than v, and differs from it in one place.
func alter(t *rapid.T, v any) any {
	if rapid.IntRange(0, 9).Draw(t, "wrap") == 0 {
		return []any{v}
	}
	switch v := v.(type) {
	case string:
		at := rapid.IntRange(0, len([]rune(v))).Draw(t, "place")
		return string(slices.Insert([]rune(v), at, rapid.Rune().Draw(t, "more")))
	case numeral:
		if v.mantissa != 0 && rapid.Bool().Draw(t, "by the exponent") {
			return numeral{v.mantissa, v.exponent + 1}
		}
		return numeral{v.mantissa ^ 1, v.exponent}
	case []any:
		return alterElements(t, v)
	case object:
		return alterMembers(t, v)
	default:
		return rapid.SampledFrom(slices.DeleteFunc([]any{nil, true, false, numeral{}, "", []any{}, object{}}, func(other any) bool {
			return cmp.Equal(other, v, cmp.AllowUnexported(numeral{}))
		})).Draw(t, "other")
	}
}

func alterElements(t *rapid.T, elements []any) any {
	if len(elements) == 0 {
		return rapid.SampledFrom([]any{[]any{nil}, object{}, nil}).Draw(t, "other")
	}
	elements = slices.Clone(elements)
	at := rapid.IntRange(0, len(elements)-1).Draw(t, "element")
	switch rapid.IntRange(0, 2).Draw(t, "change") {
	case 0:
		return slices.Delete(elements, at, at+1)
	case 1:
		return append(elements, nil)
	default:
		elements[at] = alter(t, elements[at])
		return elements
	}
}

func alterMembers(t *rapid.T, members object) any {
	fresh := text().Filter(func(name string) bool {
		return !slices.ContainsFunc(members, func(m namedValue) bool { return m.name == name })
	})
	if len(members) == 0 {
		return object{{fresh.Draw(t, "name"), nil}}
	}
	members = slices.Clone(members)
	at := rapid.IntRange(0, len(members)-1).Draw(t, "member")
	switch rapid.IntRange(0, 2).Draw(t, "change") {
	case 0:
		return slices.Delete(members, at, at+1)
	case 1:
		members[at].name = fresh.Draw(t, "name")
	default:
		members[at].value = alter(t, members[at].value)
	}
	return members
}

func TestSpellingOfJSONDoesNotCountAndMeaningDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := values(3).Draw(t, "value")
		first, second := []byte(spell(t, value)), []byte(spell(t, value))
		a, b := fingerprint.Compute(request("application/json", first)), fingerprint.Compute(request("application/json", second))
		if a.Kind != fingerprint.KindJSON || a != b {
			t.Fatalf("%q is %s, %q is %s: two spellings of one value", first, a.Hex(), second, b.Hex())
		}
		kind, got := fingerprint.Canonical("application/json", first, nil)
		wantKind, want := referenceCanonical("application/json", first, nil)
		if diff := cmp.Diff(string(kind)+string(got), string(wantKind)+string(want)); diff != "" {
			t.Fatalf("canonical form of %q (-got +want):\n%s", first, diff)
		}
		altered := []byte(spell(t, alter(t, value)))
		if c := fingerprint.Compute(request("application/json", altered)); c.Sum == a.Sum {
			t.Fatalf("%q and %q share a fingerprint", first, altered)
		}
	})
}

func TestIgnoredMembersDoNotCountAndOthersDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := values(3).Draw(t, "value")
		pointers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return pointerInto(t, value) }), 0, 3).Draw(t, "pointers")
		body := []byte(spell(t, value))
		_, got := fingerprint.Canonical("application/json", body, pointers)
		_, want := referenceCanonical("application/json", body, pointers)
		if diff := cmp.Diff(string(got), string(want)); diff != "" {
			t.Fatalf("canonical form of %q without %q (-got +want):\n%s", body, pointers, diff)
		}
	})
}

// pointerInto points somewhere into a value, or just beside.
func pointerInto(t *rapid.T, value any) string {
	var b strings.Builder
	for rapid.IntRange(0, 9).Draw(t, "stop") > 0 {
		switch v := value.(type) {
		case []any:
			at := rapid.IntRange(0, len(v)).Draw(t, "element")
			fmt.Fprintf(&b, "/%d", at)
			if at == len(v) {
				return b.String()
			}
			value = v[at]
		case object:
			at := rapid.IntRange(0, len(v)).Draw(t, "member")
			if at == len(v) {
				return b.String() + "/absent"
			}
			b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(v[at].name))
			value = v[at].value
		default:
			return b.String() + rapid.SampledFrom([]string{"", "/", "/0"}).Draw(t, "beyond")
		}
	}
	return b.String()
}

func TestWholeNumberAgreesWithBigRational(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := spellNumeral(t, numerals().Draw(t, "numeral"))
		want, _ := new(big.Rat).SetString(s)
		wantOK := want.IsInt() && want.Num().IsInt64()
		n, ok := fingerprint.WholeNumber(s)
		if ok != wantOK || ok && n != want.Num().Int64() {
			t.Fatalf("WholeNumber(%q): got %d, %t, want %s, %t", s, n, ok, want.RatString(), wantOK)
		}
	})
}

// Fields that are not framed by their lengths would let bytes move from one to the next.
func TestFieldsDoNotRunTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func() fingerprint.Request {
			word := rapid.StringMatching(`[AB]{0,3}`)
			return fingerprint.Request{
				Method: word.Draw(t, "method"),
				Path:   word.Draw(t, "path"),
				Body:   binary.BigEndian.AppendUint16(nil, rapid.Uint16Range(0, 3).Draw(t, "body")),
			}
		}
		a, b := draw(), draw()
		same := a.Method == b.Method && a.Path == b.Path && string(a.Body) == string(b.Body)
		if got := fingerprint.Compute(a).Sum == fingerprint.Compute(b).Sum; got != same {
			t.Fatalf("%v and %v: same fingerprint %t, same request %t", a, b, got, same)
		}
	})
}
