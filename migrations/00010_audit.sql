-- Who did what: the audit trail, and what administration needs to know of a credential.
-- +goose Up

create table audit (
    tenant_id  uuid        not null,
    entry_id   bigint      not null generated always as identity,
    at         timestamptz not null default now(),
    actor_kind text        not null,
    actor      text        not null,
    role       text        not null default '',
    action     text        not null,
    object     text        not null,
    object_id  text        not null default '',
    reason     text,
    before     jsonb,
    after      jsonb,
    request_id text,
    address    text,

    constraint audit_pkey             primary key (tenant_id, entry_id),
    constraint audit_actor_kind_known check (actor_kind in ('credential', 'operator', 'local')),
    constraint audit_action_form      check (action ~ '^[a-z_]+\.[a-z_]+$')
);

create index audit_object on audit (tenant_id, object_id, entry_id);

comment on table audit is
    'Append-only: written in the transaction of the change it tells of. Where the application connects as the role onceward_app, that role may insert and read and nothing else.';
comment on column audit.actor is
    'The id of a credential, or which hand it was: operator (its listener) or local (a command on the machine).';
comment on column audit.before is
    'What was changed, as it was. Never a secret, a body, an idempotency key, a token or a fingerprint.';

-- The rows of a tenant that is being deleted go by this function alone, with
-- its owner's right: the application itself may not delete.
-- +goose StatementBegin
create function audit_forget(gone uuid, most integer) returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, public
as $$
declare
    removed integer;
begin
    delete from audit
    where tenant_id = gone
      and entry_id in (select entry_id from audit where tenant_id = gone limit most)
      and exists (select from tenants where tenant_id = gone and state = 'deleting' and delete_after <= now());
    get diagnostics removed = row_count;
    return removed;
end
$$;
-- +goose StatementEnd
revoke execute on function audit_forget(uuid, integer) from public;

alter table tenants
    add column delete_after       timestamptz,
    add column delete_asked_at    timestamptz,
    add column deleted_rows       bigint not null default 0,
    add column grace_seconds      integer not null default 900,
    add constraint tenants_grace_range check (grace_seconds between 0 and 604800);

comment on column tenants.delete_after is
    'When the removal of its rows may begin; null unless it is being deleted. Until then the deletion can be undone.';
comment on column tenants.deleted_rows is
    'How many rows the removal has taken away so far.';
comment on column tenants.grace_seconds is
    'How long a shortened retention of existing records waits before it starts, so that it can be cancelled.';

alter table credentials
    add column last_used_at timestamptz,
    add column replaced_at  timestamptz;

comment on column credentials.last_used_at is
    'Recorded in batches, some seconds behind; never moves after a revocation.';
comment on column credentials.replaced_at is
    'When a rotation issued its successor under the same name; the credential goes on until expires_at.';

drop index credentials_name_unique;
create unique index credentials_name_unique on credentials (tenant_id, name) where revoked_at is null and replaced_at is null;
create index credentials_tenant on credentials (tenant_id, created_at, credential_id);

-- What the role that the application connects as may do. Whoever owns the
-- tables calls it once, for a role of any name; a role onceward_app that is there
-- already gets it here.
-- +goose StatementBegin
create function onceward_grant(app name) returns void
    language plpgsql
    set search_path = pg_catalog, public
as $$
begin
    execute format('grant usage on schema public to %I', app);
    execute format('grant select, insert, update, delete on all tables in schema public to %I', app);
    execute format('alter default privileges in schema public grant select, insert, update, delete on tables to %I', app);
    execute format('revoke all on audit from %I', app);
    execute format('grant select, insert on audit to %I', app);
    execute format('grant execute on function audit_forget(uuid, integer) to %I', app);
end
$$;
-- +goose StatementEnd
revoke execute on function onceward_grant(name) from public;

-- +goose StatementBegin
do $$
begin
    if exists (select from pg_roles where rolname = 'onceward_app') then
        perform onceward_grant('onceward_app');
    end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
-- loses: the audit trail, which tenants wait to be deleted, and when each credential was last used; a credential that was rotated with an overlap ends at once
drop index credentials_tenant;
drop index credentials_name_unique;
update credentials set revoked_at = now() where replaced_at is not null and revoked_at is null;
create unique index credentials_name_unique on credentials (tenant_id, name) where revoked_at is null;
alter table credentials drop column replaced_at, drop column last_used_at;
alter table tenants
    drop constraint tenants_grace_range,
    drop column grace_seconds,
    drop column deleted_rows,
    drop column delete_asked_at,
    drop column delete_after;
drop function onceward_grant(name);
drop function audit_forget(uuid, integer);
drop table audit;
