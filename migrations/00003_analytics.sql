-- What was answered, counted: flushed by the API processes, rolled up by the worker.
-- +goose Up

create table analytics_processes (
    process_id uuid        not null,
    last_seq   bigint      not null,
    seen_at    timestamptz not null,

    constraint analytics_processes_pkey primary key (process_id)
);

comment on table analytics_processes is
    'The last flush of each API process that is in the database: a flush whose COMMIT had an unknown outcome is sent again and counts once.';

create table analytics_names (
    tenant_id uuid     not null,
    day       date     not null,
    kind      smallint not null,
    name      text     not null collate "C",

    constraint analytics_names_pkey       primary key (tenant_id, day, kind, name),
    constraint analytics_names_kind_known check (kind between 0 and 2)
);

comment on table analytics_names is
    'Operations (kind 1) and callers (kind 2) that are counted by name on a UTC day, at most 1,000 each; later ones count under other. The row of kind 0 is what flushes lock.';

create table analytics_series (
    tenant_id    uuid not null,
    series_id    uuid not null,
    namespace_id uuid not null,
    operation    text          collate "C",
    caller       text          collate "C",
    last_day     date not null,

    constraint analytics_series_pkey primary key (tenant_id, series_id)
);

comment on table analytics_series is
    'What is counted apart. series_id is a digest of the other columns, so that processes agree without asking. A null operation or caller is other.';
comment on column analytics_series.last_day is
    'The last UTC day on which something was counted under it.';

create table analytics_counts (
    tenant_id uuid        not null,
    minute    timestamptz not null,
    series_id uuid        not null,
    outcome   smallint    not null,
    bucket    smallint    not null,
    bin       smallint    not null,
    n         bigint      not null,

    constraint analytics_counts_positive check (n > 0)
) with (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000);

create index analytics_counts_minute on analytics_counts (tenant_id, minute);

comment on table analytics_counts is
    'Flushed and not yet rolled up. A row leaves in the statement that adds it to analytics_minutes and analytics_hours; every answer reads all three.';
comment on column analytics_counts.outcome is
    '1 acquired, 2 resumed, 3 replay, 4 in progress, 5 mismatch, 6 unknown, 7 takeover, 8 late completion, 9 release, 10 resolution, 11 declared unknown. 1 to 6 add up to the begins.';
comment on column analytics_counts.bucket is
    'Of a replay: the place of its age among the contract''s bounds, 0 to 13. 0 for the other outcomes.';
comment on column analytics_counts.bin is
    'Of a replay: the index of its age in a DDSketch of 1 % relative accuracy. 0 for the other outcomes.';

create table analytics_minutes (
    tenant_id uuid        not null,
    minute    timestamptz not null,
    series_id uuid        not null,
    outcome   smallint    not null,
    bucket    smallint    not null,
    bin       smallint    not null,
    n         bigint      not null,

    constraint analytics_minutes_pkey     primary key (tenant_id, minute, series_id, outcome, bucket, bin),
    constraint analytics_minutes_positive check (n > 0)
) with (fillfactor = 80);

create table analytics_hours (
    tenant_id uuid        not null,
    hour      timestamptz not null,
    series_id uuid        not null,
    outcome   smallint    not null,
    bucket    smallint    not null,
    bin       smallint    not null,
    n         bigint      not null,

    constraint analytics_hours_pkey     primary key (tenant_id, hour, series_id, outcome, bucket, bin),
    constraint analytics_hours_positive check (n > 0)
) with (fillfactor = 80);

create table analytics_events (
    tenant_id     uuid        not null,
    at            timestamptz not null,
    event_id      uuid        not null,
    namespace_id  uuid        not null,
    record_id     uuid        not null,
    kind          smallint    not null,
    status        smallint,
    attempt       integer,
    age           interval,
    credential_id text        not null collate "C",
    operation     text        not null collate "C",
    caller        text        not null collate "C",
    key           text        not null collate "C",
    trace_id      text,

    constraint analytics_events_pkey primary key (tenant_id, at, event_id)
) partition by range (at);

create table analytics_events_default partition of analytics_events default;

comment on table analytics_events is
    'Single replays, 409s, takeovers and late completions, by UTC day; a day is dropped when it is over 7 days old. The worker makes the days ahead; what comes without a day goes to the default partition and is moved.';
comment on column analytics_events.kind is
    'The outcome of analytics_counts.';
comment on column analytics_events.status is
    'Of a replay: the stored status. Of a late completion: the status that it tried to store.';

-- +goose Down
-- loses: all analytics: figures, series and single events
drop table analytics_events;
drop table analytics_hours;
drop table analytics_minutes;
drop table analytics_counts;
drop table analytics_series;
drop table analytics_names;
drop table analytics_processes;
