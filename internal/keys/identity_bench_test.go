package keys

import (
	"testing"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// BenchmarkIdentity is the way from a key to its record's id, and from an id
// in an address back.
func BenchmarkIdentity(b *testing.B) {
	who := identity{
		namespace: auth.NamespaceID{1}, scope: tenants.KeyScopeOperation,
		caller: "cus_123", operation: "POST /v1/charges", key: "8b3f4c19-1e6e-4c2c-9c1b-4a5c9c9b3f1e",
	}
	snapshot := tenants.NewSnapshot(tenants.Snapshot{Secret: [32]byte{7}}, nil, nil)
	text := who.id(borrow(snapshot)).String()
	b.Run("derive", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			k := borrow(snapshot)
			who.id(k)
			k.giveBack()
		}
	})
	b.Run("derive with a new keyer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			who.id(borrow(snapshot))
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := ParseID(text); !ok {
				b.Fatal("the id cannot be read")
			}
		}
	})
}

// BenchmarkColumns is the turning of a full batch of entries into the arrays
// of its statement.
func BenchmarkColumns(b *testing.B) {
	namespace := tenants.Namespace{ID: auth.NamespaceID{1}, Name: "live", KeyScope: tenants.KeyScopeOperation}
	snapshot := tenants.NewSnapshot(tenants.Snapshot{Tenant: auth.TenantID{1}}, []tenants.Namespace{namespace}, nil)
	entries := make([]*entry, maxBatch)
	for i := range entries {
		entries[i] = &entry{ref: ref{tenant: auth.TenantID{1}, id: ID{byte(i), byte(i >> 8)}, namespace: namespace.ID}, snapshot: snapshot}
	}
	b.ReportAllocs()
	for b.Loop() {
		columnsOf(entries).arguments()
	}
}
