-- The role by which Grafana reads the figures of tenants. It may read what the
-- dashboard tenant.json asks for and nothing else: no record, no key, no body,
-- no credential, no secret.
--
--   psql "$ONCEWARD_DATABASE_URL" -f deploy/grafana/role.sql
--   psql "$ONCEWARD_DATABASE_URL" -c '\password onceward_grafana'
--
-- Run it as the owner of the schema, after api migrate up. Running it again is harmless.
do $$
begin
    if not exists (select from pg_roles where rolname = 'onceward_grafana') then
        create role onceward_grafana login;
    end if;
end $$;

alter role onceward_grafana set default_transaction_read_only = on;
alter role onceward_grafana set statement_timeout = '15s';
alter role onceward_grafana connection limit 8;

grant usage on schema public to onceward_grafana;
grant select (tenant_id, name, state, created_at) on tenants to onceward_grafana;
grant select (tenant_id, namespace_id, name) on namespaces to onceward_grafana;
grant select on analytics_series, analytics_counts, analytics_minutes, analytics_hours to onceward_grafana;
grant select on tenant_usage, usage_days to onceward_grafana;
