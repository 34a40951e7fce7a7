package keys

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onceward/onceward/internal/auth"
	"github.com/onceward/onceward/internal/postgres/postgrestest"
)

// searchedRecords are the tenant's own; as many are other tenants'.
const searchedRecords = 1_000_000

// BenchmarkSearch is what a page of 50 costs at a million records.
func BenchmarkSearch(b *testing.B) {
	pool := postgrestest.New(b)
	rows := &adminStore{pool: pool}
	tenant, namespace := auth.TenantID(uuid.New()), auth.NamespaceID(uuid.New())
	exec := func(statement string, args ...any) {
		b.Helper()
		if _, err := pool.Exec(b.Context(), statement, args...); err != nil {
			b.Fatal(err)
		}
	}
	exec(`
insert into idempotency_keys (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at, lease_expires_at, expires_at,
    attempt, lease_seconds, retention_seconds, state, hold, fingerprint, owner_digest, credential_id, caller, operation, key, metadata, completed_at, status)
select t.id, gen_random_uuid(), $2, n, 1, now() - n * interval '1 second', now(), now(), now() + interval '1 day',
    1, 60, 86400, case when n % 1000 = 0 then 4 else 3 end, false, '\x00', '\x00', 'abcdefghijklmnop', 'cus_' || n % 5000, 'POST /v1/' || n % 50, 'key-' || n,
    jsonb_build_object('order', n::text), case when n % 1000 > 0 then now() end, case when n % 1000 > 0 then 201 end
from generate_series(1, $3) n, lateral (select case when n % 2 = 0 then $1::uuid else gen_random_uuid() end as id) t`, tenant, namespace, 2*searchedRecords)
	exec(`
insert into key_search (tenant_id, id, namespace_id, created_at, lease_expires_at, fence, state, hold, caller, operation, key, terms)
select tenant_id, id, namespace_id, created_at, lease_expires_at, fence, state, hold, caller, operation, key, array[tenant_id || '/order=' || (metadata->>'order')]
from idempotency_keys`)
	exec("vacuum analyze key_search, idempotency_keys")
	unknown := StateUnknown
	for name, req := range map[string]SearchRequest{
		"everything": {}, "key": {Key: new("key-400000")}, "caller": {Caller: new("cus_400")}, "operation": {Operation: new("POST /v1/4")},
		"namespace": {Namespace: &namespace}, "unknown": {State: &unknown}, "metadata": {Metadata: &map[string]string{"order": "400000"}},
		"an hour long ago":     {Since: new(time.Now().Add(-500 * time.Hour)), Until: new(time.Now().Add(-499 * time.Hour))},
		"caller and operation": {Caller: new("cus_400"), Operation: new("POST /v1/0")}, "caller that is not there": {Caller: new("nobody")},
		"metadata that is not there": {Metadata: &map[string]string{"order": "none"}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, _, err := rows.Search(b.Context(), tenant, req, nil, 50); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
