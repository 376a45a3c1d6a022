"""One worker is killed with a durable task at every place it can be in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tarry import Outcome
from tarry.client import DurableTaskHandle
from tarry.embedded import EmbeddedServer
from tests.support.histories import Account
from tests.support.parked_app import DONE, NEWS
from tests.support.parked_drills import Course, ParkedDrill

PLACES = {"phase": ["in a phase"], "parked": [], "woken phase": ["in the woken phase"], "handler": ["in the hook"]}

PLACED = ["place 1, key 1", "wait 1, key 2 after {'asked': True}"]
READ = f"read 1, key 3, signal {NEWS.name}/{DONE} after waited"
THRICE = ("completed 1",) * 3


@dataclass
class Killed:
    """The drill after the kill, its second worker serving, and every task by its place."""

    drill: ParkedDrill
    tasks: dict[str, DurableTaskHandle[str]]

    async def course(self, place: str) -> Course:
        return await self.drill.course(self.tasks[place])


@pytest.fixture(scope="module")
async def killed(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Killed]:
    """The one kill."""
    async with ParkedDrill(server, tmp_path_factory.mktemp("tasks"), tracker_url) as on:
        first = await on.worker()
        tasks = {place: await on.start_order(stop_at=points) for place, points in PLACES.items()}
        for place in ("parked", "woken phase", "handler"):
            await on.parked(tasks[place].id)
        await on.send(tasks["woken phase"].id, "it rains", "d")
        await on.harness.abort(tasks["handler"].id)
        for place in ("phase", "woken phase", "handler"):
            await on.points.reached(tasks[place].id)
        await first.kill()
        await on.send(tasks["parked"].id, "it rains", "d")
        await on.worker()
        yield Killed(on, tasks)


async def test_task_killed_in_a_phase_runs_it_again_with_one_effect(killed: Killed) -> None:
    task = killed.tasks["phase"]
    await killed.drill.parked(task.id)
    await killed.drill.send(task.id, "it rains", "d")

    assert await killed.course("phase") == Course(
        outcome=Outcome("completed", "it rains"),
        ledger=["place 1, key 1", "place 2, key 1", *PLACED[1:], READ],
        account=Account(models=(), tools=("completed 2", "completed 1", "completed 1"), announced=1),
    )


async def test_task_killed_while_parked_goes_on_with_what_came_meanwhile(killed: Killed) -> None:
    assert await killed.course("parked") == Course(
        outcome=Outcome("completed", "it rains"), ledger=[*PLACED, READ], account=Account(models=(), tools=THRICE)
    )


async def test_task_killed_in_its_woken_phase_runs_it_again_with_the_same_wake(killed: Killed) -> None:
    assert await killed.course("woken phase") == Course(
        outcome=Outcome("completed", "it rains"),
        ledger=[*PLACED, READ, READ.replace("read 1", "read 2")],
        account=Account(models=(), tools=("completed 1", "completed 1", "completed 2"), announced=1),
    )


async def test_abort_handler_that_is_killed_is_run_again_and_the_task_is_aborted_once(killed: Killed) -> None:
    task = killed.tasks["handler"]
    handled = "cancelled {}, key 2 after waited"

    assert await killed.course("handler") == Course(
        outcome=Outcome("aborted"),
        ledger=[*PLACED, handled.format(2), handled.format(3)],
        account=Account(models=(), tools=("completed 1", "completed 1"), clean_ups=("completed 2",)),
        receipts=(),
    )
    (asked,) = await killed.drill.tickets(task.id)
    assert [line for line in killed.drill.lines("cleaned") if line["conversation_id"] == task.id] == [
        {"conversation_id": task.id, "memo": asked, "checkpoint": "waited"}
    ]
