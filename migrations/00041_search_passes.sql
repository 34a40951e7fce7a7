-- A comparison of search with the records that a crash ran through is none.
-- +goose Up

create unlogged table key_search_passes (
    pass_id  uuid        not null,
    began_at timestamptz not null default now(),

    constraint key_search_passes_pkey primary key (pass_id)
);

comment on table key_search_passes is
    'Comparisons under way. A crash empties this together with key_search: what a comparison had filled before it is gone, and it may not count as whole.';

-- +goose Down
-- loses: nothing: a comparison of search that is under way begins anew
drop table key_search_passes;
