package auth

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base32"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// rotateAfter is how old the newest signing key gets before another is made.
	rotateAfter = 30 * 24 * time.Hour
	// publishedFor is how long a key is published before it signs.
	publishedFor = 10 * time.Minute
	// retiredAfter is how long after its successor has begun to sign a key
	// still verifies: longer than any token lives.
	retiredAfter = TokenLife + 2*time.Minute
	// keptKeys is how many keys of the database are looked at.
	keptKeys = 16

	maxFileKeys = 8
)

// signingKey is one key pair.
type signingKey struct {
	kid       string
	public    ed25519.PublicKey
	private   ed25519.PrivateKey
	signsFrom time.Time // zero: always
}

// kidOf names a key after its public half: the same on every process.
func kidOf(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding).EncodeToString(sum[:idRandomBytes])
}

// keyRing is the keys of one moment: signer signs, all verify.
type keyRing struct {
	signer *signingKey
	keys   []*signingKey // the newest first
}

func (r *keyRing) find(kid string) *signingKey {
	for _, k := range r.keys {
		if k.kid == kid {
			return k
		}
	}
	return nil
}

// KeySource gives the keys that sign tokens; they may change while it is used.
type KeySource interface {
	ring(ctx context.Context) (*keyRing, error)
}

// fileKeys are keys that somebody else keeps.
type fileKeys struct{ fixed *keyRing }

func (f fileKeys) ring(context.Context) (*keyRing, error) { return f.fixed, nil }

// KeysFromPEM reads Ed25519 keys in PKCS #8, PEM encoded, from a mounted file.
// The first one signs, all verify: a rotation puts the new key second, then
// first, and takes the old one away an hour later. The error says what is wrong
// and nothing of a key.
func KeysFromPEM(text []byte) (KeySource, error) {
	ring := &keyRing{}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		private, isEd25519 := parsed.(ed25519.PrivateKey)
		if err != nil || !isEd25519 {
			return nil, errors.New("holds a key that is not Ed25519 in PKCS #8: make one with openssl genpkey -algorithm ed25519")
		}
		public, _ := private.Public().(ed25519.PublicKey)
		ring.keys = append(ring.keys, &signingKey{kid: kidOf(public), public: public, private: private})
	}
	if len(ring.keys) == 0 || len(ring.keys) > maxFileKeys {
		return nil, fmt.Errorf("holds %d keys: give 1 to %d, PEM encoded", len(ring.keys), maxFileKeys)
	}
	ring.signer = ring.keys[0]
	return fileKeys{ring}, nil
}

// sealer encrypts signing keys under a key from the environment.
type sealer struct{ aead cipher.AEAD }

func newSealer(secret [32]byte) (sealer, error) {
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCM(block)
	return sealer{aead}, err
}

func (s sealer) seal(k *signingKey) []byte {
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails (package crypto/rand)
	return s.aead.Seal(nonce, nonce, k.private.Seed(), []byte(k.kid))
}

func (s sealer) open(kid string, sealed []byte) (ed25519.PrivateKey, error) {
	size := s.aead.NonceSize()
	if len(sealed) < size {
		return nil, errors.New("is cut off")
	}
	seed, err := s.aead.Open(nil, sealed[:size], sealed[size:], []byte(kid))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, errors.New("cannot be opened: it was sealed under another ONCEWARD_JWT_SECRET; set that one again, or end its tokens with `api token reset`")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// ringOf takes the keys of the database, the newest first, by its clock.
func ringOf(keys []*signingKey, now time.Time) *keyRing {
	ring := &keyRing{}
	for i, k := range keys {
		if ring.signer == nil && !k.signsFrom.After(now) {
			ring.signer = k
		}
		// The successor is the next newer one; it stands before.
		if i > 0 && now.Sub(keys[i-1].signsFrom) > retiredAfter {
			break
		}
		ring.keys = append(ring.keys, k)
	}
	return ring
}

func newSigningKey() (*signingKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a signing key: %w", err)
	}
	return &signingKey{kid: kidOf(public), public: public, private: private}, nil
}

// newestFirst orders keys by when they sign.
func newestFirst(keys []*signingKey) {
	slices.SortFunc(keys, func(a, b *signingKey) int {
		if c := b.signsFrom.Compare(a.signsFrom); c != 0 {
			return c
		}
		return compareText(a.kid, b.kid)
	})
}
