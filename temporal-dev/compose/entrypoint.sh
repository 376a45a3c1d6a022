#!/bin/sh
# Runs a command with each NAME_FILE that leads below /run/secrets read into NAME; an empty file counts as not set.
set -eu
folder="${SECRETS_FOLDER:-/run/secrets}"
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)_FILE=.*/\1/p'); do
    eval "path=\$${name}_FILE"
    case "$path" in "$folder"/*) ;; *) continue ;; esac
    if [ -s "$path" ]; then
        value="$(cat "$path")"
        export "$name=$value"
    fi
    unset "${name}_FILE"
done
exec "$@"
