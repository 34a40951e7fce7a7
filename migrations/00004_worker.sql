-- What the worker remembers from run to run. River's own tables are in the
-- schema river and migrated by River.
-- +goose Up

create table pruning_progress (
    tenant_id uuid        not null,
    watermark timestamptz not null,
    unswept   boolean     not null,

    constraint pruning_progress_pkey primary key (tenant_id)
);

comment on column pruning_progress.watermark is
    'expires_at of the last records that were pruned. Where the next run begins, so that it does not walk the index entries of what is gone; each run looks below it at its end.';

comment on column pruning_progress.unswept is
    'Records were pruned since what is kept beside records was last swept.';

create table job_runs (
    kind              text        not null,
    last_started_at   timestamptz not null,
    last_succeeded_at timestamptz,
    last_error_at     timestamptz,
    runs              bigint      not null default 0,
    failures          bigint      not null default 0,

    constraint job_runs_pkey primary key (kind)
);

comment on table job_runs is
    'When each kind of job last began, ended well and failed, over all workers.';

-- Pruning and completing leave dead rows at the rate of the calls: vacuum often
-- and in small portions, so that their room is used again within the hour.
alter table idempotency_keys set (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_limit = 1000,
    toast.autovacuum_vacuum_scale_factor = 0.02
);

-- +goose Down
-- loses: when each job last ran, and how far pruning has come, which begins anew
alter table idempotency_keys reset (
    autovacuum_vacuum_scale_factor,
    autovacuum_analyze_scale_factor,
    autovacuum_vacuum_cost_limit,
    toast.autovacuum_vacuum_scale_factor
);
drop table job_runs;
drop table pruning_progress;
