"""`tarry gateway`: takes webhooks in the foreground."""

from __future__ import annotations

from tarry.cli.output import JsonOption
from tarry.cli.processes import AppOption
from tarry.cli.relay import in_foreground


def gateway(app: AppOption = None, as_json: JsonOption = False) -> int:
    """Take webhooks for an application (docs/webhooks.md); needs no worker.

    Prints `ready` and its address. Ctrl-C or SIGTERM stops it: what is under way is finished, a second one ends it at
    once. With --json one object a line: {"event": "ready", "url"}, then {"event": "ended"}.
    """
    return in_foreground("workers.gateway", app, as_json=as_json)
