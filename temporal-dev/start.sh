#!/usr/bin/env bash
# A Temporal server in the foreground, its state in .tarry/temporal.db. Flags given here are added, the last one wins.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
make --no-print-directory venv >&2
exec .venv/bin/python -m tarry.embedded --db .tarry/temporal.db --port 7233 --ui-port 8233 "$@"
