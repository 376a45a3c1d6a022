"""What a tree of agents costs, counted in events of its history, never in time.

An update is a workflow task and two events, an order an activity and the task that hears of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from bench.histories import Cost, cost_of
from tarry.client.errors import AgentRefused
from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import Grove, grove
from tests.support.waiting import eventually

TAKEN_UP = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED,
)
UPDATE = 5
ORDER = 6
SIGNAL = 4
FLAT = 1.1


async def events(on: Grove) -> int:
    """How many there are once a worker has taken up all that came."""
    handle = on.on.client.get_workflow_handle(on.tree.id)

    async def is_taken_up() -> bool:
        return (await handle.fetch_history()).events[-1].event_type in TAKEN_UP

    await eventually(is_taken_up)
    return (await cost_of(on.on.client, on.tree.id)).events


async def test_a_message_costs_five_events(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a")
        await on.completions(1)
        before = await events(on)

        for number in range(10):
            await on.send("a", f"m{number}")

        assert await events(on) - before == 10 * UPDATE


async def test_a_turn_costs_its_request_its_beginning_its_end_and_its_look_up(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a")
        await on.completions(1)
        before = await events(on)

        await on.follow_up("a", "more")
        await eventually(lambda: on.row("/root/a"), lambda row: bool(row.turns == 2 and row.state == "idle"))

        # The follow-up, the turn's beginning, the delivery of its end, and the look-up of its answer.
        assert await events(on) - before == UPDATE + ORDER + UPDATE + ORDER


async def test_many_turns_at_once_cost_no_more_each_than_one_alone(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path, limit=16) as on:
        for _ in range(16):
            await on.start()

        await on.completions(16)

        told_root, reading = ORDER, 16 * (UPDATE + SIGNAL)
        assert await events(on) <= 4 + told_root + 16 * (UPDATE + ORDER + UPDATE + ORDER) + reading


async def test_reading_costs_an_update_and_a_signal(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a")
        await eventually(lambda: on.row("/root/a"), lambda row: row.state == "idle")
        before = await events(on)

        await on.completions(1)

        assert await events(on) - before <= UPDATE + SIGNAL


async def test_a_child_costs_as_much_after_60_as_after_10(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        costs: list[Cost] = []
        for number in range(1, 61):
            await on.start(f"child-{number}")
            await on.completions(1)
            if number in (10, 35, 60):
                await events(on)
                costs.append(await cost_of(on.on.client, on.tree.id))

        first, last = costs[1] - costs[0], costs[2] - costs[1]
        assert last.events <= first.events * FLAT
        assert last.bytes <= first.bytes * FLAT


async def test_what_is_refused_leaves_no_event(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a")
        await on.completions(1)
        before = await events(on)

        for refused in (on.start("a"), on.start("B"), on.send("nobody", "m"), on.follow_up("a"), on.interrupt("/root")):
            with pytest.raises(AgentRefused):
                await refused

        assert await events(on) == before
