-- One begin as one plain statement: what the API's INSERT writes, for one record.
\set n random(1, 1000000000000)
insert into idempotency_keys
    (tenant_id, id, namespace_id, fence, policy_version, created_at, acquired_at,
     lease_expires_at, expires_at, attempt, lease_seconds, retention_seconds, state, hold,
     fingerprint, owner_digest, credential_id, caller, operation, key)
values
    (:tenant::uuid, gen_random_uuid(), :namespace::uuid, (extract(epoch from now()) * 1000000)::bigint, 1, now(), now(),
     now() + make_interval(secs => 60), now() + make_interval(secs => 86460), 1, 60, 86400, 1, false,
     decode(:print, 'hex'), decode(:owner, 'hex'), :credential, '', 'POST /v1/charges', 'charge-' || (:n::bigint)::text || '-of-the-bench')
on conflict (tenant_id, id) do nothing
returning tenant_id, id, fence, created_at, lease_expires_at, expires_at;
