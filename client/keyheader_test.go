package client

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheKeyOfARequest(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	for _, tc := range []struct {
		name   string
		values []string
		want   string
		code   Code
	}{
		{"bare", []string{"8e03978e-40d5"}, "8e03978e-40d5", ""},
		{"in quotes, as the draft has it", []string{`"8e03978e-40d5"`}, "8e03978e-40d5", ""},
		{"with escapes", []string{`"a \"b\" \\ c"`}, `a "b" \ c`, ""},
		{"with a comma in quotes", []string{`"order,42,charge"`}, "order,42,charge", ""},
		{"blanks around it", []string{" \t12345678 "}, "12345678", ""},
		{"255 characters", []string{long}, long, ""},
		{"255 characters in quotes", []string{`"` + long + `"`}, long, ""},
		{"none", nil, "", ErrMissingKey},
		{"empty", []string{""}, "", ErrMissingKey},
		{"empty quotes", []string{`""`}, "", ErrMissingKey},
		{"two", []string{"12345678", "12345678"}, "", ErrInvalidKey},
		{"two that were joined", []string{"12345678, 87654321"}, "", ErrInvalidKey},
		{"two in quotes that were joined", []string{`"12345678", "87654321"`}, "", ErrInvalidKey},
		{"quotes that do not end", []string{`"12345678`}, "", ErrInvalidKey},
		{"an escape that is none", []string{`"1234\5678"`}, "", ErrInvalidKey},
		{"an escape of nothing", []string{`"12345678\`}, "", ErrInvalidKey},
		{"something after the quotes", []string{`"12345678";a=1`}, "", ErrInvalidKey},
		{"short", []string{"1234567"}, "", ErrInvalidKey},
		{"short in quotes", []string{`"1234567"`}, "", ErrInvalidKey},
		{"256 characters", []string{long + "k"}, "", ErrInvalidKey},
		{"a letter that is not ASCII", []string{"schlüssel"}, "", ErrInvalidKey},
		{"a space first, in quotes", []string{`" 12345678"`}, "", ErrInvalidKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range []string{"Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"} {
				h := http.Header{}
				if tc.values != nil {
					h[name] = tc.values
				}
				key, refused := keyOf(h)
				if refused == nil {
					refused = &Error{}
				}
				if key != tc.want || refused.Code != tc.code {
					t.Errorf("%s: %q, %v; want %q and the code %q", name, key, refused, tc.want, string(tc.code))
				}
			}
		})
	}
}
