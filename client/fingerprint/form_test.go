package fingerprint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client/fingerprint"
)

// formTest is a form and its canonical form.
type formTest struct{ name, form, want string }

func formTests() []formTest {
	return []formTest{
		{"empty", "", ""},
		{"empty segments", "&&a=1&&b=2&", "a=1&b=2"},
		{"only empty segments", "&&", ""},
		{"split at the first equals sign", "a=b=c==", "a=b%3Dc%3D%3D"},
		{"no equals sign", "a", "a="},
		{"empty value", "a=", "a="},
		{"empty name", "=1", "=1"},
		{"equals sign alone", "=", "="},
		{"empty names keep their order", "=&=1&=", "=&=1&="},
		{"escaped equals sign is no separator", "a%3Db=c", "a%3Db=c"},
		{"escaped ampersand is no separator", "a=1%26b=2", "a=1%26b%3D2"},
		{"semicolon is no separator", "b=1;a=2", "b=1%3Ba%3D2"},
		{"plus is a space", "q=a+b", "q=a%20b"},
		{"escaped plus is a plus", "q=a%2Bb", "q=a%2Bb"},
		{"escapes in either letter case", "q=%c3%A9%C3%a9", "q=%C3%A9%C3%A9"},
		{"needless escapes", "%61=%7E%2d%2E%5F", "a=~-._"},
		{"unreserved bytes stay", "AZaz09-_~=AZaz09-._~", "AZaz09-_~=AZaz09-._~"},
		{"all other bytes are escaped", "a=\x00 !\"#$'()*,/:;<>?@[\\]^`{|}\x7F\x80\xFF", "a=%00%20%21%22%23%24%27%28%29%2A%2C%2F%3A%3B%3C%3E%3F%40%5B%5C%5D%5E%60%7B%7C%7D%7F%80%FF"},
		{"invalid escapes stay as they are", "a=%&b=%4&c=%zz&d=%4z&e=%%41", "a=%25&b=%254&c=%25zz&d=%254z&e=%25A"},
		{"an escape does not reach over a separator", "a=%4&1=b", "1=b&a=%254"},
		{"an escape does not reach over an equals sign", "%4=1", "%254=1"},
		{"decoded once", "a=%2541", "a=%2541"},
		{"invalid UTF-8", "a=%FF%C3", "a=%FF%C3"},
		{"sorted by name", "c=1&a=2&b=3", "a=2&b=3&c=1"},
		{"sorted by the decoded name", "b=1&%61=2", "a=2&b=1"},
		{"sorted by bytes, not by their escapes", "%C3%A9=1&z=2&!=3&0=4", "%21=3&0=4&z=2&%C3%A9=1"},
		{"shorter name first", "ab=1&a=2", "a=2&ab=1"},
		{"not by value", "a=2&a=1&a=3", "a=2&a=1&a=3"},
		{"repeated names keep their order", "b=2&a=2&b=1&a=1&c=0&b=3", "a=2&a=1&b=2&b=1&b=3&c=0"},
		{"names alike in their first eight bytes", "12345678b=1&12345678a=2&12345678=3", "12345678=3&12345678a=2&12345678b=1"},
		{"names alike but for zero bytes", "a%00%00=1&a=2&a%00=3", "a=2&a%00=3&a%00%00=1"},
		{"bracket in a name", "b=1&a[]=2", "b=1&a%5B%5D=2"},
		{"escaped bracket in a name", "b=1&a%5b=2", "b=1&a%5B=2"},
		{"closing bracket alone sorts", "b=1&a]=2", "a%5D=2&b=1"},
		{"dot in a name", "b.x=1&a=2", "b.x=1&a=2"},
		{"escaped dot in a name", "b%2Ex=1&a=2", "b.x=1&a=2"},
		{"plus in a name", "b+x=1&a=2", "b%20x=1&a=2"},
		{"space in a name", "b=1&a x=2", "b=1&a%20x=2"},
		{"escaped space in a name", "b%20=1&a=2", "b%20=1&a=2"},
		{"bracket, dot and space in a value sort", "b=[.+&a=1", "a=1&b=%5B.%20"},
		{"other marks in a name sort", "b-x_y~z=1&a:c/d=2", "a%3Ac%2Fd=2&b-x_y~z=1"},
		{"tab in a name sorts", "b%09=1&a=2", "a=2&b%09=1"},
		{"names that differ in case", "b=1&A=1&a=2", "b=1&A=1&a=2"},
		{"names that differ in the case of the last letter", "b=1&Z=1&a=0&z=2", "b=1&Z=1&a=0&z=2"},
		{"names that differ in case, apart", "b=1&ID=1&aa=0&Id=3&a=2", "b=1&ID=1&aa=0&Id=3&a=2"},
		{"names that differ in case, one escaped", "b=1&%41=1&a=2", "b=1&A=1&a=2"},
		{"names that differ in case after the eighth byte", "b=1&12345678X=1&12345678x=2", "b=1&12345678X=1&12345678x=2"},
		{"one name in capitals, repeated", "b=1&A=2&A=1", "A=2&A=1&b=1"},
		{"names in different cases that differ in more", "b=1&A=2&ab=3", "A=2&ab=3&b=1"},
		{"names that differ in the case of other letters", "b=1&%C3%89=1&%C3%A9=2&a=3", "a=3&b=1&%C3%89=1&%C3%A9=2"},
		{"names that differ by the bit of letter case alone", "b=1&_=2&%7F=3&@=4&`=5&a=6", "%40=4&_=2&%60=5&a=6&b=1&%7F=3"},
	}
}

func TestFormAndQueryShareOneCanonicalForm(t *testing.T) {
	t.Parallel()
	for _, tt := range formTests() {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(fingerprint.CanonicalQuery(tt.form), tt.want); diff != "" {
				t.Errorf("query (-got +want):\n%s", diff)
			}
			result := fingerprint.Compute(fingerprint.Request{Query: tt.form})
			if want := fingerprint.Compute(fingerprint.Request{Query: tt.want}); result != want {
				t.Errorf("the canonical form has another fingerprint: got %s, want %s", result.Hex(), want.Hex())
			}
			if tt.form == "" {
				return
			}
			kind, got := fingerprint.Canonical("application/x-www-form-urlencoded", []byte(tt.form), nil)
			if kind != fingerprint.KindForm {
				t.Errorf("got kind %s, want form", kind)
			}
			if diff := cmp.Diff(string(got), tt.want); diff != "" {
				t.Errorf("body (-got +want):\n%s", diff)
			}
		})
	}
}

// A sort that is stable only while it is short would pass the tests above.
func TestRepeatedNamesOfALongFormKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var form strings.Builder
	for i := range 500 {
		form.WriteString("&" + string("cab"[i%3]) + "=" + strings.Repeat("x", i))
	}
	if got, want := fingerprint.CanonicalQuery(form.String()), referenceForm(form.String()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
