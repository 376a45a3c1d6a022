#!/bin/sh
# Makes the secrets that are missing, as files that only root and you reach; those that are there stay.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
make() {
    if [ ! -e "secrets/$1" ]; then
        eval "$2" > "secrets/$1"
        # Readable in the container, whose user is another one; the folder keeps everybody else out.
        chmod 444 "secrets/$1"
        echo "made secrets/$1"
    fi
}
random='head -c 32 /dev/urandom | base64 | tr "+/" "-_" | tr -d "\n"'
for name in postgres_password codec_key codec_token callback_secrets gateway_token; do make "$name" "$random"; done
make openai_api_key ':'
