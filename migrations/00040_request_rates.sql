-- Rates of the parts of a tenant: of each namespace, and of each caller in it.
-- +goose Up

alter table tenants
    add column namespace_requests_per_second integer,
    add column caller_requests_per_second    integer,
    add constraint tenants_namespace_requests_positive check (namespace_requests_per_second >= 1),
    add constraint tenants_caller_requests_positive    check (caller_requests_per_second >= 1);

comment on column tenants.namespace_requests_per_second is
    'Of each namespace, over all processes; null: no limit. Calls on a held lease never count.';
comment on column tenants.caller_requests_per_second is
    'Begins of each caller (not the empty one) in each namespace, over all processes; null: no limit.';
comment on table limit_demands is
    'How much each process is asked for of what is limited: by it the processes share a limit. Bucket names the limit, and its namespace and caller by a digest.';

-- +goose Down
-- loses: the rates that were set for namespaces and callers
comment on table limit_demands is
    'How much each process is asked for of what is limited: by it the processes share a limit. Bucket is requests, or a digest of a namespace and a caller.';
alter table tenants
    drop constraint tenants_caller_requests_positive,
    drop constraint tenants_namespace_requests_positive,
    drop column caller_requests_per_second,
    drop column namespace_requests_per_second;
