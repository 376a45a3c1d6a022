"""The server is killed and started again on its file while values are delivered and wakes are watched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tarry.client import ServerUnavailable
from tarry.embedded import EmbeddedServer, ServerOptions
from tarry.processes import environment_of
from tests.support import waiting_app
from tests.support.command import Command, told
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A server of the test's own, with its state in a file."""
    async with EmbeddedServer(ServerOptions(database=tmp_path / "temporal.db")) as running:
        yield running


async def parked(on: Stage) -> str:
    """A call that waits for `done`."""
    await on.harness.conversation("c").submit("done")

    async def sleeping() -> list[str]:
        return [item.id async for item in on.harness.work() if item.state == "sleeping"]

    return (await eventually(sleeping))[0]


async def test_value_sent_to_a_dead_server_is_not_taken_for_delivered_and_is_delivered_once_by_a_repeat(
    mortal: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(mortal, waiting_app.app, tmp_path / "store") as on:
        async with on.worker():
            task_id = await parked(on)
        await mortal.kill()
        with pytest.raises(ServerUnavailable):
            await on.harness.signal(task_id, waiting_app.CI_RESULT.name, "other", {"status": "a"}, delivery_id="d1")
        await mortal.start()
        async with on.worker():
            answers = [
                await on.harness.signal(task_id, waiting_app.CI_RESULT.name, "other", {"status": "a"}, delivery_id="d1")
                for _ in range(2)
            ]
            receipts = (await on.harness.task(task_id)).receipts

    assert [answer.answer for answer in answers] == ["delivered", "delivered"]
    assert [(one.delivery_id, one.answer) for one in receipts] == [("d1", "delivered")]


async def test_accepted_value_outlives_a_killed_server(mortal: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(mortal, waiting_app.app, tmp_path / "store") as on:
        async with on.worker():
            task_id = await parked(on)
        kept = await on.harness.signal(task_id, waiting_app.CI_RESULT.name, "other", {"status": "a"})
        await mortal.kill()
        await mortal.start()
        async with on.worker():
            receipt = await on.harness.receipt(task_id, kept.delivery_id)

    assert (kept.answer, receipt and receipt.answer) == ("accepted", "delivered")


async def test_watching_waits_for_a_server_that_is_away_and_goes_on(mortal: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(mortal, waiting_app.app, tmp_path / "store") as on:
        async with on.worker():
            task_id = await parked(on)
        command = Command(tmp_path, environment_of(mortal.address) | {"TARRY_TASK_QUEUE": on.settings.task_queue})
        async with command.started("wake", "--watch", "--json") as watching:
            first = await told(watching)
            await mortal.kill()
            assert watching.stderr is not None
            complaint = await asyncio.wait_for(watching.stderr.readline(), PATIENCE)
            await mortal.start()
            await on.harness.signal(task_id, waiting_app.CI_RESULT.name, "done", {"status": "a"})
            second = await told(watching)

    assert (first["active"], second["active"], second["why"]) == (False, True, "backlog")
    assert complaint.startswith(b"tarry: no Temporal server answers")
