"""Which hooks count on a task queue: announced by workers, published by deploys (spec §5.3)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tarry import cli
from tarry.connect import data_converter
from tarry.core.registry import ANNOUNCE, CURRENT, PUBLISH, registry_id
from tarry.embedded import EmbeddedServer, ServerOptions, free_port
from tarry.processes import environment_of
from tarry.settings import Settings
from tarry.testing import Stage
from tests.replay.kept import replayer
from tests.support import waiting_app
from tests.support.deploys import Gate, app_of, current, events, sweeps, swept, tell
from tests.support.stage import Stage as InProcessStage
from tests.support.stage import idle_stage
from tests.support.waiting import eventually
from workers.worker import announce_hooks
from workflows import registry


async def test_what_was_published_wins_over_workers_of_older_and_of_newer_deploys(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    first, second, third = (app_of(Gate("people", version=version)) for version in ("1", "2", "3"))
    async with idle_stage(server, first, tmp_path) as on, on.worker():
        await tell(on, first)
        await tell(on, second)
        announced = await current(on)
        await tell(on, first)
        again = await current(on)
        await on.harness.publish(first)
        await tell(on, second)
        await tell(on, third)
        published = await current(on)
        await on.harness.publish(third)
        last = await current(on)

    fingerprints = [app.registry.fingerprint for app in (second, second, first, third)]
    assert [announced, again, published, last] == fingerprints


async def test_publishing_twice_says_the_same_and_sweeps_once(server: EmbeddedServer, tmp_path: Path) -> None:
    app = app_of(Gate("people"))
    async with idle_stage(server, app, tmp_path) as on:
        first, second = await on.harness.publish(app), await on.harness.publish(app)
        async with on.worker():
            await swept(on, 1)

            assert first == second == await current(on)
            assert await sweeps(on) == 1


async def test_what_is_known_goes_along_when_the_run_turns_over_and_every_run_replays(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "TURNOVER_EVENTS", 20)
    first, second = app_of(Gate("people")), app_of(Gate("people", version="2"))
    async with idle_stage(server, first, tmp_path, max_cached_workflows=0) as on, on.worker():
        await tell(on, first)
        handle = on.client.get_workflow_handle(registry_id(on.settings.task_queue))
        born = (await handle.describe()).run_id
        await tell(on, second)

        async def is_another() -> bool:
            await tell(on, first)
            return (await handle.describe()).run_id != born

        await eventually(is_another)
        await tell(on, first)

        assert await current(on) == second.registry.fingerprint
        for run_id in (born, None):
            history = await on.client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
            await replayer().replay_workflow(history)


async def test_a_change_during_a_sweep_gives_that_one_up_and_sweeps_for_what_counts_now(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    first, second = app_of(Gate("people")), app_of(Gate("people", version="2"))
    async with idle_stage(server, first, tmp_path) as on:

        async def begun() -> int:
            return sum(event.event_type == _BEGUN for event in await events(on, registry_id(on.settings.task_queue)))

        unswept = Worker(
            on.client,
            task_queue=on.settings.task_queue,
            workflows=[registry.Registry],
            workflow_runner=UnsandboxedWorkflowRunner(),
        )
        async with unswept:
            await on.harness.publish(first)
            await eventually(begun, lambda count: count == 1)
            await on.harness.publish(second)
            await eventually(begun, lambda count: count == 2)
        async with on.worker():
            await eventually(lambda: _sweeps_ended(on), lambda count: count == 1)

            assert await current(on) == second.registry.fingerprint
            assert await begun() == 2


_BEGUN = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED


async def _sweeps_ended(on: InProcessStage) -> int:
    history = await events(on, registry_id(on.settings.task_queue))
    return sum(event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED for event in history)


async def test_signals_that_nobody_can_read_do_no_harm(server: EmbeddedServer, tmp_path: Path) -> None:
    app = app_of(Gate("people"))
    async with idle_stage(server, app, tmp_path) as on, on.worker():
        await tell(on, app)
        handle = on.client.get_workflow_handle(registry_id(on.settings.task_queue))
        for name in (PUBLISH, ANNOUNCE, "anything"):
            for args in ([], [{"no": "text"}], [5], ["x" * 500], [""], ["a", "b"]):
                await handle.signal(name, args=args)

        assert await current(on) == app.registry.fingerprint
        assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING


async def test_a_worker_tells_of_its_hooks_when_it_starts(server: EmbeddedServer, tmp_path: Path) -> None:
    async with Stage(waiting_app.NAME, server=server, folder=tmp_path) as on:
        await on.start_worker()
        handle = on.harness.client.get_workflow_handle(registry_id(on.harness.settings.task_queue))

        async def told() -> str:
            with contextlib.suppress(RPCError):
                found: str = await handle.query(CURRENT)
                return found
            return ""

        assert await eventually(told) == waiting_app.app.registry.fingerprint


async def test_an_announcement_waits_for_a_server_that_is_away(tmp_path: Path) -> None:
    options = ServerOptions(port=free_port())
    settings = Settings(task_queue="away", store=str(tmp_path))
    async with EmbeddedServer(options) as server:
        client = await Client.connect(server.address, data_converter=data_converter(settings.store))
    announcing = asyncio.create_task(announce_hooks(client, app_of(), settings))
    async with EmbeddedServer(options):
        await announcing
        found = await client.get_workflow_handle(registry_id("away")).describe()

    assert found.status == WorkflowExecutionStatus.RUNNING


def test_command_publishes_the_hooks_of_an_application(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    queue = f"test-{uuid.uuid4().hex[:8]}"
    for name, value in (environment_of(server.address) | {"TARRY_TASK_QUEUE": queue}).items():
        monkeypatch.setenv(name, value)
    codes = [cli.run(["registry", "publish", *arguments]) for arguments in (["--app", waiting_app.NAME], [])]
    codes.append(cli.run(["registry", "publish", "--app", "nowhere:app", "--json"]))
    out, err = capfd.readouterr()

    assert codes == [0, 2, 2]
    assert out.splitlines()[0] == f"{waiting_app.app.registry.fingerprint} counts on the task queue {queue}"
    assert json.loads(out.splitlines()[1])["error"]["code"] == "load_error"
    assert "TARRY_APP" in err
