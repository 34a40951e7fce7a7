-- What a change of retention would do, and its doing.
-- +goose Up

create table retention_previews (
    tenant_id  uuid        not null,
    preview_id uuid        not null,
    created_at timestamptz not null default now(),
    plan       jsonb       not null,

    constraint retention_previews_pkey primary key (tenant_id, preview_id)
);

comment on table retention_previews is
    'What an administrator was shown. A change that shortens existing records names one that is at most ten minutes old and says the same.';

create table retention_changes (
    tenant_id       uuid        not null,
    change_id       uuid        not null,
    asked_at        timestamptz not null default now(),
    starts_at       timestamptz not null,
    state           text        not null default 'pending',
    exact           boolean     not null,
    reason          text,
    plan            jsonb       not null,
    position        uuid        not null default '00000000-0000-0000-0000-000000000000',
    records_seen    bigint      not null default 0,
    records_changed bigint      not null default 0,
    finished_at     timestamptz,

    constraint retention_changes_pkey        primary key (tenant_id, change_id),
    constraint retention_changes_state_known check (state in ('pending', 'running', 'done', 'cancelled', 'superseded')),
    constraint retention_changes_finished    check ((state in ('pending', 'running')) = (finished_at is null))
);

create unique index retention_changes_one on retention_changes (tenant_id) where state in ('pending', 'running');
create index retention_changes_asked on retention_changes (tenant_id, asked_at);

comment on column retention_changes.exact is
    'true: the new expires_at is what the plan says, earlier or later. false: it only moves later.';
comment on column retention_changes.position is
    'The id of the last record that was looked at: where the next batch goes on.';

-- +goose Down
-- loses: the history of changes of retention; one that is under way stops where it is
drop table retention_changes;
drop table retention_previews;
