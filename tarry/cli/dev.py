"""`tarry dev`: a server with its Web UI and a worker, both in the foreground, for development on one machine."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from tarry.cli.exits import ExitCode
from tarry.cli.output import JsonOption, Output
from tarry.cli.processes import (
    DATABASE,
    AppOption,
    DatabaseOption,
    chosen_app,
    ended,
    own_worker,
    shell_code,
    use_local_server,
)
from tarry.cli.running import run_async
from tarry.embedded import DEFAULT_PORT, EmbeddedServer, ServerOptions
from tarry.processes import Child
from tarry.settings import PREFIX, Settings, load_settings

DEFAULT_UI_PORT = 8233

_POLL = 0.1


def dev(
    app: AppOption = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of the server; 0 picks a free one.")] = DEFAULT_PORT,
    ui_port: Annotated[int, typer.Option(min=0, max=65_535, help="Of the Web UI; 0 picks one.")] = DEFAULT_UI_PORT,
    database: DatabaseOption = DATABASE,
    as_json: JsonOption = False,
) -> int:
    """Run a Temporal server with its Web UI and a worker.

    Ctrl-C stops the worker in order, then the server. Nothing is restarted: when the worker dies, this says how and
    ends with its exit code. With --json one object a line: {"event": "ready", …}, then {"event": "ended", …}.
    """
    options = ServerOptions(database=database, port=port, ui_port=ui_port)
    return run_async(_dev(Output(as_json=as_json), app, options))


async def _dev(output: Output, app: str | None, options: ServerOptions) -> int:
    settings = load_settings()
    app = chosen_app(app, settings)
    async with EmbeddedServer(options) as server:
        use_local_server(server.address)
        async with own_worker(app, settings) as worker:
            _tell(output, server, worker, app, settings)
            try:
                return await _end(output, server, worker)
            except asyncio.CancelledError:
                output.remark(f"stopping: running work has {settings.shutdown_grace:g} s; Ctrl-C again ends it at once")
    _tell_end(output, ExitCode.DONE)
    return ExitCode.DONE


def _tell(output: Output, server: EmbeddedServer, worker: Child, app: str, settings: Settings) -> None:
    if output.as_json:
        output.json(
            {
                "event": "ready",
                "address": server.address,
                "ui_url": server.ui_url,
                "app": app,
                "store": _store(settings),
                "task_queue": settings.task_queue,
                "worker_pid": worker.pid,
                "server_pid": server.pid,
                "worker_log": str(worker.log),
                "server_log": str(server.log),
            }
        )
        return
    output.text(
        f"Temporal  {server.address}\nWeb UI    {server.ui_url}\nApp       {app}\n"
        f"Logs      {worker.log}, {server.log}\nStop      Ctrl-C\n"
    )
    exports = "".join(f"    export {name}={shlex.quote(value)}\n" for name, value in _variables(server, settings))
    output.text(f"In another shell:\n{exports}    tarry ask 'Why do orders fail?'\n")


def _variables(server: EmbeddedServer, settings: Settings) -> list[tuple[str, str]]:
    """What other processes, of any folder, need to know of this server."""
    ours = [(f"{PREFIX}STORE", _store(settings))]
    is_default = server.address.endswith(f":{DEFAULT_PORT}")
    return ours if is_default else [("TEMPORAL_ADDRESS", server.address), *ours]


def _store(settings: Settings) -> str:
    """The store as a process of another folder must be told it."""
    return settings.store if "://" in settings.store else str(Path(settings.store).expanduser().absolute())


async def _end(output: Output, server: EmbeddedServer, worker: Child) -> int:
    """Return the exit code when the worker has ended.

    Raises:
        ServerError: the server ended first.
    """
    ends = [asyncio.ensure_future(worker.wait()), asyncio.ensure_future(server.wait())]
    log = asyncio.ensure_future(_show_log(worker.log))
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not ends[0].done():
            raise server.death()
    finally:
        for task in (*ends, log):
            task.cancel()
    code = await worker.wait()
    output.complaint(f"{ended(code)}, so this ends too; see {worker.log}")
    _tell_end(output, shell_code(code))
    return shell_code(code)


def _tell_end(output: Output, code: int) -> None:
    if output.as_json:
        output.json({"event": "ended", "exit_code": code})


async def _show_log(log: Path) -> None:
    """Copy to stderr what the worker adds to its log from now on."""
    with log.open(errors="replace") as lines:
        lines.seek(0, os.SEEK_END)
        while True:
            sys.stderr.write(lines.read())
            await asyncio.sleep(_POLL)
