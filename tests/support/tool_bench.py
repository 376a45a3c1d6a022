"""Runs a tool as its activity does, in an activity's context but without a workflow."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from temporalio.activity import ActivityCancellationDetails
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.task.tools import ToolActivities
from tarry.app import Extension, Registry
from tarry.connect import data_converter
from tarry.core.protocol import Progress, Reconciliation, ResolvedCall, ToolOutcome, ToolRunInput
from tarry.core.waiting import ParkRequest
from tarry.environment import EnvironmentFactory
from tarry.settings import Settings
from tarry.store import BlobStore
from tarry.tools import Tool

STARTED = datetime(2030, 1, 1, tzinfo=UTC)
RUN_ID = "01890000-0000-7000-8000-000000000000"
RUN_AFTER_RESET = "01890000-0000-7000-8000-000000000001"


@dataclasses.dataclass
class Bench:
    """One attempt at a call, and what it heartbeats."""

    client: Client
    store: Path
    environment: ActivityEnvironment = dataclasses.field(default_factory=ActivityEnvironment)
    beats: list[Progress] = dataclasses.field(default_factory=list)
    environments: EnvironmentFactory | None = None

    def __post_init__(self) -> None:
        self.environment.on_heartbeat = self.beats.append
        self.informed(started_time=STARTED, heartbeat_timeout=timedelta(seconds=8), workflow_run_id=RUN_ID)

    def informed(self, **changes: Any) -> Bench:
        """Change what the platform says of the attempt."""
        self.environment.info = dataclasses.replace(self.environment.info, **changes)
        return self

    @property
    def blobs(self) -> BlobStore:
        """The store of the activities."""
        return BlobStore(data_converter(str(self.store)))

    def activities(self, *tools: Tool) -> ToolActivities:
        """The activities of a worker with these tools."""
        registry = Registry([Extension("test", tools, environment=self.environments)])
        return ToolActivities(registry, self.client, self.blobs, Settings(), grace=timedelta(seconds=0.2))

    async def run(self, used: Tool, run: int = 1, **call: Any) -> ToolOutcome:
        """Run a tool; `call` overrides what was resolved of it."""
        end = await self.ends(used, run, **call)
        assert isinstance(end, ToolOutcome)
        return end

    async def ends(self, used: Tool, run: int = 1, **call: Any) -> ToolOutcome | ParkRequest:
        """Run a tool that may ask to wait."""
        return await self.environment.run(self.activities(used).run, intent(used, run, **call))

    async def reconcile(self, used: Tool, **call: Any) -> Reconciliation:
        """Ask a tool's hook."""
        return await self.environment.run(self.activities(used).reconcile, intent(used, **call))

    async def cancelled(self, used: Tool, entered: asyncio.Event, **details: bool) -> ToolOutcome:
        """Run a tool and cancel the activity, for the reason in `details`, once the tool has `entered`."""
        running = asyncio.create_task(self.run(used))
        await entered.wait()
        self.environment.cancel(ActivityCancellationDetails(**details))
        return await running


def resolved(used: Tool, **call: Any) -> ResolvedCall:
    """A call of `used` as the registry resolves it; `call` overrides."""
    fields: dict[str, Any] = {"call_id": "c1", "tool": used.name, "replay": used.replay}
    fields |= {"timeout": used.timeout.total_seconds(), "reconciles": used.reconcile is not None}
    return ResolvedCall(**(fields | call))


def intent(used: Tool, run: int = 1, **call: Any) -> ToolRunInput:
    """What the activity is scheduled with."""
    return ToolRunInput(
        conversation_id="conv-1",
        task_id="no-such-workflow",
        call=resolved(used, **call),
        run=run,
        idempotency_key="key-1",
        heartbeat_timeout=8,
        first_run_id=RUN_ID,
    )


def signalling(event: asyncio.Event) -> Callable[[], object]:
    """Sets an event of this loop from any thread."""
    loop = asyncio.get_running_loop()
    return lambda: loop.call_soon_threadsafe(event.set)


def broken(store: Path) -> Path:
    """A place where no directory can be made."""
    place = store / "file"
    place.write_text("")
    return place
