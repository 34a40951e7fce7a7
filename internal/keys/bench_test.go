package keys

import (
	"strings"
	"testing"
	"time"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/tenants"
)

// BenchmarkEntry is what a begin costs before it is queued: validation,
// identity, fingerprint and owner.
func BenchmarkEntry(b *testing.B) {
	namespace := tenants.Namespace{ID: auth.NamespaceID{1}, Name: "live", KeyScope: tenants.KeyScopeOperation}
	snapshot := tenants.NewSnapshot(tenants.Snapshot{
		Tenant: auth.TenantID{1}, Secret: [32]byte{7}, BodyLimit: 1 << 20, MinRetention: time.Hour, MaxRetention: 720 * time.Hour,
	}, []tenants.Namespace{namespace}, nil)
	caller := auth.Caller{Tenant: snapshot.Tenant, Namespace: namespace.ID, Credential: "abcdefghijklmnop", Role: auth.RoleService}
	request := charge()
	request.Request = payload(`{"amount":4999,"currency":"eur","customer":"cus_123","description":"` + strings.Repeat("x", 220) + `"}`)
	digest := charge()
	digest.Request, digest.Operation, digest.Fingerprint = nil, new("POST /v1/charges"), new(zeroDigest)
	for name, req := range map[string]BeginRequest{"request": request, "digest": digest} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := newEntry(caller, snapshot, req, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLeaseToken is what issuing and proving a token cost.
func BenchmarkLeaseToken(b *testing.B) {
	snapshot, id := tenants.NewSnapshot(tenants.Snapshot{Secret: [32]byte{7}}, nil, nil), ID{1}
	token := leaseToken(snapshot, id, 1795971562123456)
	b.Run("issue", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			leaseToken(snapshot, id, 1795971562123456)
		}
	})
	b.Run("prove", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := token.fenceOf(snapshot, id); !ok {
				b.Fatal("the token is not its own")
			}
		}
	})
}
