-- What a tenant may use, and what it has used.
-- +goose Up

alter table tenants
    add column requests_per_second integer,
    add column new_keys_per_minute integer not null default 600,
    add column max_live_records    bigint,
    add column max_stored_bytes    bigint,
    add constraint tenants_requests_positive check (requests_per_second >= 1),
    add constraint tenants_new_keys_positive check (new_keys_per_minute >= 1),
    add constraint tenants_live_records      check (max_live_records >= 0),
    add constraint tenants_stored_bytes      check (max_stored_bytes >= 0);

comment on column tenants.requests_per_second is
    'Over all processes; null: no limit. Calls on a held lease never count.';
comment on column tenants.new_keys_per_minute is
    'New records of one caller (not the empty one) in one namespace per minute, over all processes.';

create table tenant_usage (
    tenant_id    uuid        not null,
    live_records bigint      not null default 0,
    stored_bytes bigint      not null default 0,
    counted_at   timestamptz not null default now(),

    constraint tenant_usage_pkey primary key (tenant_id)
);

comment on table tenant_usage is
    'How much a tenant holds: what processes add as it comes, and a job counts anew, since what expires is taken off by nobody.';

create table usage_days (
    tenant_id   uuid   not null,
    day         date   not null,
    requests    bigint not null default 0,
    new_records bigint not null default 0,
    limited     bigint not null default 0,

    constraint usage_days_pkey primary key (tenant_id, day)
);

comment on column usage_days.limited is
    'Calls that were refused for a limit.';

create table limit_demands (
    tenant_id  uuid        not null,
    bucket     text        not null collate "C",
    process_id uuid        not null,
    per_second double precision not null,
    at         timestamptz not null,

    constraint limit_demands_pkey primary key (tenant_id, bucket, process_id)
);

comment on table limit_demands is
    'How much each process is asked for of what is limited: by it the processes share a limit. Bucket is requests, or a digest of a namespace and a caller.';

-- +goose Down
-- loses: the limits of each tenant, and all usage
drop table limit_demands;
drop table usage_days;
drop table tenant_usage;
alter table tenants
    drop constraint tenants_stored_bytes,
    drop constraint tenants_live_records,
    drop constraint tenants_new_keys_positive,
    drop constraint tenants_requests_positive,
    drop column max_stored_bytes,
    drop column max_live_records,
    drop column new_keys_per_minute,
    drop column requests_per_second;
