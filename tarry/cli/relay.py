"""A long-running process of ours in the foreground: in place of the command, or as its child when that speaks JSON."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from tarry.cli.output import Output
from tarry.cli.processes import require_workers, shell_code
from tarry.tether import tethered


def in_foreground(module: str, app: str | None, *, as_json: bool) -> int:
    """Run `python -m module` with `app`, and return its exit code.

    Raises:
        Problem: there are no worker processes to start here.
    """
    require_workers()
    command = [sys.executable, "-m", module, *(["--app", app] if app else [])]
    if not as_json:
        # In place of this process: signals and the exit code are the process's own, whoever sends and asks.
        os.execv(command[0], command)
    return asyncio.run(_relayed(Output(as_json=True), command))


async def _relayed(output: Output, command: list[str]) -> int:
    """Run it as a child that ends with us, pass signals on, and tell of it in JSON; `url` when it says one."""
    child = await asyncio.create_subprocess_exec(
        *tethered(command), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, child.send_signal, number)
    async for line in child.stdout:
        match line.decode(errors="replace").split():
            case ["ready"]:
                output.json({"event": "ready", "pid": child.pid})
            case ["ready", url]:
                output.json({"event": "ready", "pid": child.pid, "url": url})
    code = shell_code(await child.wait())
    output.json({"event": "ended", "exit_code": code})
    return code
