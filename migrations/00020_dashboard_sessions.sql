-- Sessions of the dashboard, and the links that begin one.
-- +goose Up

create table dashboard_sessions (
    tenant_id     uuid        not null,
    session_id    bytea       not null,
    credential_id text        not null,
    created_at    timestamptz not null default now(),
    last_used_at  timestamptz not null default now(),
    presented_at  timestamptz,

    constraint dashboard_sessions_pkey            primary key (tenant_id, session_id),
    constraint dashboard_sessions_credential_fkey foreign key (credential_id) references credentials (credential_id) on delete cascade,
    constraint dashboard_sessions_id_length       check (octet_length(session_id) = 32)
);

create index dashboard_sessions_credential on dashboard_sessions (credential_id);

comment on table dashboard_sessions is
    'Who is signed in at the dashboard. A row is all there is of a session: without it the cookie opens nothing.';
comment on column dashboard_sessions.session_id is
    'SHA-256 of the secret in the cookie. The secret itself is stored nowhere.';
comment on column dashboard_sessions.presented_at is
    'When the API key itself was presented; null for a session that began by a link.';

create table dashboard_links (
    tenant_id     uuid        not null,
    link_id       bytea       not null,
    credential_id text        not null,
    expires_at    timestamptz not null,

    constraint dashboard_links_pkey            primary key (tenant_id, link_id),
    constraint dashboard_links_credential_fkey foreign key (credential_id) references credentials (credential_id) on delete cascade,
    constraint dashboard_links_id_length       check (octet_length(link_id) = 32)
);

create index dashboard_links_credential on dashboard_links (credential_id);

comment on table dashboard_links is
    'Links that sign a credential in once, for development. Using one deletes it.';

-- +goose Down
-- loses: all sessions of the dashboard: everybody signs in again
drop table dashboard_links;
drop table dashboard_sessions;
