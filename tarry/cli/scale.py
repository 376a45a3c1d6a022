"""`tarry scale`: keeps as many workers as are needed, in the foreground."""

from __future__ import annotations

import os
import sys

from tarry.cli.output import JSON_FLAG, JsonOption
from tarry.cli.processes import AppOption, ServesOption, require_workers, use_serves


def scale(app: AppOption = None, serves: ServesOption = None, as_json: JsonOption = False) -> int:
    """Start workers for an application when they are needed, and stop them while all is parked (docs/scaling.md).

    Prints what it does, and how long after a delivery or a deadline a worker is at work. Ctrl-C or SIGTERM stops its
    workers in order, a second one ends all at once. With --json one object a line: {"event": "ready"}, then one for
    each thing it does, and {"event": "ended"}.
    """
    require_workers()
    use_serves(serves)
    options = [*(["--app", app] if app else []), *([JSON_FLAG] if as_json else [])]
    # In place of this process: signals and the exit code are the supervisor's own, whoever sends and asks.
    os.execv(sys.executable, [sys.executable, "-m", "workers.supervisor", *options])
