package auth

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

var keyForm = regexp.MustCompile(`^owk_[a-z2-7]{16}_[0-9A-Za-z]{49}$`)

func mustKey(tb testing.TB, random io.Reader) Key {
	tb.Helper()
	key, err := NewKey(random)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// repeated reads the same byte for ever: the smallest and the largest secret.
type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestAKeyHasTheSameFormWhateverItsRandomBytesAre(t *testing.T) {
	t.Parallel()
	for name, random := range map[string]io.Reader{
		"all zero": repeated(0), "all one": repeated(0xff), "the least that fills no leading digit": repeated(1), "random": rand.Reader,
	} {
		key := mustKey(t, random)
		if !keyForm.MatchString(key.Reveal()) || len(key.Reveal()) != KeyLength {
			t.Errorf("%s: %q is not of the form", name, key.Reveal())
		}
		parsed, err := ParseKey(key.Reveal())
		if err != nil || parsed != key {
			t.Errorf("%s: it is not read back: %v", name, err)
		}
		if !strings.HasPrefix(key.Reveal(), "owk_"+string(key.ID())+"_") {
			t.Errorf("%s: id %q", name, key.ID())
		}
	}
}

// The form is a promise to scanners for leaked keys, and to every key that has
// been issued. The checksums here were computed by another program
// (python: zlib.crc32).
func TestTheFormOfAKeyNeverChanges(t *testing.T) {
	t.Parallel()
	for random, want := range map[repeated]string{
		0:    "owk_aaaaaaaaaaaaaaaa_00000000000000000000000000000000000000000002GKxuJ",
		0xff: "owk_7777777777777777_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp11a46Su",
	} {
		if got := mustKey(t, random).Reveal(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestEveryMistypedCharacterIsCaught(t *testing.T) {
	t.Parallel()
	text := mustKey(t, rand.Reader).Reveal()
	for i := range len(text) {
		for c := byte(0); c < 128; c++ {
			if c == text[i] {
				continue
			}
			typo := text[:i] + string(rune(c)) + text[i+1:]
			if _, err := ParseKey(typo); err == nil {
				t.Fatalf("character %d as %q passes", i, c)
			}
		}
	}
	for i := range len(text) - 1 {
		if text[i] == text[i+1] {
			continue
		}
		swapped := text[:i] + string([]byte{text[i+1], text[i]}) + text[i+2:]
		if _, err := ParseKey(swapped); err == nil {
			t.Fatalf("characters %d and %d exchanged pass", i, i+1)
		}
	}
}

func TestTextThatIsNoKeyIsRefused(t *testing.T) {
	t.Parallel()
	text := mustKey(t, rand.Reader).Reveal()
	for name, bad := range map[string]string{
		"nothing":             "",
		"blanks":              "   ",
		"one byte short":      text[:len(text)-1],
		"one byte long":       text + "0",
		"a blank before":      " " + text,
		"a line feed after":   text + "\n",
		"another prefix":      "owx_" + text[4:],
		"an upper-case id":    text[:4] + strings.ToUpper(text[4:20]) + text[20:],
		"no separator":        text[:20] + "-" + text[21:],
		"its id alone":        text[:21],
		"as many other bytes": strings.Repeat("\x00", KeyLength),
		"a JWT":               "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
	} {
		if key, err := ParseKey(bad); err == nil || key != (Key{}) {
			t.Errorf("%s: passes", name)
		}
	}
}

func TestNoWayOfPrintingAKeyShowsItsSecret(t *testing.T) {
	t.Parallel()
	key := mustKey(t, rand.Reader)
	secret := key.Reveal()[idEnd+1:]
	var printed bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&printed, verb+"\n", key)
		fmt.Fprintf(&printed, verb+"\n", &key)
		fmt.Fprintf(&printed, verb+"\n", struct{ K Key }{key})
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
		slog.New(handler).Info("issued", "key", key, "in", struct{ K Key }{key}, "at", &key)
	}
	if err := json.NewEncoder(&printed).Encode(map[string]any{"key": key}); err != nil {
		t.Fatal(err)
	}
	for _, leak := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)} {
		if strings.Contains(printed.String(), leak) {
			t.Errorf("the secret shows:\n%s", printed.String())
		}
	}
	if !strings.Contains(printed.String(), string(key.ID())) {
		t.Error("the id does not show, which is there to be logged")
	}
}

func TestAKeyIsNotMadeWithoutRandomBytes(t *testing.T) {
	t.Parallel()
	if key, err := NewKey(io.LimitReader(rand.Reader, idRandomBytes+secretRandomBytes-1)); !errors.Is(err, io.ErrUnexpectedEOF) || key != (Key{}) {
		t.Errorf("got a key, %v", err)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, random := range []io.Reader{repeated(0), repeated(0xff), rand.Reader} {
		key, err := NewKey(random)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(key.Reveal())
	}
	f.Add("")
	f.Add("owk_")
	f.Add(strings.Repeat("é", KeyLength/2))
	f.Fuzz(func(t *testing.T, text string) {
		key, err := ParseKey(text)
		if err != nil {
			if key != (Key{}) {
				t.Errorf("%q is refused and yet a key", text)
			}
			return
		}
		if !keyForm.MatchString(text) || key.Reveal() != text || checksum(text[:secretEnd]) != text[secretEnd:] {
			t.Errorf("%q passes", text)
		}
	})
}
