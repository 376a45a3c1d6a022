"""Calls that wait at a guarded gate, and what becomes of what comes for them."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.worker import Worker

from activities.hooks.gates import GateActivities
from activities.task.tools import ToolActivities
from activities.task.waiting import WaitingActivities
from tarry.core.protocol import RunSettings
from tarry.embedded import EmbeddedServer
from tarry.store import BlobStore
from tests.replay import kept
from tests.support.gating import Gated, Guard, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, names, wedges
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually


def activities(history: list[HistoryEvent]) -> list[str]:
    """The activities in a history, by name."""
    scheduled = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history]
    return [name for name in scheduled if name]


async def end_of(call: Gated) -> tuple[str, list[str], list[str]]:
    """How it ended, what was answered to what came, and its activities. Every one of its runs replays."""
    outcome = await call.ends()
    runs = await call.runs()
    for run in runs:
        assert wedges(run) == []
        await kept.replayer().replay_workflow(WorkflowHistory(call.id, run))
    answers: list[str] = [receipt.answer for receipt in await call.receipts()]
    return outcome.code, answers, [name for run in runs for name in activities(run)]


@dataclasses.dataclass
class Scene:
    """A stage with one guarded tool, and its first call, parked at the guard."""

    on: Stage
    guard: Guard
    ledger: Ledger
    call: Gated
    until: datetime | None

    async def in_the_pass(self) -> None:
        """Leave the awaited value, and return when the pass that judges it is under way."""
        await self.call.value("go")
        await self.guard.asked(2)

    async def sees(self, name: str, times: int = 1) -> None:
        """Return when a workflow task has taken in so many events of that kind, and all that came before."""

        async def seen() -> bool:
            found = names(await self.call.events())
            at = [place for place, kind in enumerate(found) if kind == name]
            return len(at) >= times and "WORKFLOW_TASK_COMPLETED" in found[at[times - 1] :]

        await eventually(seen)


@asynccontextmanager
async def parked(
    server: EmbeddedServer, store: Path, guard: Guard, settings: RunSettings | None = None, **stage_settings: int
) -> AsyncIterator[Scene]:
    """The call has parked, and its worker is gone."""
    ledger = Ledger()
    app = gated_app(ledger.edit, gate(guard, io=True))
    async with idle_stage(server, app, store, **stage_settings) as on:
        async with on.worker():
            chosen = settings or RunSettings(heartbeat_timeout=4.0)
            call = await start_gated(on, "edit", chosen, path="a.txt")
            view = await call.waits_for(ANSWER.key(guard.keys[0]))
        yield Scene(on, guard, ledger, call, view.until)


Ask = Callable[[GateActivities], Callable[..., Any]]


@asynccontextmanager
async def asks_only(on: Stage, ask: Ask = lambda gates: gates.ask) -> AsyncIterator[None]:
    """A worker that runs tools, judges and asks, or asks like that, and decides nothing."""
    tools = ToolActivities(on.app.registry, on.client, BlobStore(on.client.data_converter), on.settings)
    gates, waiting = GateActivities(on.app.registry, on.client), WaitingActivities(on.app.registry, on.client)
    chosen: list[Callable[..., Any]] = [tools.run, waiting.judge, waiting.referee, gates.tell, ask(gates)]
    async with Worker(on.client, task_queue=on.settings.task_queue, activities=chosen):
        yield
