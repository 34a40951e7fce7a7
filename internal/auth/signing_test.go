package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/onceward/onceward/internal/audit"
)

func pemOf(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func newPEM(t *testing.T) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf(t, private)
}

// A rotation of keys in a file: the new one comes second, then first, then
// alone; what the old one has signed is good until it is gone.
func TestKeysOfAFileRotateWithoutAGap(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, key := b.service(t)
	caller := b.mustAuthenticate(t, key)
	with := func(text string) *Tokens {
		t.Helper()
		source, err := KeysFromPEM([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return NewTokens(source, "onceward", audit.NewLog(b.pool))
	}
	old, young := newPEM(t), newPEM(t)
	steps := []*Tokens{with(old), with("# ours\n" + old + young), with(young + old), with(young)}
	var issued []string
	for i, tokens := range steps {
		made, err := tokens.Exchange(t.Context(), caller)
		if err != nil {
			t.Fatal(err)
		}
		issued = append(issued, made.Reveal())
		set, err := tokens.KeySet(t.Context())
		if want := []int{1, 2, 2, 1}[i]; err != nil || len(set) != want {
			t.Errorf("step %d publishes %d keys (%v), want %d", i, len(set), err, want)
		}
	}
	for i, tokens := range steps {
		for j, token := range issued {
			_, err := tokens.verify(t.Context(), token)
			signedByOld := j < 2
			if want := !(i == 0 && !signedByOld) && !(i == 3 && signedByOld); (err == nil) != want {
				t.Errorf("step %d takes the token of step %d: %v, want %v", i, j, err == nil, want)
			}
		}
	}
}

func TestAFileThatHoldsNoKeysIsRefusedWithoutShowingIt(t *testing.T) {
	t.Parallel()
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "no PEM": "a secret text", "another algorithm": pemOf(t, curve), "one good and one of another algorithm": newPEM(t) + pemOf(t, curve),
		"no key in it": "-----BEGIN PRIVATE KEY-----\nYSBzZWNyZXQgdGV4dA==\n-----END PRIVATE KEY-----\n", "too many": strings.Repeat(newPEM(t), maxFileKeys+1),
	} {
		_, err := KeysFromPEM([]byte(text))
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
