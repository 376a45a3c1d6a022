"""A worker inside the test process, for one application on a queue of its own."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.worker import Worker

from tarry.app import App, Extension
from tarry.client import Harness
from tarry.connect import converter_of
from tarry.core.transcript import Entry
from tarry.embedded import EmbeddedServer
from tarry.models import Model
from tarry.settings import Settings
from tarry.tools import Tool
from tests.support.waiting import eventually
from workers.special import build_special
from workers.worker import build_worker


@dataclass
class Stage:
    """Client and harness of a test; workers are started and stopped on it as the test wants.

    They run in the test's own process, which can hold and look into them; those of `tarry.testing.Stage` are processes.
    """

    client: Client
    settings: Settings
    app: App
    harness: Harness = field(init=False)

    def __post_init__(self) -> None:
        self.harness = Harness(self.client, self.settings)

    def worker(self, app: App | None = None) -> Worker:
        """One more worker, to be used with `async with`."""
        return build_worker(self.client, app or self.app, self.settings)

    def special(self, name: str, app: App | None = None) -> Worker:
        """A worker that runs only the tools that name it, to be used with `async with`."""
        return build_special(self.client, app or self.app, self.settings, name)

    async def histories(self, conversation_id: str) -> dict[str, list[str]]:
        """The names of the events of every workflow of a conversation, all its runs, by workflow id."""
        names: dict[str, list[str]] = {}
        query = f'TarryConversation = "{conversation_id}"'
        async for found in self.client.list_workflows(query):
            history = await self.client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
            events = [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events]
            names[found.id] = [*events, *names.get(found.id, [])]
        return names


async def taken_up(client: Client, workflow_id: str) -> None:
    """Return when a worker has taken up all that came to a workflow: what comes beside a cancel counts before it."""
    handle = client.get_workflow_handle(workflow_id)
    await eventually(handle.describe, lambda found: not found.raw_description.HasField("pending_workflow_task"))


def app_of(model: Model, *tools: Tool, instructions: str = "") -> App:
    """An application of one extension."""
    return App(model=model, instructions=instructions, extensions=[Extension("test", tools)])


@contextlib.asynccontextmanager
async def stage(server: EmbeddedServer, app: App, store: Path, **settings: Any) -> AsyncIterator[Stage]:
    """A stage with one worker running. `settings` override the defaults, as `Settings` takes them."""
    async with idle_stage(server, app, store, **settings) as made, made.worker():
        yield made


@contextlib.asynccontextmanager
async def idle_stage(server: EmbeddedServer, app: App, store: Path, **settings: Any) -> AsyncIterator[Stage]:
    """A stage on which no worker runs yet."""
    chosen = Settings(task_queue=f"test-{uuid.uuid4().hex[:8]}", store=str(store), **settings)
    client = await Client.connect(server.address, data_converter=converter_of(chosen))
    yield Stage(client, chosen, app)


def kinds(entries: Sequence[Entry]) -> list[str]:
    """The kinds of all entries but those of the prompt, for whole-state assertions; these have tests of their own."""
    return [entry.kind for entry in entries if entry.kind != "system"]
