"""`tarry codec`: shows the Web UI and the `temporal` command what is encrypted, in the foreground."""

from __future__ import annotations

from tarry.cli.output import JsonOption
from tarry.cli.relay import in_foreground


def codec(as_json: JsonOption = False) -> int:
    """Serve `/decode` and `/encode` to the Web UI and the `temporal` command (docs/security.md).

    Who sends TARRY_CODEC_TOKEN may read everything. Listens on loopback unless TARRY_CODEC_HOST says otherwise. Prints
    `ready` and its address; Ctrl-C or SIGTERM stops it. With --json one object a line: {"event": "ready", "url"}, then
    {"event": "ended"}.
    """
    return in_foreground("workers.codec_server", None, as_json=as_json)
