"""Builds of workers beside each other: whose hooks count, and who is given work (spec §22)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from temporalio.service import RPCError, RPCStatusCode

from tarry.app import App, Extension
from tarry.client import WakeCheck
from tarry.client.deployments import Build, current_since, deploy_status, make_current, ramp, routing
from tarry.client.errors import DeployRefused
from tarry.client.standing import look
from tarry.core import registry
from tarry.core.registry import MadeCurrent, registry_id
from tarry.core.routing import queue_of
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.command import Command
from tests.support.deploys import ALLOW, Gate, Word, app_of, asked_under, current, outcome, start, stop
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually
from workers.deployed import follow
from workers.special import build_special


@dataclass
class Builds:
    """A queue, and the deployment whose builds serve it."""

    on: Stage
    deployment: str

    def build(self, name: str) -> Build:
        return Build(self.deployment, name)

    @asynccontextmanager
    async def worker(self, name: str, app: App, *special: str) -> AsyncIterator[None]:
        """A worker of that build, which tells whether it is current, and those of names."""
        build = {"deployment": self.deployment, "build": name}
        other = Stage(self.on.client, self.on.settings.model_copy(update=build), app)
        queue, fingerprint = self.on.settings.task_queue, app.registry.fingerprint
        async with AsyncExitStack() as stack:
            for worker in (other.worker(), *(build_special(other.client, app, other.settings, one) for one in special)):
                await stack.enter_async_context(worker)
            following = asyncio.create_task(follow(self.on.client, queue, self.build(name), fingerprint))
            yield
            following.cancel()

    async def counts(self, app: App) -> None:
        """Return when the hooks of `app` count."""

        async def found() -> str:
            try:
                return await current(self.on)
            except RPCError as error:  # nobody has told it anything yet
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise
                return ""

        await eventually(found, lambda fingerprint: fingerprint == app.registry.fingerprint)

    async def told(self) -> list[MadeCurrent]:
        """What workers have told the registry."""
        handle = self.on.client.get_workflow_handle(registry_id(self.on.settings.task_queue))
        signals = [
            event.workflow_execution_signaled_event_attributes for event in (await handle.fetch_history()).events
        ]
        payloads = [signal.input.payloads for signal in signals if signal.signal_name == "tarry.build-made-current"]
        return [found for one in payloads for found in await self.on.client.data_converter.decode(one, [MadeCurrent])]


@pytest.fixture
async def builds(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Builds]:
    """One deployment on a queue of its own."""
    async with idle_stage(server, app_of(), tmp_path) as on:
        yield Builds(on, f"test-{uuid.uuid4().hex[:8]}")


async def test_hooks_of_the_build_that_is_made_current_are_asked_and_those_of_the_one_before_after_a_step_back(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "SETTLING", timedelta(seconds=3))  # a step may still go to the build before
    people, rest = Gate("people"), Gate("rest")
    old, new = app_of(people), app_of(rest)
    async with builds.worker("v1", old), builds.worker("v2", new):
        await make_current(builds.on.client, builds.build("v1"))
        await builds.counts(old)
        task_id = await start(builds.on)
        assert (people.seen, rest.seen) == (["NoneType"], []), "a build that is not current brings no hooks"

        await make_current(builds.on.client, builds.build("v2"))
        await asked_under(builds.on, task_id, new)
        assert set(rest.seen) == {"NoneType"}

        await make_current(builds.on.client, builds.build("v1"))
        await asked_under(builds.on, task_id, old)
        await builds.on.harness.signal(task_id, ALLOW, "people", Word())
        assert await outcome(builds.on, task_id) == ("", "deployed it")
    assert people.seen[-1] == "Received"


async def test_what_is_published_after_a_build_was_made_current_stays_though_its_workers_start_again(
    builds: Builds,
) -> None:
    app, other = app_of(Gate("people")), app_of(Gate("other"))
    async with builds.worker("v1", app):
        await make_current(builds.on.client, builds.build("v1"))
        await builds.counts(app)
        await builds.on.harness.publish(other)
        await builds.counts(other)
    async with builds.worker("v1", app):
        await eventually(builds.told, lambda found: len(found) == 2)
        first, again = await builds.told()

        assert first == again
        assert first.since == await current_since(builds.on.client, builds.build("v1"))
        await builds.counts(other)


async def test_work_of_a_build_that_has_no_worker_is_seen_by_wake(builds: Builds) -> None:
    app = app_of(Gate("people"))
    check = WakeCheck(builds.on.client, builds.on.settings.task_queue)
    async with builds.worker("v1", app):
        await make_current(builds.on.client, builds.build("v1"))
        await builds.counts(app)
        task_id = await start(builds.on)
        await eventually(check.look, lambda plan: not plan.active)
    await builds.on.harness.signal(task_id, ALLOW, "people", Word())

    plan = await eventually(check.look, lambda plan: plan.active)

    assert plan.why == "backlog"
    async with builds.worker("v1", app):
        assert await outcome(builds.on, task_id) == ("", "deployed it")


async def test_tools_on_workers_of_a_name_run_in_the_build_that_is_current(builds: Builds) -> None:
    def app(build: str) -> App:
        @tool(name="where", worker="special")
        def where() -> str:
            """Tell which build runs it."""
            return build

        model = ScriptedModel.for_each_input([call("where"), lambda request: say(request.messages[-1].text)])
        return App(model=model, extensions=[Extension("test", [where])])

    answers = []
    async with builds.worker("v1", app("v1"), "special"), builds.worker("v2", app("v2"), "special"):
        for name in ("v1", "v2", "v1"):
            await make_current(builds.on.client, builds.build(name))
            answers.append((await (await builds.on.harness.conversation().submit("go")).wait()).answer_text)

    assert answers == ["v1", "v2", "v1"]


async def test_status_tells_of_each_build_what_it_has_in_hand(builds: Builds) -> None:
    client, queue = builds.on.client, builds.on.settings.task_queue
    app = app_of(Gate("people"))
    async with builds.worker("v1", app), builds.worker("v2", app):
        await make_current(client, builds.build("v1"))
        await builds.counts(app)
        task_id = await start(builds.on)
        await ramp(client, builds.build("v2"), 1)
        found = await deploy_status(client, queue, builds.deployment)
        now = await routing(client, queue)
        await ramp(client, builds.build("v2"), 0)
        ended = await routing(client, queue)
        await stop(builds.on, task_id)

    older, newer = sorted(found.builds, key=lambda one: one.build.name)
    assert (newer.build.name, newer.status, newer.workers, newer.open) == ("v2", "ramping", 1, 0)
    assert (older.build.name, older.status, older.workers, older.parked, older.pinned) == ("v1", "current", 1, 1, 0)
    assert older.open == 4, "a conversation, its run, the call, and the registry"
    assert (now.current, now.ramping, now.percentage) == (builds.build("v1"), builds.build("v2"), 1)
    assert (ended.current, ended.ramping, found.failing) == (builds.build("v1"), None, 0)


async def test_a_build_that_nobody_has_started_is_not_made_current(
    builds: Builds, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DeployRefused, match="no Worker Deployment found"):
        await make_current(builds.on.client, builds.build("v1"))


def commanding(server: EmbeddedServer, builds: Builds) -> Command:
    """The command on this queue."""
    where = {"TARRY_TASK_QUEUE": builds.on.settings.task_queue}
    return Command(Path(builds.on.settings.store), environment_of(server.address) | where)


async def test_a_ramp_is_not_ended_in_the_name_of_another_build(server: EmbeddedServer, builds: Builds) -> None:
    client, settings = builds.on.client, builds.on.settings
    command = commanding(server, builds)
    async with builds.worker("v1", app_of()), builds.worker("v2", app_of()):
        await make_current(client, builds.build("v1"))
        await ramp(client, builds.build("v2"), 1)
        refused = await command.run("deploy", "ramp", "v3", "0", "--deployment", builds.deployment)
        during = await routing(client, settings.task_queue)
        ended = await command.run("deploy", "ramp", "v2", "0", "--deployment", builds.deployment)
        again = await command.run("deploy", "ramp", "v2", "0", "--deployment", builds.deployment)

    why = f"tarry: build v3 of {builds.deployment} does not ramp, build v2 does: `tarry deploy ramp v2 0` ends that\n"
    assert (refused.code, refused.err, during.ramping) == (1, why, builds.build("v2"))
    assert (ended.code, again.code) == (0, 0)


async def test_a_build_that_gave_up_the_name_of_a_worker_is_made_current_when_its_queue_is_to_be_ignored(
    server: EmbeddedServer, builds: Builds
) -> None:
    def app(build: str, worker: str) -> App:
        @tool(name="where", worker=worker)
        def where() -> str:
            """Tell which build runs it."""
            return build

        model = ScriptedModel.for_each_input([call("where"), lambda request: say(request.messages[-1].text)])
        return App(model=model, extensions=[Extension("test", [where])])

    async def is_waited_for() -> bool:
        return any([item.worker == "special" async for item in builds.on.harness.work()])

    client, old, new = builds.on.client, app("v1", "special"), app("v2", "")
    async with builds.worker("v2", new):
        async with builds.worker("v1", old, "special"):
            await make_current(client, builds.build("v1"))
            first = await (await builds.on.harness.conversation().submit("go")).wait()
            with pytest.raises(DeployRefused, match="or give --ignore-missing-task-queues"):
                await make_current(client, builds.build("v2"))
            with pytest.raises(DeployRefused, match="or give --ignore-missing-task-queues"):
                await ramp(client, builds.build("v2"), 5)
        async with builds.worker("v1", old):
            left = await builds.on.harness.conversation().submit("go")
            await eventually(is_waited_for)
            anyway = ("--deployment", builds.deployment, "--ignore-missing-task-queues")
            made = await commanding(server, builds).run("deploy", "current", "v2", *anyway)
        async with builds.on.special("special", new):
            second = await left.wait()

    assert (first.answer_text, made.code, second.answer_text) == ("v1", 0, "v2")


async def test_command_says_what_it_lacks(server: EmbeddedServer, tmp_path: Path) -> None:
    command = Command(tmp_path, environment_of(server.address) | {"TARRY_TASK_QUEUE": "no-builds"})

    lost = await command.run("deploy", "status")
    refused = await command.run("deploy", "current", "v1", "--deployment", "nobody", "--json")

    assert (lost.code, lost.out) == (2, "")
    assert "Give --deployment or set TARRY_DEPLOYMENT (task queue no-builds has none)" in lost.err
    assert (refused.code, refused.json["error"]["code"]) == (1, "deploy_refused")


async def test_a_process_of_tools_alone_says_when_its_build_is_given_their_work(
    builds: Builds, caplog: pytest.LogCaptureFixture
) -> None:
    queue = queue_of(builds.on.settings.task_queue, "special")

    async def said(line: str) -> None:
        async def found() -> bool:
            return line in caplog.text

        await eventually(found)

    with caplog.at_level("INFO"):
        async with builds.worker("v1", app_of(), "special"):
            following = asyncio.create_task(follow(builds.on.client, queue, builds.build("v1")))
            await said(f"given no work of task queue {queue}, no build is current")
            await make_current(builds.on.client, builds.build("v1"))
            await said(f"build v1 of {builds.deployment} is current on task queue {queue}")
            following.cancel()


async def test_workers_of_a_build_that_is_given_no_work_do_not_count_as_being_there(builds: Builds) -> None:
    client, queue = builds.on.client, builds.on.settings.task_queue

    async def pollers() -> int:
        return (await look(client, queue, datetime.now(UTC))).pollers["workflow", "default"]

    async with builds.worker("v1", app_of()):
        await eventually(lambda: routing(client, queue), lambda found: builds.build("v1") in found.asked)
        before = await pollers()
        await make_current(client, builds.build("v1"))
        after = await pollers()

    assert (before, after) == (0, 1)
