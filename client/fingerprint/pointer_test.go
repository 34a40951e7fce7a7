package fingerprint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/client/fingerprint"
)

func TestIgnoredMembersAreRemoved(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		body     string
		pointers []string
		want     string // empty: the body is raw
	}{
		{"a member", `{"a":1,"b":2}`, []string{"/a"}, `{"b":2}`},
		{"the only member", `{"a":1}`, []string{"/a"}, `{}`},
		{"the first, middle and last of unsorted members", `{"c":1,"a":2,"e":3,"b":4,"d":5}`, []string{"/a", "/c", "/e"}, `{"b":4,"d":5}`},
		{"all members", `{"b":1,"a":2}`, []string{"/a", "/b"}, `{}`},
		{"a member that is absent", `{"a":1}`, []string{"/b"}, `{"a":1}`},
		{"a member with an object in it", `{"a":{"b":[1,{"c":2}]},"d":3}`, []string{"/a"}, `{"d":3}`},
		{"a member of a member", `{"a":{"b":1,"c":2}}`, []string{"/a/b"}, `{"a":{"c":2}}`},
		{"a member and a member inside it", `{"a":{"b":1},"c":2}`, []string{"/a/b", "/a"}, `{"c":2}`},
		{"a member and a member inside it, in the other order", `{"a":{"b":1},"c":2}`, []string{"/a", "/a/b"}, `{"c":2}`},
		{"the same member twice", `{"a":1,"b":2}`, []string{"/a", "/a"}, `{"b":2}`},
		{"a name on its own level only", `{"a":1,"b":{"a":2}}`, []string{"/a"}, `{"b":{"a":2}}`},
		{"the same path after a sibling", `{"x":{"b":1},"a":{"b":1}}`, []string{"/a/b"}, `{"a":{},"x":{"b":1}}`},
		{"a sibling that comes after", `{"a":{"b":1},"b":1,"x":{"b":1}}`, []string{"/a/b"}, `{"a":{},"b":1,"x":{"b":1}}`},
		{"a prefix of a name", `{"ab":1}`, []string{"/a"}, `{"ab":1}`},
		{"a name and more", `{"a":1}`, []string{"/ab"}, `{"a":1}`},
		{"a name and more, inside a member", `{"a":{"b":1}}`, []string{"/axb", "/aab"}, `{"a":{"b":1}}`},
		{"a name with a slash, unescaped in the pointer", `{"a/b":1}`, []string{"/a/b"}, `{"a/b":1}`},
		{"another letter case", `{"A":1}`, []string{"/a"}, `{"A":1}`},
		{"the empty name", `{"":1,"a":2}`, []string{"/"}, `{"a":2}`},
		{"the empty name inside the empty name", `{"":{"":1,"a":2}}`, []string{"//"}, `{"":{"a":2}}`},
		{"the empty name inside a member", `{"a":{"":1},"b":2}`, []string{"/a/"}, `{"a":{},"b":2}`},
		{"a name with a slash", `{"a/b":1,"a":{"b":2}}`, []string{"/a~1b"}, `{"a":{"b":2}}`},
		{"a name with a tilde", `{"a~b":1,"c":2}`, []string{"/a~0b"}, `{"c":2}`},
		{"a name like an escape", `{"~1":1,"/":2}`, []string{"/~01"}, `{"/":2}`},
		{"a name with a percent sign", `{"%61":1,"a":2}`, []string{"/%61"}, `{"a":2}`},
		{"an escaped name", `{"\u0061":1,"b":2}`, []string{"/a"}, `{"b":2}`},
		{"a name that has to be escaped", `{"a\nb":1,"c":2}`, []string{"/a\nb"}, `{"c":2}`},
		{"a name beyond U+FFFF", `{"\ud83d\ude00":1,"c":2}`, []string{"/😀"}, `{"c":2}`},
		{"a member of an element", `{"a":[{"b":1,"c":2},{"b":3}]}`, []string{"/a/0/b"}, `{"a":[{"c":2},{"b":3}]}`},
		{"a member of a later element", `[0,[],{"b":1}]`, []string{"/2/b"}, `[0,[],{}]`},
		{"a member of element 10", `[0,1,2,3,4,5,6,7,8,9,{"b":1}]`, []string{"/10/b", "/1/b"}, `[0,1,2,3,4,5,6,7,8,9,{}]`},
		{"members of several elements", `[{"b":1},{"b":2},{"b":3}]`, []string{"/0/b", "/2/b"}, `[{},{"b":2},{}]`},
		{"an element", `[1,2]`, []string{"/0"}, `[1,2]`},
		{"an element that is an object", `{"a":[{"b":1}]}`, []string{"/a/0"}, `{"a":[{"b":1}]}`},
		{"the element after the last", `{"a":[1]}`, []string{"/a/-", "/a/1"}, `{"a":[1]}`},
		{"an index with a leading zero", `[{"b":1},{"b":2}]`, []string{"/00/b", "/01/b"}, `[{"b":1},{"b":2}]`},
		{"an index with a sign", `[{"b":1}]`, []string{"/+0/b", "/-0/b"}, `[{"b":1}]`},
		{"an empty index", `[{"b":1}]`, []string{"//b"}, `[{"b":1}]`},
		{"an index as a name", `{"0":1,"1":2}`, []string{"/0"}, `{"1":2}`},
		{"a path through a scalar", `{"a":1}`, []string{"/a/b"}, `{"a":1}`},
		{"the whole document", `{"a":1}`, []string{""}, `{"a":1}`},
		{"anything in a scalar document", `1`, []string{"", "/", "/a"}, `1`},
		{"pointers without a leading slash", `{"a":1}`, []string{"a", "#/a", " /a"}, `{"a":1}`},
		{"pointers with a bad escape", `{"a~":1,"a~2":1,"a":{"~":1}}`, []string{"/a~", "/a~2", "/a/~"}, `{"a":{"~":1},"a~":1,"a~2":1}`},
		{"a bad pointer beside a good one", `{"a":1,"b":2}`, []string{"a", "/b"}, `{"a":1}`},
		{"a name twice, both ignored", `{"a":1,"a":2,"b":3}`, []string{"/a"}, ""},
		{"a name twice inside what is ignored", `{"a":{"x":1,"x":2},"b":3}`, []string{"/a"}, ""},
		{"an endless exponent in what is ignored", `{"a":1e1000000000000000}`, []string{"/a"}, ""},
		{"bad UTF-8 in what is ignored", "{\"a\":\"\xFF\"}", []string{"/a"}, ""},
		{"129 levels in what is ignored", `{"a":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, []string{"/a"}, ""},
		{"128 levels in what is ignored", `{"a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`, []string{"/a"}, `{}`},
		{"bad syntax after what is ignored", `{"a":1,"b":}`, []string{"/a"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantKind, want := fingerprint.KindJSON, tt.want
			if want == "" {
				wantKind, want = fingerprint.KindRaw, tt.body
			}
			kind, got := fingerprint.Canonical("application/json", []byte(tt.body), tt.pointers)
			if kind != wantKind {
				t.Errorf("got kind %s, want %s", kind, wantKind)
			}
			if diff := cmp.Diff(string(got), want); diff != "" {
				t.Errorf("canonical body (-got +want):\n%s", diff)
			}
		})
	}
}

func TestIgnorePointersLeaveOtherKindsAlone(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"application/x-www-form-urlencoded", "text/plain"} {
		body := []byte("b=1&a=2")
		with, without := request(contentType, body), request(contentType, body)
		with.IgnorePointers = []string{"/a"}
		if fingerprint.Compute(with) != fingerprint.Compute(without) {
			t.Errorf("%s: a pointer changed the fingerprint", contentType)
		}
	}
}

// The policy of a tenant has at most 32 pointers, but nothing here depends on that.
func TestThousandPointersRemoveThousandMembers(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	pointers := make([]string, 0, 1000)
	body.WriteString(`{"kept":1`)
	for i := range 1000 {
		fmt.Fprintf(&body, `,"%d":{"%d":{}}`, i, i)
		pointers = append(pointers, fmt.Sprintf("/%d", i))
	}
	body.WriteString("}")
	if _, got := fingerprint.Canonical("application/json", []byte(body.String()), pointers); string(got) != `{"kept":1}` {
		t.Errorf("got %s, want %s", got, `{"kept":1}`)
	}
}

func TestValidPointerIsTheSyntaxOfRFC6901(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"":          true,
		"/":         true,
		"//":        true,
		"/a":        true,
		"/a/0/b":    true,
		"/~0":       true,
		"/~1":       true,
		"/~01":      true,
		"/~1~0/~0a": true,
		"/é 😀%\"\\": true,
		"/\x00":     true,
		"/#":        true,
		"a":         false,
		"a/b":       false,
		" /a":       false,
		"#":         false,
		"#/a":       false,
		"~0":        false,
		"/~":        false,
		"/a~":       false,
		"/~/a":      false,
		"/~2":       false,
		"/~~0":      false,
		"/~0~":      false,
		"/\xFF":     false,
	}
	for pointer, want := range tests {
		if got := fingerprint.ValidPointer(pointer); got != want {
			t.Errorf("ValidPointer(%q): got %t, want %t", pointer, got, want)
		}
	}
}
