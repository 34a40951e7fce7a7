-- A replay as one plain statement: the record of a key that is completed, body included.
\set n random(1, :records)
select k.namespace_id, k.caller, k.operation, k.key, k.fingerprint, k.fence, k.attempt, k.state,
    k.created_at, k.lease_expires_at, k.expires_at, k.completed_at, k.status, k.headers, k.body, k.body_bytes
from idempotency_keys k
where k.tenant_id = :tenant::uuid and k.id = ('00000000-0000-4000-8000-' || lpad((:n::int)::text, 12, '0'))::uuid
    and k.namespace_id = :namespace::uuid and k.expires_at > now();
