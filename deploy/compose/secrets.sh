#!/bin/sh
# Makes the secrets that compose.yaml names and that are not there yet, each
# readable for this user and, since the containers run as others, by mode. What
# is there is kept: a new password here does not change the database's.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

for name in postgres_password operator_token grafana_password grafana_database_password; do
	[ -s "secrets/$name" ] || random >"secrets/$name"
done
# 32 bytes in base64.
[ -s secrets/jwt_secret ] || head -c 32 /dev/urandom | base64 >secrets/jwt_secret
# host:port:database:user:password, https://www.postgresql.org/docs/current/libpq-pgpass.html
[ -s secrets/pgpass ] || printf 'postgres:5432:onceward:onceward:%s\n' "$(cat secrets/postgres_password)" >secrets/pgpass

# A file secret keeps its owner and mode inside a container. The folder stays
# closed to other users of this machine.
chmod 0444 secrets/*
