"""Workers at zero: `tarry scale` with real processes, a real gateway and a real server (spec §9.4)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tests.support import webhook_app
from tests.support.command import Command, interrupt
from tests.support.gateways import CALLBACK_SECRETS, GATEWAY_URL, Sender, parked
from tests.support.programs import ROOT, living_in
from tests.support.scaling import scaled, workers_in
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import PATIENCE, eventually
from tests.support.webhook_app import SCALED, SECRETS, CiResult, Report

MODULE = webhook_app.__name__


@pytest.fixture
def tarry(server: EmbeddedServer, tmp_path: Path) -> Command:
    """The command in a folder of its own, where supervisor and gateway find each other."""
    folder = tmp_path / "home"
    folder.mkdir()
    kept = {name: value for name, value in environment_of(server.address).items() if not name.startswith("TARRY_")}
    callbacks = {"TARRY_CALLBACK_SECRETS": CALLBACK_SECRETS, "TARRY_GATEWAY_URL": GATEWAY_URL}
    return Command(folder, kept | SECRETS | callbacks | {"TARRY_GATEWAY_PORT": "0", "PYTHONPATH": str(ROOT)})


@pytest.fixture
async def on(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Stage]:
    """A task queue on which nobody works; worker processes load their own application."""
    async with idle_stage(server, webhook_app.app, tmp_path / "store") as idle:
        yield idle


def of_stage(on: Stage) -> dict[str, str]:
    return {"TARRY_TASK_QUEUE": on.settings.task_queue, "TARRY_STORE": on.settings.store}


@asynccontextmanager
async def gateway(tarry: Command, on: Stage) -> AsyncIterator[Sender]:
    """A gateway process in the same folder, and a sender to it."""
    async with tarry.started("gateway", "--app", webhook_app.NAME, variables=of_stage(on)) as process:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            _, url = (await process.stdout.readline()).decode().split()
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http:
            yield Sender(http)


async def test_webhook_that_comes_while_no_worker_is_up_wakes_one_at_once_and_the_parked_call_goes_on(
    tarry: Command, on: Stage
) -> None:
    async with gateway(tarry, on) as sender, scaled(tarry, f"{MODULE}:building", of_stage(on)) as scale:
        assert (workers_in(tarry), scale.events) == ([], [])
        submission = await on.harness.conversation().submit("build it")
        begun = await scale.until("started")
        first = await scale.until("working")
        await scale.until("stopped", code=0)
        at_zero = workers_in(tarry)
        task_id = await parked(on, submission.conversation_id)

        answered = await sender.ci(SCALED, "passed")
        poked = await scale.until("poked")
        woken = await scale.until("started")
        working = await scale.until("working")
        answer = (await submission.wait()).answer_text
        await scale.until("stopped", code=0)
        done = await interrupt(scale.process, signal.SIGTERM)

    assert (begun["cause"], first["work"]) == ("backlog", submission.conversation_id)
    assert at_zero == []
    assert (answered.status, answered.answer) in ((200, "delivered"), (202, "accepted"))
    assert (poked["what"], woken["cause"], answer) == (answered.delivery_id, "poke", "CI passed")
    assert working["work"] in (task_id, task_id.split("/t")[0], submission.conversation_id)
    assert 0 <= working["seconds"]["started"] < working["seconds"]["ready"] <= working["seconds"]["working"]
    assert scale.events == ["started", "serving", "working", "stopping", "stopped"] * 2
    assert (done.code, done.json["event"], done.json["exit_code"]) == (0, "ended", 0)
    assert living_in(tarry.folder) == []


async def test_workers_are_back_a_little_before_the_next_deadline(tarry: Command, on: Stage) -> None:
    async with scaled(tarry, f"{MODULE}:hurried", of_stage(on)) as scale:
        submission = await on.harness.conversation().submit("test it")
        await scale.until("stopped", code=0)
        at_zero = workers_in(tarry)
        woken = await scale.until("started")
        working = await scale.until("working")
        answer = (await submission.wait()).answer_text

    assert (at_zero, woken["cause"], answer) == ([], "deadline", "CI never reported")
    assert -10.1 < working["seconds"]["started"] < 0


async def test_worker_that_is_killed_is_replaced_and_ctrl_c_ends_what_the_supervisor_started_alone(
    tarry: Command, on: Stage
) -> None:
    async with (
        gateway(tarry, on) as sender,
        scaled(tarry, webhook_app.NAME, of_stage(on), TARRY_SCALE_MIN="1") as scale,
    ):
        first = await scale.until("serving")
        os.kill(first["pid"], signal.SIGKILL)
        died = await scale.until("died")
        second = await scale.until("serving")
        done = await interrupt(scale.process)
        others = await sender.http.get("/healthz")

    assert (died["code"], died["deaths"], died["pause"]) == (-9, 1, 1.0)
    assert second["pid"] != first["pid"]
    assert scale.events == ["started", "serving", "died", "started", "serving"]
    assert (done.code, [line.split('"')[3] for line in done.out.splitlines()][-3:]) == (
        0,
        ["stopping", "stopped", "ended"],
    )
    assert (others.status_code, workers_in(tarry)) == (200, [])


async def test_supervisor_that_is_killed_leaves_no_worker_behind(tarry: Command, on: Stage) -> None:
    async with scaled(tarry, webhook_app.NAME, of_stage(on), TARRY_SCALE_MIN="1") as scale:
        await scale.until("serving")
        scale.process.kill()
        await scale.process.wait()

    async def left() -> list[str]:
        return workers_in(tarry)

    await eventually(left, lambda found: not found)


async def test_two_supervisors_on_one_queue_do_no_harm(tarry: Command, on: Stage) -> None:
    async with (
        scaled(tarry, webhook_app.NAME, of_stage(on), TARRY_SCALE_MIN="1") as one,
        scaled(tarry, webhook_app.NAME, of_stage(on), TARRY_SCALE_MIN="1") as other,
    ):
        await asyncio.gather(one.until("serving"), other.until("serving"))
        submission = await on.harness.conversation().submit("test it")
        task_id = await parked(on, submission.conversation_id)
        first = await interrupt(one.process)
        left = workers_in(tarry)
        await on.harness.signal(task_id, CiResult, "done", Report(status="passed"))
        answer = (await submission.wait()).answer_text
        second = await interrupt(other.process)

    assert [one.said[0]["socket"], other.said[0]["socket"]] == [".tarry/scale.sock", None]
    assert (answer, len(left)) == ("CI passed", 1)
    assert [first.code, second.code] == [0, 0]
    assert living_in(tarry.folder) == []
