-- Tenants and what decides how their records are treated.
-- +goose Up

create table tenants (
    tenant_id             uuid        primary key,
    name                  text        not null,
    secret                bytea       not null,
    state                 text        not null default 'active',
    suspended_reason      text,
    min_retention_seconds integer     not null default 3600,
    max_retention_seconds integer     not null default 2592000,
    body_limit_bytes      integer     not null default 1048576,
    policy_version        bigint      not null default 1,
    created_at            timestamptz not null default now(),

    constraint tenants_name_length      check (char_length(name) between 1 and 100),
    constraint tenants_secret_length    check (octet_length(secret) = 32),
    constraint tenants_state_known      check (state in ('active', 'suspended', 'deleting')),
    constraint tenants_retention_range  check (min_retention_seconds between 1 and max_retention_seconds),
    constraint tenants_body_limit_range check (body_limit_bytes between 1 and 16777216)
);

comment on column tenants.secret is
    'HMAC key of the tenant: record ids, lease tokens, stored fingerprints and digests are made under it. Never leaves the API processes.';
comment on column tenants.policy_version is
    'Raised by every change of policy or retention; the ETag of the policy.';

create table namespaces (
    tenant_id    uuid        not null,
    namespace_id uuid        not null,
    name         text        not null,
    key_scope    text        not null default 'operation',
    created_at   timestamptz not null default now(),

    constraint namespaces_pkey            primary key (tenant_id, namespace_id),
    constraint namespaces_tenant_fkey     foreign key (tenant_id) references tenants (tenant_id),
    constraint namespaces_name_unique     unique (tenant_id, name),
    constraint namespaces_name_length     check (char_length(name) between 1 and 100),
    constraint namespaces_key_scope_known check (key_scope in ('operation', 'namespace'))
);

comment on column namespaces.key_scope is
    'operation: the operation is part of a record''s identity. namespace: it is not. Chosen when the namespace is made; never changes.';

create table credentials (
    credential_id text        not null,
    tenant_id     uuid        not null,
    name          text        not null,
    role          text        not null,
    namespace_id  uuid,
    namespaces    uuid[],
    secret_sha256 bytea       not null,
    created_at    timestamptz not null default now(),
    expires_at    timestamptz not null default 'infinity',
    revoked_at    timestamptz,

    constraint credentials_pkey              primary key (credential_id),
    constraint credentials_tenant_fkey       foreign key (tenant_id) references tenants (tenant_id),
    constraint credentials_namespace_fkey    foreign key (tenant_id, namespace_id) references namespaces (tenant_id, namespace_id),
    constraint credentials_id_form           check (credential_id ~ '^[a-z2-7]{16}$'),
    constraint credentials_name_length       check (char_length(name) between 1 and 100),
    constraint credentials_role_known        check (role in ('service', 'ops', 'resolver', 'admin')),
    constraint credentials_service_namespace check ((role = 'service') = (namespace_id is not null)),
    constraint credentials_resolver_only     check (namespaces is null or role = 'resolver'),
    constraint credentials_secret_length     check (octet_length(secret_sha256) = 32)
);

create unique index credentials_name_unique on credentials (tenant_id, name) where revoked_at is null;

comment on table credentials is
    'API keys. Looked up by credential_id alone: the one statement that cannot know the tenant yet, since its answer names it.';
comment on column credentials.secret_sha256 is
    'SHA-256 of the whole API key as presented. The key itself is shown once and stored nowhere.';

create table policies (
    tenant_id         uuid   not null,
    namespace_id      uuid   not null default '00000000-0000-0000-0000-000000000000',
    operation         text   not null default '',
    retention_seconds integer,
    lease_seconds     integer,
    on_mismatch       text,
    mismatch_status   integer,
    on_lease_expiry   text,
    store_errors      text,
    store_body        text,
    strip_headers     text[],
    keep_headers      text[],
    ignore_pointers   text[],

    constraint policies_pkey                  primary key (tenant_id, namespace_id, operation),
    constraint policies_tenant_fkey           foreign key (tenant_id) references tenants (tenant_id),
    constraint policies_namespace_operation   check (operation <> '' or namespace_id = '00000000-0000-0000-0000-000000000000'),
    constraint policies_retention_positive    check (retention_seconds >= 1),
    constraint policies_lease_range           check (lease_seconds between 1 and 3600),
    constraint policies_on_mismatch_known     check (on_mismatch in ('reject', 'replay')),
    constraint policies_mismatch_status_known check (mismatch_status in (409, 422, 400)),
    constraint policies_on_lease_expiry_known check (on_lease_expiry in ('takeover', 'hold')),
    constraint policies_store_errors_known    check (store_errors in ('all', 'client', 'none')),
    constraint policies_store_body_known      check (store_body in ('all', 'none')),
    constraint policies_ignore_pointers_count check (cardinality(ignore_pointers) <= 32)
);

comment on table policies is
    'operation '''' is the tenant''s default; namespace_id zero means every namespace. A null member is decided by the next wider row, at last by the contract''s defaults.';

-- +goose Down
-- stays: every credential, policy and record hangs from its tables: to remove Onceward, drop its database
drop table policies;
drop table credentials;
drop table namespaces;
drop table tenants;
