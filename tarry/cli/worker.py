"""`tarry worker`: a worker in the foreground."""

from __future__ import annotations

from tarry.cli.output import JsonOption
from tarry.cli.processes import AppOption, ServesOption, use_serves
from tarry.cli.relay import in_foreground


def worker(app: AppOption = None, serves: ServesOption = None, as_json: JsonOption = False) -> int:
    """Serve an application: its workflows and tools, or only the tools that name a worker.

    Ctrl-C or SIGTERM stops it: running work then has its grace time, a second one ends it at once. The exit code is
    the worker's own. With --json one object a line: {"event": "ready"}, then {"event": "ended"}.
    """
    use_serves(serves)
    return in_foreground("workers.worker", app, as_json=as_json)
