"""Workers of a name from outside: lists, `tarry wake`, `GET /wake` and `tarry scale` (spec §25.3)."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import SecretStr

from tarry.client import Submission, WakeCheck, WakePlan
from tarry.client.standing import look
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tests.support import gpu_app
from tests.support.command import Command, interrupt
from tests.support.gateways import gateway
from tests.support.programs import ROOT
from tests.support.scaling import scaled, workers_in
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually

TOKEN = "t" * 32
IDLE = WakePlan(active=False)
BACKLOG = WakePlan(active=True, why="backlog")


@pytest.fixture
def tarry(server: EmbeddedServer, tmp_path: Path) -> Command:
    """The command, in a folder of its own."""
    kept = {name: value for name, value in environment_of(server.address).items() if not name.startswith("TARRY_")}
    return Command(tmp_path, kept | {"PYTHONPATH": str(ROOT)})


@contextlib.asynccontextmanager
async def waiting(server: EmbeddedServer, folder: Path) -> AsyncIterator[tuple[Stage, Submission, str]]:
    """A call that waits for a worker of its name, which nobody has started, and its id."""
    async with stage(server, gpu_app.app, folder / "store") as on:
        submission = await on.harness.conversation().submit("go")

        async def lists() -> list[str]:
            return [item.id async for item in on.harness.work() if item.worker and item.queue.startswith(queue)]

        queue = on.settings.task_queue
        yield on, submission, (await eventually(lists))[0]


async def test_gauges_tell_of_each_name_what_waits_and_whether_a_worker_is_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with waiting(server, tmp_path) as (on, submission, _):

        async def told() -> tuple[int, int, bool]:
            names = on.app.registry.workers
            found = await look(on.client, on.settings.task_queue, datetime.now(UTC), names)
            assert (
                {worker for _, worker in found.backlog}
                == {worker for _, worker in found.pollers}
                == {"default", *names}
            )
            return (
                found.backlog["activity", "gpu"],
                found.pollers["activity", "gpu"],
                bool(found.pollers["workflow", "default"]),
            )

        await eventually(told, lambda found: found == (1, 0, True))
        async with on.special("gpu"):
            await submission.wait()
            await eventually(told, lambda found: found == (0, 1, True))


async def test_lists_say_that_no_worker_of_the_name_is_there_and_how_to_start_one(
    server: EmbeddedServer, tarry: Command
) -> None:
    async with waiting(server, tarry.folder) as (on, _, task_id):
        listed = await tarry.run("ps")
        explained = await tarry.run("explain", task_id)
        facts = (await tarry.run("explain", task_id, "--json")).json

    (line,) = [line for line in listed.out.splitlines() if task_id in line]
    assert "gpu (none is there)" in line
    assert "waits for a worker that serves gpu: none is there" in explained.out
    assert "tarry worker --serves gpu" in explained.out
    assert "no worker has taken it for" in facts["pending"][0]
    assert (facts["worker"], facts["queue"], facts["unserved"]) == ("gpu", f"{on.settings.task_queue}/gpu", True)


async def test_wake_tells_for_each_kind_of_worker_whether_it_is_needed(server: EmbeddedServer, tarry: Command) -> None:
    async with waiting(server, tarry.folder) as (on, submission, _):
        gpu, other = [WakeCheck(on.client, on.settings.task_queue, (name,)) for name in ("gpu", "other")]
        before = await eventually(gpu.look, lambda plan: plan.active), await other.look()
        async with gateway(on, gateway_token=SecretStr(TOKEN)) as sender:
            asked = [
                (await sender.http.get(f"/wake?serves={name}", headers={"Authorization": f"Bearer {TOKEN}"})).json()
                for name in ("gpu", "other", "no name")
            ]
        async with on.special("gpu"):
            await submission.wait()
        after = await eventually(gpu.look, lambda plan: not plan.active)

    assert before == (BACKLOG, IDLE)
    assert [found.get("workers") for found in asked] == [1, 0, None]
    assert asked[0]["task_queue"] == f"{on.settings.task_queue}/gpu"
    assert asked[2]["answer"] == "refused"
    assert after == IDLE


async def test_supervisor_of_a_name_starts_its_worker_for_what_waits_and_stops_it_again(
    server: EmbeddedServer, tarry: Command
) -> None:
    async with waiting(server, tarry.folder) as (on, submission, task_id):
        ours = {"TARRY_TASK_QUEUE": on.settings.task_queue, "TARRY_STORE": on.settings.store, "TARRY_SERVES": "gpu"}
        async with scaled(tarry, gpu_app.NAME, ours) as scale:
            begun = await scale.until("started")
            working = await scale.until("working")
            answer = (await submission.wait()).answer_text
            await scale.until("stopped", code=0)
            left = workers_in(tarry)
            await interrupt(scale.process, signal.SIGTERM)

    assert (begun["cause"], working["work"], answer, left) == ("backlog", task_id, "rendered sea", [])
    assert scale.said[0]["serves"] == ["gpu"]
