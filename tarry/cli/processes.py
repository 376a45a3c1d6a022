"""What a command starts for itself: it serves, or one line says why not, and no process is left behind.

The worker runs as `python -m workers.worker`, so it is found in the checkout, an image's work folder, or an editable
install of the checkout.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tarry.cli.exits import ExitCode, Problem
from tarry.connect import DEFAULT_ADDRESS, is_server_configured
from tarry.core.routing import ALL
from tarry.demo.tracker import tracker
from tarry.processes import STOP_PATIENCE, Child, ChildError, environment_of, worker
from tarry.settings import PREFIX, Settings

STATE = Path(".tarry")
"""What local processes keep, below the folder they are started in."""
DATABASE = STATE / "temporal.db"
WORKER_LOG = STATE / "worker.log"
TRACKER_LOG = STATE / "tracker.log"
TICKETS = STATE / "tickets.json"

EXAMPLES = "tarry.demo."
"""Where the example agents are, which need an issue tracker beside them."""
DEFAULT_APP = f"{EXAMPLES}live:app"
"""The example agent on a real model."""

AppOption = Annotated[
    str | None, typer.Option("--app", metavar="MODULE:ATTRIBUTE", help="The application; TARRY_APP by default.")
]
ServesOption = Annotated[
    str | None,
    typer.Option(
        "--serves", metavar="NAMES", help="default, all, or names of workers that tools name; TARRY_SERVES by default."
    ),
]
DatabaseOption = Annotated[Path, typer.Option("--db", help="The file in which a server of its own keeps its state.")]

_TRACKER = "TRIAGE_TRACKER"
_PROBE = 0.5


def chosen_app(given: str | None, settings: Settings, missing: str = "no application") -> str:
    """The application to serve: as given, by TARRY_APP, or the example on the model that OPENAI_API_KEY opens.

    Raises:
        Problem: none of these; it begins with what is `missing`.
    """
    app = given or settings.app
    if app is None and not os.environ.get("OPENAI_API_KEY"):
        raise Problem(
            ExitCode.PUT_RIGHT,
            "no_app",
            f"{missing}: give --app module:attribute or set TARRY_APP; for the example agent set OPENAI_API_KEY",
        )
    return app or DEFAULT_APP


def listens(address: str) -> bool:
    """Whether anything accepts connections at `host:port`."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _PROBE).close()
    except OSError:
        return False
    return True


def needs_own_server(default_address: str = DEFAULT_ADDRESS) -> bool:
    """Whether neither settings nor the default port lead to a server."""
    return not is_server_configured() and not listens(default_address)


def use_local_server(address: str) -> None:
    """From here on this process and its children know the server at `address` and no other."""
    environment = environment_of(address)
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


@contextlib.asynccontextmanager
async def own_worker(app: str, settings: Settings) -> AsyncIterator[Child]:
    """A worker that serves `app` within the context, with this process's environment.

    An example agent gets its tracker too, unless TRIAGE_TRACKER names one.

    Raises:
        Problem: it did not come up; the text is its own line.
    """
    require_workers()
    async with contextlib.AsyncExitStack() as stack:
        environment = {f"{PREFIX}SERVES": ALL} | os.environ
        if app.startswith(EXAMPLES) and not environment.get(_TRACKER):
            outside = tracker(TICKETS, log=TRACKER_LOG, environment=environment)
            await _start(outside, stack)
            environment[_TRACKER] = outside.ready_line
        child = worker(app, log=WORKER_LOG, environment=environment)
        # Running work has the grace time, then the worker gives it back (spec §4.4).
        await _start(child, stack, settings.shutdown_grace + STOP_PATIENCE)
        yield child


async def _start(child: Child, stack: contextlib.AsyncExitStack, stop_patience: float = STOP_PATIENCE) -> None:
    """Start a child that is stopped with `stack`."""
    stack.push_async_callback(child.stop, stop_patience)
    try:
        await child.start()
    except ChildError as error:
        first, *log = str(error).splitlines()
        last = log[-1] if log else first
        if await child.wait() == ExitCode.PUT_RIGHT:
            raise Problem(ExitCode.PUT_RIGHT, "worker_refused", last) from None
        raise Problem(ExitCode.BUG, "worker_failed", f"{first} {last}") from None


def use_serves(given: str | None) -> None:
    """From here on this process and its children serve what the command line says."""
    if given is not None:
        os.environ[f"{PREFIX}SERVES"] = given


def require_workers() -> None:
    """Return when worker processes can be started from here.

    Raises:
        Problem: there is no `workers` package, as beside an installed wheel.
    """
    if find_spec("workers") is None and not Path("workers").is_dir():
        raise Problem(ExitCode.PUT_RIGHT, "no_workers", "no workers here: run this in the checkout or image of tarry")


def ended(code: int) -> str:
    """How a worker ended, in words."""
    return f"the worker was ended by {signal.Signals(-code).name}" if code < 0 else f"the worker ended with code {code}"


def shell_code(code: int) -> int:
    """An exit code as shells count it: 128 and the signal that ended the process."""
    return 128 - code if code < 0 else code
