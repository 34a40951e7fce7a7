-- A begin and its completion as two plain statements, each in a transaction of its own.
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
returning id, fence \gset
update idempotency_keys k set
    state = 3, completed_at = now(), status = 201, headers = decode(:headers, 'hex'), body = convert_to(:body, 'UTF8'), body_bytes = octet_length(:body),
    response_digest = decode(:print, 'hex'), token_used = true, bound = true,
    lease_expires_at = least(k.lease_expires_at, now()),
    expires_at = case when k.expires_at >= now() + make_interval(secs => k.retention_seconds) then k.expires_at
        else now() + make_interval(secs => k.retention_seconds) end
where k.tenant_id = :tenant::uuid and k.id = :id::uuid and k.namespace_id = :namespace::uuid
    and k.fence = :fence::bigint and k.state in (1, 4) and k.expires_at > now()
returning k.completed_at, k.expires_at;
