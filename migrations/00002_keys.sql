-- Idempotency records: the heart.
-- +goose Up

create table idempotency_keys (
    -- What a completion leaves as it is comes first, and what it writes last: the
    -- log of an update on one page begins with the first byte that differs.
    tenant_id         uuid        not null,
    id                uuid        not null,
    namespace_id      uuid        not null,
    fence             bigint      not null,
    policy_version    bigint      not null,
    created_at        timestamptz not null,
    acquired_at       timestamptz not null,
    attempt           integer     not null,
    lease_seconds     integer     not null,
    retention_seconds integer     not null,
    hold              boolean     not null,
    taken_over        boolean     not null default false,
    resolved          boolean     not null default false,
    fingerprint       bytea       not null,
    fingerprint_parts bytea,
    owner_digest      bytea       not null,
    credential_id     text        not null collate "C",
    caller            text        not null collate "C",
    operation         text        not null collate "C",
    key               text        not null collate "C",
    ignore_pointers   text,
    trace_id          text,
    metadata          jsonb,
    recovery_name     text,
    recovery_data     bytea,
    expires_at        timestamptz not null,
    lease_expires_at  timestamptz not null,
    completed_at      timestamptz,
    body_bytes        integer     not null default 0,
    state             smallint    not null,
    status            smallint,
    token_used        boolean     not null default false,
    bound             boolean     not null default false,
    body_omitted      boolean     not null default false,
    response_digest   bytea,
    body_ref          text,
    headers           bytea,
    body              bytea,

    constraint idempotency_keys_pkey             primary key (tenant_id, id),
    constraint idempotency_keys_state_known      check (state between 1 and 4),
    constraint idempotency_keys_attempt_positive check (attempt >= 1),
    constraint idempotency_keys_completed        check ((state = 3) = (completed_at is not null and status is not null)),
    constraint idempotency_keys_response         check (state = 3 or (body is null and headers is null and body_ref is null)),
    constraint idempotency_keys_recovery         check ((recovery_name is null) = (recovery_data is null))
);

create index idempotency_keys_expiry on idempotency_keys (tenant_id, expires_at);

-- lz4 instead of pglz: 40 % more completions/s at 2 KB, 2.2 times at 20 KB, for no size loss.
-- A server built without lz4 keeps its default.
-- +goose StatementBegin
do $$
begin
    alter table idempotency_keys alter column body set compression lz4;
exception when feature_not_supported or invalid_parameter_value then
    raise notice 'this server has no lz4: bodies are compressed by its default method';
end
$$;
-- +goose StatementEnd

comment on column idempotency_keys.id is
    'First 128 bits of HMAC-SHA-256 under the tenant''s secret over namespace, caller, scope, operation and key: the same identity gives the same id, and it tells nobody the key.';
comment on column idempotency_keys.state is
    '1 in progress (a passed lease_expires_at makes it lapsed, or unknown under hold), 2 open, 3 completed, 4 declared unknown.';
comment on column idempotency_keys.fence is
    'Raised by every acquisition: microseconds of the database clock, or the last fence + 1 if that is greater. Decides which lease token is current.';
comment on column idempotency_keys.expires_at is
    'From this instant on the record is absent, pruned or not. infinity while it is in progress under hold, or unknown.';
comment on column idempotency_keys.token_used is
    'A lease call has succeeded with this attempt''s token: its begin is no longer resumed.';
comment on column idempotency_keys.bound is
    'The fingerprint is bound for good: by a recovery point, a lapse, unknown, a releasing completion or a resolution. An open record that is not bound takes any fingerprint.';
comment on column idempotency_keys.response_digest is
    'Keyed digest of the last completion as sent, stored or releasing: tells its repeat from another response.';
comment on column idempotency_keys.fingerprint_parts is
    'Four keyed digests of 8 bytes: method, path, query, body. Null where only a digest is known.';
comment on column idempotency_keys.ignore_pointers is
    'JSON array of the pointers under which the stored fingerprint was made; null for none.';
comment on column idempotency_keys.headers is
    'Ordered (name, value) pairs: per string its length as a varint, then its bytes.';
comment on column idempotency_keys.resolved is
    'Completed by a resolution, not by its holder: a later completion of the holder is a late one.';

create table key_history (
    tenant_id     uuid        not null,
    id            uuid        not null,
    fence         bigint      not null,
    attempt       integer     not null,
    begun_at      timestamptz not null,
    ended_at      timestamptz not null,
    how           text        not null,
    credential_id text        not null,
    trace_id      text,

    constraint key_history_pkey      primary key (tenant_id, id, fence),
    constraint key_history_how_known check (how in ('released', 'error_released', 'lapsed', 'resolved_completed', 'resolved_retry'))
);

comment on table key_history is
    'Attempts that ended otherwise than by completing: takeovers, releases, resolutions. The last attempt of a record is in its own row.';

create table key_late_completions (
    tenant_id         uuid        not null,
    id                uuid        not null,
    record_created_at timestamptz not null,
    slot              smallint    not null,
    fence             bigint      not null,
    at                timestamptz not null,
    status            smallint    not null,
    header_names      text[]      not null,
    body_bytes        integer     not null,
    body_sha256       bytea       not null,
    digest            bytea       not null,
    body_head         bytea       not null,
    credential_id     text        not null,
    trace_id          text,

    constraint key_late_completions_pkey      primary key (tenant_id, id, record_created_at, slot),
    constraint key_late_completions_once      unique (tenant_id, id, record_created_at, fence, digest),
    constraint key_late_completions_slot      check (slot between 1 and 5),
    constraint key_late_completions_body_head check (octet_length(body_head) <= 16384)
);

comment on table key_late_completions is
    'What a former holder tried to store after it had lost the lease, or after a resolution: it may mean work done twice. At most five per record.';

-- +goose Down
-- stays: the records are in its tables: to remove Onceward, drop its database
drop table key_late_completions;
drop table key_history;
drop table idempotency_keys;
