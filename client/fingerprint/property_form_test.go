package fingerprint_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onceward/onceward/client/fingerprint"
)

func TestSpellingOfFormsDoesNotCountAndMeaningDoes(t *testing.T) {
	t.Parallel()
	words := rapid.StringOfN(rapid.RuneFrom([]rune("abAB[. =&+%é_")), 0, 3, -1)
	rapid.Check(t, func(t *rapid.T) {
		pairs := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) [2]string {
			return [2]string{words.Draw(t, "name"), words.Draw(t, "value")}
		}), 0, 6).Draw(t, "pairs")
		first, second := spellForm(t, pairs), spellForm(t, pairs)
		got := fingerprint.CanonicalQuery(first)
		if other := fingerprint.CanonicalQuery(second); got != other {
			t.Fatalf("%q becomes %q, %q becomes %q: two spellings of one form", first, got, second, other)
		}
		if want := referenceForm(first); got != want {
			t.Fatalf("%q: got %q, want %q", first, got, want)
		}
		// Stable by name: what a reader of one name gets is the same before and after.
		for _, p := range pairs {
			if before, after := valuesOf(pairs, p[0]), valuesOf(readForm(got), p[0]); !slices.Equal(before, after) {
				t.Fatalf("%q: %q reads as %q, after canonicalisation as %q", first, p[0], before, after)
			}
		}
		altered := slices.Clone(pairs)
		if len(altered) == 0 {
			altered = append(altered, [2]string{})
		} else {
			at := rapid.IntRange(0, len(altered)-1).Draw(t, "pair")
			altered[at][rapid.IntRange(0, 1).Draw(t, "name or value")] += "x"
		}
		if other := spellForm(t, altered); fingerprint.CanonicalQuery(other) == got {
			t.Fatalf("%q and %q share a canonical form", first, other)
		}
	})
}

// spellForm writes a form in one of the ways that its readers take for the same.
func spellForm(t *rapid.T, pairs [][2]string) string {
	var b strings.Builder
	for _, p := range pairs {
		b.WriteString(strings.Repeat("&", rapid.IntRange(1, 2).Draw(t, "ampersands")))
		for i, s := range p {
			if i == 1 && (s != "" || p[0] == "" || rapid.Bool().Draw(t, "equals sign")) {
				b.WriteByte('=')
			}
			for _, c := range []byte(s) {
				switch way := rapid.IntRange(0, 2).Draw(t, "way"); {
				case c == ' ' && way == 0:
					b.WriteByte('+')
				case strings.IndexByte("%&+=", c) >= 0 || way == 1:
					fmt.Fprintf(&b, rapid.SampledFrom([]string{"%%%02x", "%%%02X"}).Draw(t, "hex"), c)
				default:
					b.WriteByte(c)
				}
			}
		}
	}
	return b.String()
}

// readForm reads a canonical form.
func readForm(form string) [][2]string {
	var pairs [][2]string
	for segment := range strings.SplitSeq(form, "&") {
		name, value, _ := strings.Cut(segment, "=")
		pairs = append(pairs, [2]string{unescape(name), unescape(value)})
	}
	return pairs
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		var c byte
		if _, err := fmt.Sscanf(s[i+1:i+3], "%02X", &c); err != nil {
			panic(err)
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String()
}

func valuesOf(pairs [][2]string, name string) []string {
	var all []string
	for _, p := range pairs {
		if p[0] == name {
			all = append(all, p[1])
		}
	}
	return all
}

func TestBoundaryAndHeaderOrderDoNotCountAndPartsDo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) part {
			return part{
				Lines:   rapid.SliceOfNDistinct(rapid.StringMatching(`[A-C]{1,2}-?: ?[a-c\-:]{0,3}`), 1, 4, headerName).Draw(t, "lines"),
				Content: rapid.StringMatching(`[ab\r\n-]{0,6}`).Draw(t, "content"),
			}
		}), 1, 3).Draw(t, "parts")
		contentType, first := spellMultipart(t, parts)
		a := fingerprint.Compute(request(contentType, []byte(first)))
		contentType, second := spellMultipart(t, parts)
		b := fingerprint.Compute(request(contentType, []byte(second)))
		if a.Kind != fingerprint.KindMultipart || a != b {
			t.Fatalf("%q is %s, %q is %s: two spellings of one body", first, a.Hex(), second, b.Hex())
		}
		altered := slices.Clone(parts)
		at := rapid.IntRange(0, len(parts)-1).Draw(t, "part")
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			altered[at].Content += "x"
		case 1:
			altered[at].Lines = append(slices.Clone(altered[at].Lines), "X:")
		case 2:
			altered = append(altered, part{Lines: []string{"A:"}})
		default:
			altered = slices.Insert(altered, at, part{Lines: []string{"X:"}})
		}
		contentType, third := spellMultipart(t, altered)
		if c := fingerprint.Compute(request(contentType, []byte(third))); c.Kind != fingerprint.KindMultipart || c.Sum == a.Sum {
			t.Fatalf("%q and %q (%s) share a fingerprint", first, third, c.Kind)
		}
	})
}

func headerName(line string) string {
	name, _, _ := strings.Cut(line, ":")
	return name
}

// spellMultipart writes parts under some boundary that does not occur in them.
func spellMultipart(t *rapid.T, parts []part) (contentType, body string) {
	boundary := rapid.StringMatching(`[0-9X'+_.]{1,10}`).Draw(t, "boundary")
	var b strings.Builder
	b.WriteString(rapid.SampledFrom([]string{"", "\r\n"}).Draw(t, "start"))
	for _, p := range parts {
		b.WriteString("--" + boundary + "\r\n")
		for _, line := range rapid.Permutation(p.Lines).Draw(t, "header order") {
			if rapid.Bool().Draw(t, "lower case") {
				name, value, _ := strings.Cut(line, ":")
				line = strings.ToLower(name) + ":\t" + value + " "
			}
			b.WriteString(line + "\r\n")
		}
		b.WriteString("\r\n" + p.Content + "\r\n")
	}
	b.WriteString("--" + boundary + "--" + rapid.SampledFrom([]string{"", "\r\n"}).Draw(t, "end"))
	quote := rapid.SampledFrom([]string{"", `"`}).Draw(t, "quote")
	return "multipart/form-data; boundary=" + quote + boundary + quote, b.String()
}
