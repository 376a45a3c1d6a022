"""Who wins when a value and the deadline of the wait on it come together: the history decides (spec §3.7)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from signals.parking import Sleep
from tarry.app import App
from tarry.connect import data_converter
from tarry.core.protocol import TOOL_RUN
from tarry.core.waiting import JUDGE, REFEREE
from tarry.embedded import EmbeddedServer, ServerOptions
from tests.support.parking import (
    ANSWER,
    YES,
    Call,
    Waits,
    names,
    start,
    tools_only,
    waiting_app,
    wedges,
    workflows_only,
)
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually

SOON = timedelta(seconds=8)
"""Far enough for what has to come before it, also on a machine that is ten times as slow."""
RACE = Sleep(signals=[ANSWER.key("done"), ANSWER.key("other")], until=SOON)


async def passed(deadline: datetime | None) -> None:
    """Return when the deadline is over, by the clock that the server shares with this test."""
    assert deadline is not None
    await asyncio.sleep(max((deadline - datetime.now(UTC)).total_seconds(), 0) + 0.01)


def scheduled(history: list[HistoryEvent]) -> list[str]:
    """The activities in a history, by name."""
    return [
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in history
        if event.HasField("activity_task_scheduled_event_attributes")
    ]


async def end_of(call: Call) -> tuple[str, list[str]]:
    """Its result, and what was answered to the deliveries that it knows of."""
    text = (await call.ends()).text
    assert wedges(await call.history()) == []
    return text, [receipt.answer for receipt in await call.receipts()]


async def test_value_that_was_stored_before_the_deadline_wins_although_no_worker_was_up_for_either(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(RACE)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            calls = [await start(on, waits.tool) for _ in range(4)]
            deadlines = [(await call.parked()).until for call in calls]
        before, after, both, neither = calls
        await before.signal("done", YES)
        await both.signal("other", {"text": "first"})
        await passed(max(deadline for deadline in deadlines if deadline))
        await after.signal("done", YES)
        await both.signal("done", YES)
        async with on.worker():
            ends = {
                "before": await end_of(before),
                "after": await end_of(after),
                "both": await end_of(both),
                "neither": await end_of(neither),
            }
            asked = [scheduled(await call.history()).count(REFEREE) for call in calls]

    assert ends == {
        "before": ("signal test.answer/done: yes", ["delivered"]),
        "after": ("expired", ["closed"]),
        "both": ("signal test.answer/other: first", ["delivered", "closed"]),
        "neither": ("expired", []),
    }
    assert asked == [1, 1, 1, 0]


async def test_value_wins_or_is_closed_and_the_outcome_says_the_same_whichever_comes_first(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(RACE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        calls = [await start(on, waits.tool) for _ in range(12)]
        deadlines = [(await call.parked()).until for call in calls]

        async def deliver(call: Call, deadline: datetime | None, offset: int) -> None:
            assert deadline is not None
            await passed(deadline - timedelta(milliseconds=10 * offset))
            try:
                await call.signal("done", YES)
            except RPCError as error:  # a fast machine has ended the call by then
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise

        await asyncio.gather(
            *(deliver(call, deadline, 6 - n) for n, (call, deadline) in enumerate(zip(calls, deadlines, strict=True)))
        )
        ends = [await end_of(call) for call in calls]

        wanted = [won(await call.history(), deadline) for call, deadline in zip(calls, deadlines, strict=True)]

    assert ends == wanted


def won(history: list[HistoryEvent], deadline: datetime | None) -> tuple[str, list[str]]:
    """How a call has to end by when the server stored its value, if it came at all."""
    assert deadline is not None
    stored = [event.event_time for event in history if event.HasField("workflow_execution_signaled_event_attributes")]
    if not stored:
        return "expired", []
    in_time = stored[0].ToDatetime(tzinfo=UTC) < deadline
    return ("signal test.answer/done: yes", ["delivered"]) if in_time else ("expired", ["closed"])


async def test_nobody_asks_the_history_when_the_value_is_seen_before_the_deadline(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(RACE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await call.signal("done", YES)

        assert await end_of(call) == ("signal test.answer/done: yes", ["delivered"])
        assert scheduled(await call.history()) == [TOOL_RUN, JUDGE, TOOL_RUN]


async def test_update_comes_when_a_worker_takes_it_and_one_after_the_deadline_leaves_no_event(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(RACE)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            deadline = (await call.parked()).until
        update = asyncio.create_task(call.update("done", YES))
        await passed(deadline)
        async with on.worker():
            told = await update
            end = await end_of(call)
            history = names(await call.history())

    assert (told.answer, told.reason) == ("closed", "the deadline of the wait has passed")
    assert end == ("expired", [])
    assert "WORKFLOW_EXECUTION_UPDATE_ACCEPTED" not in history


async def test_every_value_that_came_too_late_is_closed_by_one_look_at_the_history(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(RACE)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            deadline = (await call.parked()).until
        for n in range(10):
            await call.signal(f"junk {n}", YES)
        await passed(deadline)
        for n in range(10):
            await call.signal(f"late junk {n}", {"text": n})
            await call.signal("done", {"text": f"late {n}"})
        await call.signal("early for another wait", YES)
        async with on.worker():
            end = await end_of(call)
            looks = scheduled(await call.history()).count(REFEREE)

    assert end == ("expired", [*["delivered"] * 10, *["invalid", "closed"] * 10, "delivered"])
    assert looks == 1


async def test_deadline_that_has_passed_when_the_park_is_first_seen_meets_what_is_still_unjudged(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(RACE, holds=lambda seen: not seen.wake)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with tools_only(on):
            call = await start(on, waits.tool)
            async with workflows_only(on):
                await eventually(call.events, lambda found: "ACTIVITY_TASK_SCHEDULED" in names(found))
            await waits.ran(1)
            waits.go.set()
            await eventually(call.events, lambda found: "ACTIVITY_TASK_COMPLETED" in names(found))
        await call.signal("junk", YES)
        await passed(datetime.now(UTC) + SOON)
        async with on.worker():
            end = await end_of(call)

    assert end == ("expired", ["delivered"])


async def connected(server: EmbeddedServer, app: App, on: Stage) -> Stage:
    """The same stage over a new connection: the server was away."""
    client = await Client.connect(server.address, data_converter=data_converter(on.settings.store))
    return Stage(client, on.settings, app)


async def test_race_is_decided_the_same_when_the_server_was_killed_between(tmp_path: Path) -> None:
    waits = Waits(Sleep(signals=RACE.signals, until=SOON))
    app = waiting_app(waits.tool)
    options = ServerOptions(database=tmp_path / "temporal.db")
    async with EmbeddedServer(options) as server, idle_stage(server, app, tmp_path / "store") as on:
        async with on.worker():
            before, after = await start(on, waits.tool), await start(on, waits.tool)
            deadlines = [(await call.parked()).until for call in (before, after)]
        await before.signal("done", YES)
        await server.kill()
        await passed(max(deadline for deadline in deadlines if deadline))
        await server.start()
        again = await connected(server, app, on)
        before, after = Call(again.client, before.id), Call(again.client, after.id)
        await after.signal("done", YES)
        async with again.worker():
            ends = [await end_of(before), await end_of(after)]

    assert ends == [("signal test.answer/done: yes", ["delivered"]), ("expired", ["closed"])]
