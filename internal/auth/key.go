package auth

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/big"
	"strings"
)

// An API key is `owk_<id>_<secret><checksum>`: 16 characters of lower-case
// base 32 that name the credential, 43 of base 62 that are 32 random bytes, and
// 6 of base 62 that are the CRC-32 (IEEE) of all before them. The fixed form
// and the checksum let a scanner find a leaked key and let us refuse a mistyped
// one without asking the database.
const (
	keyPrefix     = "owk_"
	idRandomBytes = 10
	idLength      = 16 // base 32 of idRandomBytes

	secretRandomBytes = 32
	secretLength      = 43 // 62^43 > 2^256
	checksumLength    = 6  // 62^6 > 2^32

	idEnd     = len(keyPrefix) + idLength
	secretEnd = idEnd + 1 + secretLength

	// KeyLength is the length of every API key, in bytes.
	KeyLength = secretEnd + checksumLength

	idAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	base62     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	redacted = "[redacted]"
)

// errKeyForm says that a text is no API key; what is wrong with it is nobody's
// business.
var errKeyForm = errors.New("not an API key")

// Key is an API key. Only Reveal shows it: printing or logging one shows the
// credential's id.
type Key struct {
	text string
}

// NewKey makes a key for a new credential from 42 bytes of random, which is
// crypto/rand's reader but in tests. The error is random's.
func NewKey(random io.Reader) (Key, error) {
	var seed [idRandomBytes + secretRandomBytes]byte
	if _, err := io.ReadFull(random, seed[:]); err != nil {
		return Key{}, fmt.Errorf("read random bytes for an API key: %w", err)
	}
	id := base32.NewEncoding(idAlphabet).WithPadding(base32.NoPadding).EncodeToString(seed[:idRandomBytes])
	text := keyPrefix + id + "_" + encodeSecret(seed[idRandomBytes:])
	return Key{text: text + checksum(text)}, nil
}

// ParseKey reads a key as it was presented, and checks its form and checksum:
// nothing is looked up for a text that fails. The error is the same for all.
func ParseKey(text string) (Key, error) {
	if len(text) != KeyLength || text[:len(keyPrefix)] != keyPrefix || text[idEnd] != '_' ||
		!consistsOf(text[len(keyPrefix):idEnd], idAlphabet) ||
		!consistsOf(text[idEnd+1:], base62) ||
		text[secretEnd:] != checksum(text[:secretEnd]) {
		return Key{}, errKeyForm
	}
	return Key{text: text}, nil
}

// ParseCredentialID reads the id of a credential, as it stands in an address.
func ParseCredentialID(text string) (id CredentialID, ok bool) {
	if len(text) != idLength || !consistsOf(text, idAlphabet) {
		return "", false
	}
	return CredentialID(text), true
}

// ID is the public part: it names the credential and may be logged.
func (k Key) ID() CredentialID {
	if k.text == "" {
		return ""
	}
	return CredentialID(k.text[len(keyPrefix):idEnd])
}

// Reveal is the key itself, for the one answer that shows it.
func (k Key) Reveal() string { return k.text }

// digest is what is stored of a key: its SHA-256. A plain hash will do where
// the secret has 256 random bits: there is nothing to guess.
func (k Key) digest() [sha256.Size]byte { return sha256.Sum256([]byte(k.text)) }

// Format keeps the secret out of every verb of fmt.
func (k Key) Format(state fmt.State, _ rune) {
	_, _ = io.WriteString(state, k.redactedText())
}

// LogValue keeps the secret out of slog.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.redactedText()) }

func (k Key) redactedText() string { return keyPrefix + string(k.ID()) + "_" + redacted }

func checksum(text string) string {
	var digits [checksumLength]byte
	sum := crc32.ChecksumIEEE([]byte(text))
	for i := checksumLength - 1; i >= 0; i-- {
		digits[i] = base62[sum%uint32(len(base62))]
		sum /= uint32(len(base62))
	}
	return string(digits[:])
}

// encodeSecret writes 32 bytes as one number in base 62, in secretLength digits.
func encodeSecret(secret []byte) string {
	var digits [secretLength]byte
	rest, digit, base := new(big.Int).SetBytes(secret), new(big.Int), big.NewInt(int64(len(base62)))
	for i := secretLength - 1; i >= 0; i-- {
		rest.DivMod(rest, base, digit)
		digits[i] = base62[digit.Int64()]
	}
	return string(digits[:])
}

func consistsOf(text, alphabet string) bool {
	for i := range len(text) {
		if strings.IndexByte(alphabet, text[i]) < 0 {
			return false
		}
	}
	return true
}
