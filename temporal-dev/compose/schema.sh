#!/bin/sh
# The tables of Temporal and of its lists, created or brought up to the version of this image.
set -eu
SQL_PASSWORD="$(cat /run/secrets/postgres_password)"
export SQL_PASSWORD
for pair in temporal:temporal temporal_visibility:visibility; do
    set -- --plugin postgres12 --endpoint "$SQL_HOST" --port 5432 --user "$SQL_USER" --database "${pair%%:*}"
    temporal-sql-tool "$@" create
    temporal-sql-tool "$@" setup-schema -v 0.0
    temporal-sql-tool "$@" update-schema -d "/etc/temporal/schema/postgresql/v12/${pair##*:}/versioned"
done
