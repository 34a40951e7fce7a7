package keys

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/onceward/onceward/internal/tenants"
)

// digestSize is how many bytes of a digest a row keeps, but for the parts of a
// fingerprint.
const digestSize = 16

// inlineFieldBytes is the longest field that is copied before it is hashed. What
// a keyer keeps for the next call stays as small as that, whatever it has hashed.
const inlineFieldBytes = 512

// keyer makes digests under a tenant's secret: HMAC-SHA-256 over a domain and
// fields, each preceded by its length as an unsigned 64-bit big-endian number,
// so that no two lists of fields run together. Whatever is stored about a
// request or a response goes through it: a dump of the database tells nobody
// what was sent.
//
// One keyer serves one goroutine at a time. Making it costs more than a digest,
// so it goes back to the snapshot that it was borrowed from.
type keyer struct {
	mac  hash.Hash
	buf  []byte
	home *sync.Pool
}

// borrow returns a keyer under the tenant's secret, until giveBack.
func borrow(from *tenants.Snapshot) *keyer {
	if k, ok := from.Keyers.Get().(*keyer); ok {
		return k
	}
	return &keyer{mac: hmac.New(sha256.New, from.Secret[:]), buf: make([]byte, 0, inlineFieldBytes), home: from.Keyers}
}

func (k *keyer) giveBack() { k.home.Put(k) }

// start begins a digest in its domain; fields follow, then sum.
func (k *keyer) start(domain string) *keyer {
	k.mac.Reset()
	k.buf = k.buf[:0]
	return k.text(domain)
}

func (k *keyer) text(field string) *keyer {
	k.buf = append(k.length(len(field)), field...)
	return k
}

func (k *keyer) bytes(field []byte) *keyer {
	k.buf = k.length(len(field))
	if len(field) > inlineFieldBytes { // a body: hashed where it is
		_, _ = k.mac.Write(k.buf) // a hash never returns an error (package hash)
		_, _ = k.mac.Write(field)
		k.buf = k.buf[:0]
		return k
	}
	k.buf = append(k.buf, field...)
	return k
}

func (k *keyer) length(n int) []byte {
	return binary.BigEndian.AppendUint64(k.buf, uint64(n)) //nolint:gosec // a length is never negative
}

// stored is the first 128 bits of sum: what a row keeps. Nobody without the
// secret can look for two inputs that share them, and each is only ever
// compared with those of its own record.
func (k *keyer) stored() (digest [digestSize]byte) {
	sum := k.sum()
	copy(digest[:], sum[:])
	return digest
}

func (k *keyer) sum() (digest [sha256.Size]byte) {
	_, _ = k.mac.Write(k.buf)
	k.mac.Sum(digest[:0])
	return digest
}
