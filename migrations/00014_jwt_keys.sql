-- The keys that sign tokens, where they are kept in the database.
-- +goose Up

create table jwt_keys (
    kid        text        not null,
    created_at timestamptz not null default now(),
    signs_from timestamptz not null,
    public_key bytea       not null,
    sealed     bytea       not null,

    constraint jwt_keys_pkey       primary key (kid),
    constraint jwt_keys_kid_form   check (kid ~ '^[a-z2-7]{16}$'),
    constraint jwt_keys_public_key check (octet_length(public_key) = 32)
);

comment on column jwt_keys.signs_from is
    'A key is published before it signs, so that whoever keeps a copy of the key set knows it. Of those whose time has come the newest signs; all verify until their last token has ended.';
comment on column jwt_keys.sealed is
    'The private key, AES-256-GCM under the key of ONCEWARD_JWT_SECRET with the kid as additional data: nonce, then ciphertext.';

-- +goose Down
-- loses: the signing keys that are kept in the database, and with them the tokens of the last 15 minutes
drop table jwt_keys;
