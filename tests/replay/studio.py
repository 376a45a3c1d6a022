"""Where histories are recorded: a real server, workers in this process or, when they are to die, in processes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory

from tarry.app import App
from tarry.client import Conversation
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of, worker
from tarry.settings import PREFIX
from tests.replay.recorded_app import RECOVERED
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually

CRASHING = "tests.replay.recorded_app:app"


class Studio:
    """Collects the histories of the conversations that a scenario plays. `settings` are for all of them."""

    def __init__(self, server: EmbeddedServer, folder: Path, **settings: Any) -> None:
        self.server = server
        self.folder = folder
        self._settings = settings
        self.store = folder / "store"
        self.recovered = folder / "recovered"
        self.histories: list[WorkflowHistory] = []

    @contextlib.asynccontextmanager
    async def conversation(self, app: App, **settings: Any) -> AsyncIterator[tuple[Stage, Conversation]]:
        """A conversation of `app`, served inside this process."""
        async with self.unserved(app, **settings) as (on, conversation), on.worker():
            yield on, conversation

    @contextlib.asynccontextmanager
    async def unserved(self, app: App, **settings: Any) -> AsyncIterator[tuple[Stage, Conversation]]:
        """A conversation of `app` that no worker serves yet."""
        async with idle_stage(self.server, app, self.store, **self._settings, **settings) as on:
            conversation = on.harness.conversation()
            yield on, conversation
            await self._collect(on, _of(conversation))

    @contextlib.asynccontextmanager
    async def stage(self, app: App, **settings: Any) -> AsyncIterator[Stage]:
        """A stage on which `app` is served inside this process; whatever is started on it is collected."""
        async with self.unserved_stage(app, **settings) as on, on.worker():
            yield on

    @contextlib.asynccontextmanager
    async def unserved_stage(self, app: App, **settings: Any) -> AsyncIterator[Stage]:
        """The same, with no worker yet."""
        async with idle_stage(self.server, app, self.store, **self._settings, **settings) as on:
            yield on
            await self._collect(on, f'TaskQueue = "{on.settings.task_queue}"')

    @contextlib.asynccontextmanager
    async def crashing(self, app: App, **settings: Any) -> AsyncIterator[tuple[Stage, Conversation]]:
        """A conversation served by a process, and by the next one when that has died; all of its queue is collected."""
        async with idle_stage(self.server, app, self.store, heartbeat_timeout=2.0, **self._settings, **settings) as on:
            serving = asyncio.create_task(self._serve(on))
            conversation = on.harness.conversation()
            yield on, conversation
            await self._collect(on, f'TaskQueue = "{on.settings.task_queue}"')
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    async def held(self, on: Stage) -> str:
        """The id of the work that is held, once some is."""

        async def find() -> str:
            return "".join([item.id async for item in on.harness.work(held_only=True)])

        return await eventually(find)

    async def _serve(self, on: Stage) -> None:
        settings = {f"{PREFIX}{name.upper()}": str(value) for name, value in on.settings.model_dump().items() if value}
        environment = environment_of(self.server.address) | settings | {RECOVERED: str(self.recovered)}
        while True:
            async with worker(CRASHING, log=self.folder / "worker.log", environment=environment) as child:
                await child.wait()

    async def _collect(self, on: Stage, query: str) -> None:
        async for found in on.client.list_workflows(query):
            handle = on.client.get_workflow_handle(found.id, run_id=found.run_id)
            history = await handle.fetch_history()
            # Another one has nothing to replay, and the replayer would wait for it for ever.
            if _has_begun(history):
                self.histories.append(history)


def _has_begun(history: WorkflowHistory) -> bool:
    return any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED for event in history.events)


def _of(conversation: Conversation) -> str:
    return f'TarryConversation = "{conversation.id}"'
