-- Search by metadata reads the tenant's own entries of the index alone.
-- +goose Up

-- It is filled again from the records within a minute.
truncate key_search, key_search_whole;
insert into key_search_whole (compared_at) select now() where not exists (select from idempotency_keys);

drop index key_search_metadata;
alter table key_search drop column metadata, add column terms text[];
create index key_search_terms on key_search using gin (terms) where terms is not null;

comment on column key_search.terms is
    'The pairs of the record''s metadata, each as <tenant_id>/<name>=<value>: an index over all tenants in which no tenant meets another''s entries. Null for none.';

-- +goose Down
-- loses: nothing: search is filled again from the records
truncate key_search, key_search_whole;
drop index key_search_terms;
alter table key_search drop column terms, add column metadata jsonb;
create index key_search_metadata on key_search using gin (metadata jsonb_path_ops) where metadata is not null;
