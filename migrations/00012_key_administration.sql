-- Forgetting, resolving and finding records.
-- +goose Up

alter table idempotency_keys
    add column admin_fence  bigint,
    add column admin_result bigint,
    add column admin_action text,
    add constraint idempotency_keys_admin check ((admin_action is null) = (admin_fence is null) and (admin_action is null) = (admin_result is null));

comment on column idempotency_keys.admin_action is
    'The last forget or resolution: with the fence that it named (admin_fence) and the fence that it left (admin_result), which is no longer the record''s once a begin has acquired it. What lets the same call be answered the same again.';

create table key_search (
    tenant_id        uuid        not null,
    id               uuid        not null,
    namespace_id     uuid        not null,
    created_at       timestamptz not null,
    lease_expires_at timestamptz not null,
    fence            bigint      not null,
    state            smallint    not null,
    hold             boolean     not null,
    caller           text        not null collate "C",
    operation        text        not null collate "C",
    key              text        not null collate "C",
    metadata         jsonb,

    constraint key_search_pkey primary key (tenant_id, id)
) with (fillfactor = 90);

create index key_search_newest    on key_search (tenant_id, created_at desc, id desc);
create index key_search_key       on key_search (tenant_id, key);
create index key_search_caller    on key_search (tenant_id, caller, created_at desc, id desc);
create index key_search_operation on key_search (tenant_id, operation, created_at desc, id desc);
create index key_search_namespace on key_search (tenant_id, namespace_id, created_at desc, id desc);
create index key_search_unsettled on key_search (tenant_id, created_at desc, id desc) where state <> 3;
create index key_search_metadata  on key_search using gin (metadata jsonb_path_ops) where metadata is not null;

comment on table key_search is
    'Where search looks first: filled from idempotency_keys in the background, about a second behind, so that a begin pays for no index but its own. What is shown is read from the record itself.';

create table key_search_feeds (
    feed_id         uuid        not null,
    flushed_through timestamptz not null,

    constraint key_search_feeds_pkey primary key (feed_id)
);

comment on table key_search_feeds is
    'Up to which moment each process has carried over what it changed: how far search is behind.';

-- +goose Down
-- loses: what the last forget and the last resolution of each record were answered; search, which is filled again
drop table key_search_feeds;
drop table key_search;
alter table idempotency_keys
    drop constraint idempotency_keys_admin,
    drop column admin_action,
    drop column admin_result,
    drop column admin_fence;
