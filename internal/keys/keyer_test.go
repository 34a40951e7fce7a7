package keys

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// What stands in a database was made by this rule, and is looked for by it for
// as long as it lives there.
func TestADigestIsAnHMACOverItsDomainAndFields(t *testing.T) {
	t.Parallel()
	secret := [32]byte{1, 2, 3}
	under := tenants.NewSnapshot(tenants.Snapshot{Secret: secret}, nil, nil)
	byRule := func(fields ...string) []byte {
		mac := hmac.New(sha256.New, secret[:])
		for _, field := range fields {
			_ = binary.Write(mac, binary.BigEndian, uint64(len(field))) // a hash never returns an error
			_, _ = mac.Write([]byte(field))
		}
		return mac.Sum(nil)
	}
	namespace, id := auth.NamespaceID{9}, ID{7}
	for range 3 { // the later ones with a keyer that has been used
		k := borrow(under)
		got := identity{namespace, tenants.KeyScopeOperation, "cus_1", "POST /v1/charges", "order-42"}.id(k)
		k.giveBack()
		if diff := cmp.Diff(got[:], byRule("onceward-id-1", string(namespace[:]), "cus_1", "operation", "POST /v1/charges", "order-42")[:16]); diff != "" {
			t.Errorf("id (-got +want):\n%s", diff)
		}
		mac := leaseMAC(under, id, 258)
		if diff := cmp.Diff(mac[:], byRule("onceward-lease-1", string(id[:]), "\x00\x00\x00\x00\x00\x00\x01\x02")); diff != "" {
			t.Errorf("lease (-got +want):\n%s", diff)
		}
		for _, size := range []int{0, 1, inlineFieldBytes - 1, inlineFieldBytes, inlineFieldBytes + 1, 1 << 20} {
			body := strings.Repeat("b", size)
			k := borrow(under)
			sum := k.start("domain").text("text").bytes([]byte(body)).bytes([]byte("after")).sum()
			k.giveBack()
			if diff := cmp.Diff(sum[:], byRule("domain", "text", body, "after")); diff != "" {
				t.Errorf("a field of %d bytes (-got +want):\n%s", size, diff)
			}
		}
	}
}

// A keyer serves calls for as long as its tenant is busy: what large bodies
// went through it must not stay in memory.
func TestAKeyerKeepsNoRoomForBodies(t *testing.T) {
	t.Parallel()
	k := borrow(tenants.NewSnapshot(tenants.Snapshot{}, nil, nil))
	body := make([]byte, 1<<20)
	for size := 1; size <= len(body); size += size/8 + 1 {
		k.start(responseDomain).bytes(body[:size]).bytes(body[:size]).sum()
	}
	if kept, most := cap(k.buf), 4*inlineFieldBytes; kept > most {
		t.Errorf("it keeps %d bytes after bodies of up to 1 MiB, and may keep %d", kept, most)
	}
}

// Two tenants never have a keyer in common, whoever used it last.
func TestAKeyerStaysUnderItsSecret(t *testing.T) {
	t.Parallel()
	one := tenants.NewSnapshot(tenants.Snapshot{Secret: [32]byte{1}}, nil, nil)
	other := tenants.NewSnapshot(tenants.Snapshot{Secret: [32]byte{2}}, nil, nil)
	leaseMAC(one, ID{1}, 1)
	want := leaseMAC(tenants.NewSnapshot(tenants.Snapshot{Secret: [32]byte{2}}, nil, nil), ID{1}, 1)
	if got := leaseMAC(other, ID{1}, 1); !bytes.Equal(got[:], want[:]) {
		t.Error("a digest was made under another tenant's secret")
	}
}
