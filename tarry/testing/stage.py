"""A stage for an application: a server, its real workers, and the harness to talk to it.

What an example, a demo or a test of an application starts. The task queue is the stage's own, so that on a
shared server no other worker takes its work.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from pydantic import SecretStr
from temporalio.client import Client

from tarry.client import Harness
from tarry.connect import converter_of, is_server_configured
from tarry.core.routing import ALL
from tarry.embedded import EmbeddedServer
from tarry.processes import Child, environment_of, gateway, worker
from tarry.settings import PREFIX, Settings, load_settings
from tarry.testing.waiting import eventually

HEARTBEAT_TIMEOUT = 2.0
"""Seconds: who kills workers wants to see them missed soon."""

SHUTDOWN_GRACE = 2.0
"""Seconds: a stage that closes has what it came for."""

PARKED = ("sleeping", "gated")


class Stage:
    """Use it as a context. `harness` is connected, no worker runs yet; when it closes, its processes end.

    Args:
        app: `module:attribute`, as a worker loads it.
        server: a running one. Without it the server that Temporal's settings name (`TEMPORAL_ADDRESS`, a
            profile), and when they name none, an embedded one in memory.
        folder: for files of the stage, the workers' logs among them; a temporary one by default.
    """

    harness: Harness

    def __init__(self, app: str, *, server: EmbeddedServer | None = None, folder: Path | None = None) -> None:
        self._app = app
        self._server = server
        self._folder = folder
        self._workers: list[Child] = []
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exit:
            self.folder = self._folder or Path(exit.enter_context(tempfile.TemporaryDirectory(prefix="tarry-stage-")))
            if self._server is None and not is_server_configured():
                self._server = await exit.enter_async_context(EmbeddedServer())
            self._settings = self._stage_settings()
            self.harness = await self._connect()
            self._exit = exit.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exit.aclose()

    async def start_worker(self, **environment: str) -> Child:
        """Start a worker, with these variables in its environment, and return when it serves.

        Raises:
            ChildError: it could not start; the end of its log says why.
        """
        number = len(self._workers) + 1
        child = worker(
            self._app, log=self.folder / f"worker-{number}.log", environment=self.environment() | environment
        )
        self._workers.append(child)
        return await self._exit.enter_async_context(child)

    async def start_gateway(self, **environment: str) -> Child:
        """Start a gateway on a free port, with these variables, such as its sources' secrets; `ready_line` is its URL.

        Raises:
            ChildError: it could not start; the end of its log says why.
        """
        chosen = self.environment() | {f"{PREFIX}GATEWAY_PORT": "0"} | environment
        return await self._exit.enter_async_context(
            gateway(self._app, log=self.folder / "gateway.log", environment=chosen)
        )

    async def parked(self, conversation_id: str) -> str:
        """Return when a call of the conversation is parked: its task id, to which a signal can be delivered.

        Raises:
            TimeoutError: none was within 60 s.
        """

        async def sleeping() -> list[str]:
            items = [item async for item in self.harness.work()]
            return [item.id for item in items if item.conversation_id == conversation_id and item.state in PARKED]

        return (await eventually(sleeping))[0]

    def _stage_settings(self) -> Settings:
        chosen: dict[str, object] = {
            "task_queue": f"stage-{secrets.token_hex(4)}",
            "heartbeat_timeout": HEARTBEAT_TIMEOUT,
            "shutdown_grace": SHUTDOWN_GRACE,
            "serves": ALL,
            # Its workers are no build: none of it is ever made current on a queue of the stage's own.
            "deployment": None,
            "build": None,
        }
        # On a shared server content is kept where its other clients look for it.
        if self._server is not None:
            chosen["store"] = str(self.folder / "store")
        return load_settings().model_copy(update=chosen)

    async def _connect(self) -> Harness:
        if self._server is None:
            return await Harness.connect(self._settings)
        client = await Client.connect(self._server.address, data_converter=converter_of(self._settings))
        return Harness(client, self._settings)

    def environment(self) -> dict[str, str]:
        """What a process of the stage is started with: our own environment, the server, the stage's settings."""
        found = dict(os.environ) if self._server is None else environment_of(self._server.address)
        chosen = self._settings.model_dump(exclude_none=True) | {"deployment": "", "build": ""}
        return found | {f"{PREFIX}{name.upper()}": _told(value) for name, value in chosen.items()}


def _told(value: object) -> str:
    """A setting as a variable holds it; a secret shows asterisks to whoever does not ask for it."""
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
