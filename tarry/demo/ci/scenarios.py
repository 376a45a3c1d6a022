"""A call that waits for CI, three times: nobody is up when the answer comes, a worker dies, somebody presses Stop.

Every fact is read: builds from the CI service over HTTP, workers from the processes that were started, what is said of
the parked call from the commands that a person would run.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from tarry.client import Submission
from tarry.core.messages import Frozen, ToolMessage
from tarry.core.wake_command import wake_command
from tarry.demo.ci.agent import DONE, SOURCE, CiReport, CiResult
from tarry.demo.ci.builds import Build
from tarry.demo.ci.client import CiClient
from tarry.demo.ci.service import SECRET, ci_service
from tarry.demo.ci.webhook import secret_of
from tarry.demo.scenario import PATIENCE, ScenarioError, page_of
from tarry.embedded import EmbeddedServer
from tarry.processes import Child
from tarry.testing import Stage, eventually
from tarry.tether import tethered

Scene = Literal["away", "killed", "stopped"]
SCENES: tuple[Scene, ...] = ("away", "killed", "stopped")

APP = "tarry.demo.ci.agent:scripted"
QUESTION = "Fix the flaky test and verify it."

Report = Callable[[Scene, str], None]
"""Told of each step when it has happened."""


class CiFacts(Frozen):
    """What three runs left at the CI service, in the order of `SCENES`."""

    builds: tuple[int, ...] = Field(description="builds that were started")
    cancelled: tuple[bool, ...] = Field(description="whether one was cancelled")
    workers_when_webhook_came: int = Field(description="worker processes alive when the gateway had answered")


class Said(Frozen):
    """What a command printed."""

    command: str
    output: str


class CiStory(Frozen):
    """The facts, and what a person is told beside them."""

    facts: CiFacts
    said: tuple[Said, ...] = Field(description="of the parked call, while no worker ran")
    wakes: str = Field(description="the command that would have woken it from any shell")
    results: tuple[str, ...] = Field(description="the committed result of each call: its code, or how its text begins")
    web_ui: str = Field(description="the page of the call that waited while no worker ran")


PROMISED = CiFacts(builds=(1, 1, 1), cancelled=(False, False, True), workers_when_webhook_came=0)
"""Parked work is woken by what came while nobody was up; a rerun starts no second build; Stop cleans up."""
PROMISED_RESULTS = ("CI passed", "CI passed", "aborted")


async def run_ci_scenes(server: EmbeddedServer, folder: Path, report: Report) -> CiStory:
    """Play the three scenes, one after the other.

    Raises:
        ScenarioError: one did not come to its end.
        ChildError: a process could not start.
    """
    try:
        async with _outside(server, folder) as outside:
            return await _Play(outside, report).play()
    except TimeoutError:
        raise ScenarioError(f"ci: a step took over {PATIENCE:g} s; see the logs in {folder}") from None


def broken_ci_promises(story: CiStory) -> list[str]:
    """Each fact that differs from what is promised (spec §10), as a line; none when all is well."""
    promised = {**dict(PROMISED), "results": PROMISED_RESULTS}
    found = {**dict(story.facts), "results": story.results}
    return [
        f"ci: {name} is {found[name]!r}, promised is {wanted!r}"
        for name, wanted in promised.items()
        if found[name] != wanted
    ]


@dataclass(frozen=True)
class _Outside:
    """What is up in all scenes: the server, its stage, the gateway, the CI service."""

    server: EmbeddedServer
    stage: Stage
    gateway: Child
    ci: Child


@asynccontextmanager
async def _outside(server: EmbeddedServer, folder: Path) -> AsyncIterator[_Outside]:
    secret = secret_of(secrets.token_bytes(24))
    async with Stage(APP, server=server, folder=folder) as stage:
        gateway = await stage.start_gateway(**{SECRET: secret})
        ci = ci_service(
            f"{gateway.ready_line}/webhooks/{SOURCE}",
            logs=folder / "builds",
            log=folder / "ci.log",
            environment=os.environ | {SECRET: secret},
        )
        async with ci:
            yield _Outside(server, stage, gateway, ci)


@dataclass(frozen=True)
class _Away:
    said: tuple[Said, ...]
    task_id: str
    workers_up: int


class _Play:
    """The scenes share their workers: what ends one serves in the next."""

    def __init__(self, outside: _Outside, report: Report) -> None:
        self._stage = outside.stage
        self._outside = outside
        self._ci = CiClient(outside.ci.ready_line)
        self._report = report
        self._workers: list[Child] = []

    async def play(self) -> CiStory:
        away = await self._nobody_is_up()
        await self._worker_is_killed()
        await self._somebody_stops_it()
        results = [await self._result(scene) for scene in SCENES]
        builds = [await self._builds(scene) for scene in SCENES]
        facts = CiFacts(
            builds=tuple(len(found) for found in builds),
            cancelled=tuple(any(build.status == "cancelled" for build in found) for found in builds),
            workers_when_webhook_came=away.workers_up,
        )
        page = await page_of(self._outside.server, self._stage.harness.client, away.task_id)
        return CiStory(facts=facts, said=away.said, wakes=_wakes(away.task_id), results=tuple(results), web_ui=page)

    async def _nobody_is_up(self) -> _Away:
        """The call parks, all workers are stopped, the webhook comes, a worker starts."""
        worker = await self._start_worker("away")
        gateway, ci = self._outside.gateway.ready_line, self._outside.ci.ready_line
        self._report("away", f"a gateway listens at {gateway}, a CI service at {ci}")
        submission = await self._ask("away")
        task_id = await self._parked("away")
        await worker.stop()
        self._report("away", f"worker 1 was stopped; workers that run: {self._workers_up()}")
        said = await self._what_is_said(task_id)
        workers_up = await self._finish_build("away")
        await self._start_worker("away", DEMO_CI_CRASH="1")
        await self._end("away", submission)
        return _Away(said, task_id, workers_up)

    async def _worker_is_killed(self) -> None:
        """The worker dies when the build is started and the call not yet parked; another one runs the call again."""
        doomed = self._workers[-1]
        submission = await self._ask("killed")
        async with asyncio.timeout(PATIENCE):
            code = await doomed.wait()
        ended_by = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        build = await self._build("killed")
        number = len(self._workers)
        self._report("killed", f"worker {number} was ended by {ended_by} between trigger and park; {build.id} is there")
        await self._start_worker("killed")
        await self._parked("killed")
        await self._finish_build("killed")
        await self._end("killed", submission)

    async def _somebody_stops_it(self) -> None:
        submission = await self._ask("stopped")
        await self._parked("stopped")
        await self._stage.harness.conversation("stopped").abort()
        self._report("stopped", "pressed Stop")
        await self._end("stopped", submission)
        build = await self._build("stopped")
        self._report("stopped", f"the CI service says of {build.id}: {build.status}")

    async def _start_worker(self, scene: Scene, **environment: str) -> Child:
        checkouts = {
            "DEMO_CI_URL": self._outside.ci.ready_line,
            "DEMO_CI_CHECKOUTS": str(self._stage.folder / "checkouts"),
        }
        worker = await self._stage.start_worker(**checkouts, **environment)
        self._workers.append(worker)
        self._report(scene, f"worker {len(self._workers)} (pid {worker.pid}) serves the agent")
        return worker

    async def _ask(self, scene: Scene) -> Submission:
        submission = await self._stage.harness.conversation(scene).submit(QUESTION)
        self._report(scene, f"asked: {QUESTION}")
        return submission

    async def _parked(self, scene: Scene) -> str:
        """The id of the call that waits, once it does."""
        task_id = await self._stage.parked(scene)
        build = await self._build(scene)
        times = "once" if build.asked == 1 else f"{build.asked} times"
        self._report(scene, f"run_ci waits for {build.id}, which was asked for {times}")
        return task_id

    async def _what_is_said(self, task_id: str) -> tuple[Said, ...]:
        commands = (("ps",), ("explain", task_id), ("wake",))
        return tuple(await asyncio.gather(*(self._said(*command) for command in commands)))

    async def _said(self, *arguments: str) -> Said:
        output = await _output_of(arguments, self._stage.environment())
        return Said(command=shlex.join(["tarry", *arguments]), output=output)

    async def _finish_build(self, scene: Scene) -> int:
        """Let the build run; the workers that are up when its webhook was answered."""
        held = await self._build(scene)
        await self._ci.release(held.id)
        build = await eventually(lambda: self._build(scene), lambda build: build.answered != 0)
        up = self._workers_up()
        told = f"CI ran the tests: {build.status}; the gateway answered its webhook with {build.answered}"
        self._report(scene, f"{told}; workers that run: {up}")
        return up

    async def _end(self, scene: Scene, submission: Submission) -> None:
        async with asyncio.timeout(PATIENCE):
            settled = await submission.wait()
        self._report(scene, f"{settled.status}: {settled.answer_text or settled.reason}")

    async def _result(self, scene: Scene) -> str:
        for entry in await self._stage.harness.conversation(scene).transcript():
            if isinstance(entry.message, ToolMessage) and entry.message.name == "run_ci" and entry.tool is not None:
                return entry.tool.code or entry.message.text.partition(":")[0]
        raise ScenarioError(f"ci: the transcript of {scene} holds no result of run_ci")

    async def _build(self, scene: Scene) -> Build:
        return (await self._builds(scene))[-1]

    async def _builds(self, scene: Scene) -> list[Build]:
        """Those of the checkout of the scene's conversation."""
        return [build for build in await self._ci.builds() if build.order.repository.name == scene]

    def _workers_up(self) -> int:
        return sum(worker.pid is not None for worker in self._workers)


async def _output_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a `tarry` command prints.

    Raises:
        ScenarioError: it fails.
    """
    run = "import tarry.cli; tarry.cli.main()"
    process = await asyncio.create_subprocess_exec(
        *tethered([sys.executable, "-c", run, *arguments]), env=dict(environment), stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE):
            output, problem = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode != 0:
        raise ScenarioError(f"ci: tarry {arguments[0]} failed: {problem.decode().strip()}")
    return output.decode().rstrip()


def _wakes(task_id: str) -> str:
    report = CiReport(status="passed", log_url="https://ci.example/log")
    return wake_command(task_id, CiResult.key(DONE), CiResult.dump(report))
