"""Making sure that somebody answers: the server and workers that are there, or ones of our own for a while."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from tarry.cli.exits import ExitCode, Problem
from tarry.cli.processes import chosen_app, needs_own_server, own_worker, use_local_server
from tarry.client import Conversation, Harness
from tarry.client.deployments import Routing, build_of, routing, why_idle
from tarry.embedded import EmbeddedServer, ServerOptions
from tarry.processes import Child
from tarry.settings import Settings, load_settings

_NOTHING = (
    "no Temporal server is set or running (`tarry dev` starts one), and to bring one along there is no application"
)
_POLLERS_PATIENCE = timedelta(seconds=1)
_PAUSE = timedelta(milliseconds=100)


@dataclass(frozen=True)
class Wanted:
    """What the command line says about who is to serve.

    Attributes:
        app: the application of a worker of our own.
        embedded: a server of our own, whatever is configured.
        database: the file in which a server of our own keeps its state.
    """

    app: str | None
    embedded: bool
    database: Path


@dataclass(frozen=True)
class Serving:
    """A connection, and the worker behind it when that is ours."""

    harness: Harness
    worker: Child | None = None


@contextlib.asynccontextmanager
async def serving(wanted: Wanted, tell: Callable[[str], None]) -> AsyncIterator[Serving]:
    """A server with a worker: those that are there, and what is missing for the time of the context.

    A server of our own is started when none is configured and none listens on the default port; a worker of our own
    beside it, or on another server when an application is given. `tell` hears of what takes a moment.

    Raises:
        Problem: nobody would answer; it says what to do.
        ConnectError, ServerError, SettingsError: the server that is there, or ours, cannot be used.
    """
    settings = load_settings()
    async with contextlib.AsyncExitStack() as stack:
        app = wanted.app
        if wanted.embedded or needs_own_server():
            app = chosen_app(wanted.app, settings, "no application" if wanted.embedded else _NOTHING)
            tell("starting a Temporal server …")
            server = await stack.enter_async_context(EmbeddedServer(ServerOptions(database=wanted.database)))
            use_local_server(server.address)
        harness = await Harness.connect(settings)
        if app is None:
            await require_a_worker(harness)
            yield Serving(harness)
        else:
            tell(f"starting a worker for {app} …")
            worker = await stack.enter_async_context(own_worker(app, settings))
            if build_of(settings):
                await require_a_worker(harness)
            yield Serving(harness, worker)


async def require_a_worker(harness: Harness) -> None:
    """Return when a worker serves the task queue, or did a few minutes ago.

    Raises:
        Problem: none does, or those that ask are of builds that are given no work.
    """
    # One that has just started may not have asked for work yet.
    attempts = AsyncRetrying(
        retry=retry_if_result(lambda now: not now.is_served),
        stop=stop_after_delay(_POLLERS_PATIENCE),
        wait=wait_fixed(_PAUSE),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,  # the last look
    )
    queue = harness.settings.task_queue
    now: Routing = await attempts(routing, harness.client, queue)
    if now.idle:
        raise Problem(ExitCode.PUT_RIGHT, "no_current_build", why_idle(now, queue, now.idle))
    if not now.is_served:
        raise no_worker(harness.settings)


def no_worker(settings: Settings) -> Problem:
    """Nobody would answer."""
    return Problem(
        ExitCode.PUT_RIGHT,
        "no_worker",
        f"no worker serves task queue {settings.task_queue}: start one with `tarry worker --app module:attribute`",
    )


def conversation_of(harness: Harness, conversation_id: str | None) -> Conversation:
    """The handle; a new conversation without an id.

    Raises:
        Problem: it cannot be an id.
    """
    try:
        return harness.conversation(conversation_id)
    except ValueError as error:
        raise Problem(ExitCode.PUT_RIGHT, "bad_id", str(error)) from None
