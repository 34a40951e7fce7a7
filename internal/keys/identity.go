package keys

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// ID names a record: the first 128 bits of HMAC-SHA-256 under the tenant's
// secret over its identity. The same identity gives the same id every time;
// the id tells nobody the key.
type ID [16]byte

// LeaseToken proves the right of one attempt to complete its record. It is
// made from the fence and stored nowhere.
type LeaseToken string

const (
	idDomain     = "onceward-id-1"
	leaseDomain  = "onceward-lease-1"
	leaseMACSize = 16
)

// String is the id as it stands in an address: 22 characters of base64url.
func (id ID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseID reads the text form; ok is false for a text that no id has, which is
// answered like an id of no record.
func ParseID(text string) (id ID, ok bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(len(id)) {
		return ID{}, false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(id[:], []byte(text))
	return id, err == nil && n == len(id)
}

// identity is what a record stands for. operation is not part of it under
// tenants.KeyScopeNamespace.
type identity struct {
	namespace auth.NamespaceID
	scope     tenants.KeyScope
	caller    string
	operation string
	key       string
}

// id derives the record's id.
func (i identity) id(k *keyer) ID {
	k.start(idDomain).bytes(i.namespace[:]).text(i.caller).text(string(i.scope))
	if i.scope == tenants.KeyScopeOperation {
		k.text(i.operation)
	}
	return ID(k.text(i.key).stored())
}

// leaseToken makes the token of the attempt with that fence: base64url of the
// fence and the first 16 bytes of an HMAC over id and fence.
func leaseToken(under *tenants.Snapshot, id ID, fence int64) LeaseToken {
	var raw [8 + leaseMACSize]byte
	binary.BigEndian.PutUint64(raw[:8], uint64(fence)) //nolint:gosec // a fence is never negative: microseconds since 1970
	mac := leaseMAC(under, id, fence)
	copy(raw[8:], mac[:leaseMACSize])
	return LeaseToken(base64.RawURLEncoding.EncodeToString(raw[:]))
}

// fenceOf returns the fence that the token proves; ok is false where the token
// was never issued for this id. The comparison takes constant time.
func (t LeaseToken) fenceOf(under *tenants.Snapshot, id ID) (fence int64, ok bool) {
	var raw [8 + leaseMACSize]byte
	if len(t) != base64.RawURLEncoding.EncodedLen(len(raw)) {
		return 0, false
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(raw[:], []byte(t)); err != nil {
		return 0, false
	}
	fence = int64(binary.BigEndian.Uint64(raw[:8])) //nolint:gosec // the MAC refuses what was never a fence
	mac := leaseMAC(under, id, fence)
	return fence, hmac.Equal(raw[8:], mac[:leaseMACSize])
}

func leaseMAC(under *tenants.Snapshot, id ID, fence int64) [sha256.Size]byte {
	k := borrow(under)
	defer k.giveBack()
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(fence)) //nolint:gosec // as in leaseToken
	return k.start(leaseDomain).bytes(id[:]).bytes(number[:]).sum()
}
