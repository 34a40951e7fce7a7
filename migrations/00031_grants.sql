-- The application's role may enqueue and show jobs too, whatever it is called.
-- +goose Up

-- +goose StatementBegin
create or replace function onceward_grant(app name) returns void
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
    if to_regnamespace('river') is not null then -- made after the first run of these migrations
        execute format('grant usage on schema river to %I', app);
        execute format('grant select, insert, update, delete on all tables in schema river to %I', app);
        execute format('grant usage on all sequences in schema river to %I', app);
        execute format('alter default privileges in schema river grant select, insert, update, delete on tables to %I', app);
        execute format('alter default privileges in schema river grant usage on sequences to %I', app);
    end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
-- loses: nothing: what has been granted stays

-- +goose StatementBegin
create or replace function onceward_grant(app name) returns void
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
