"""Two hundred calls parked at once, counted: what each keeps, what waiting adds, and what a worker then finds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from signals.parking import Sleep
from tarry.core.protocol import ToolOutcome
from tarry.embedded import EmbeddedServer
from tests.support.parking import ANSWER, HOUR, Call, Seen, Waits, counts, start, waiting_app
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually

CALLS = 200
EVENTS = {
    "WORKFLOW_EXECUTION_STARTED": 1,
    "WORKFLOW_TASK_COMPLETED": 2,
    **{f"ACTIVITY_TASK_{part}": 1 for part in ("SCHEDULED", "STARTED", "COMPLETED")},
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES": 1,
    "WORKFLOW_PROPERTIES_MODIFIED": 1,
    "TIMER_STARTED": 1,
}
"""Of a call from its start to its park."""
TRIES = {f"WORKFLOW_TASK_{part}" for part in ("SCHEDULED", "STARTED", "TIMED_OUT")}
"""A task that waits a second for its busy worker is sent anew: how often is the machine's matter."""


@dataclass(frozen=True)
class Crowd:
    """What was seen: the events of each parked call, the lengths of all histories from then on, the end of each."""

    events: list[dict[str, int]]
    parked: list[int]
    without_worker: list[int]
    after_restart: list[int]
    outcomes: list[ToolOutcome]
    runs: list[Seen]


@pytest.fixture(scope="module")
async def crowd(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Crowd:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=HOUR))
    async with idle_stage(server, waiting_app(waits.tool), tmp_path_factory.mktemp("store")) as on:
        async with on.worker():
            calls = await asyncio.gather(*(start(on, waits.tool) for _ in range(CALLS)))
            await sleeping(on, CALLS)
            histories = await asyncio.gather(*(call.events() for call in calls))
            parked = await lengths(calls)
        without_worker = await lengths(calls)
        async with on.worker():
            await another(on, waits)
            after_restart = await lengths(calls)
        await asyncio.gather(*(call.signal("done", {"text": str(n)}) for n, call in enumerate(calls)))
        async with on.worker():
            outcomes = await asyncio.gather(*(call.ends() for call in calls))
    return Crowd([counts(events) for events in histories], parked, without_worker, after_restart, outcomes, waits.seen)


async def sleeping(on: Stage, wanted: int) -> None:
    """Return when lists show so many parked."""
    query = f'TaskQueue = "{on.settings.task_queue}" AND TarryState = "sleeping"'

    async def shown() -> int:
        return (await on.client.count_workflows(query)).count

    await eventually(shown, lambda found: found == wanted)


async def lengths(calls: list[Call]) -> list[int]:
    """The events of each history, as the server counts them: no worker is asked."""
    found = await asyncio.gather(*(call.handle.describe() for call in calls))
    return [each.raw_description.workflow_execution_info.history_length for each in found]


async def another(on: Stage, waits: Waits) -> None:
    """One more call from its start to its end: whatever was due before it has been done."""
    call = await start(on, waits.tool)
    await call.parked()
    await call.update("done", {"text": "passed"})
    await call.ends()


async def test_each_parked_call_keeps_the_same_thirteen_events(crowd: Crowd) -> None:
    without_tries = [{name: count for name, count in each.items() if name not in TRIES} for each in crowd.events]

    assert without_tries == [EVENTS] * CALLS
    assert min(crowd.parked) == 13


async def test_waiting_adds_no_event_to_any_history_with_a_worker_without_and_with_another(crowd: Crowd) -> None:
    assert crowd.without_worker == crowd.parked
    assert crowd.after_restart == crowd.parked


async def test_every_signal_left_with_no_worker_wakes_its_call_once_with_its_own_value(crowd: Crowd) -> None:
    woken = [run for run in crowd.runs if run.wake]

    assert [outcome.text for outcome in crowd.outcomes] == [f"signal test.answer/done: {n}" for n in range(CALLS)]
    assert {receipt.answer for outcome in crowd.outcomes for receipt in outcome.facts.receipts} == {"delivered"}
    assert [len(outcome.facts.receipts) for outcome in crowd.outcomes] == [1] * CALLS
    assert (len(woken), len({run.idempotency_key for run in woken})) == (CALLS + 1, CALLS + 1)
    assert len(crowd.runs) == 2 * (CALLS + 1)
