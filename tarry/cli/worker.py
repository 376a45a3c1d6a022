"""`tarry worker`: a worker in the foreground."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from tarry.cli.output import JsonOption, Output
from tarry.cli.processes import AppOption, require_workers, shell_code
from tarry.tether import tethered


def worker(app: AppOption = None, as_json: JsonOption = False) -> int:
    """Serve an application.

    Ctrl-C or SIGTERM stops it: running work then has its grace time, a second one ends it at once. The exit code is
    the worker's own. With --json one object a line: {"event": "ready"}, then {"event": "ended"}.
    """
    require_workers()
    command = [sys.executable, "-m", "workers.worker", *(["--app", app] if app else [])]
    if not as_json:
        # In place of this process: signals and the exit code are the worker's, whoever sends and asks.
        os.execv(command[0], command)
    return asyncio.run(_relayed(Output(as_json=True), command))


async def _relayed(output: Output, command: list[str]) -> int:
    """Run the worker as a child that ends with us, pass signals on, and tell of it in JSON."""
    child = await asyncio.create_subprocess_exec(
        *tethered(command), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, child.send_signal, number)
    async for line in child.stdout:
        if line.strip() == b"ready":
            output.json({"event": "ready", "pid": child.pid})
    code = shell_code(await child.wait())
    output.json({"event": "ended", "exit_code": code})
    return code
