"""What a drill stands on: a server, workers, a tracker outside and points to hold at, all of its own.

Nothing is shared with anybody: the server is started for the drill, and neither Temporal's settings nor ours, of
whoever runs it, reach it or its processes. So a drill may kill, reset and terminate whatever it finds there.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

from temporalio.client import Client

from tarry.client import Harness, Submission
from tarry.connect import converter_of
from tarry.core.messages import ToolMessage
from tarry.core.protocol import SubmissionView
from tarry.demo.tracker import Ticket, tickets_at, tracker
from tarry.drills.kit.cell import Cell
from tarry.drills.kit.points import VARIABLE, Arrival, Points, in_time
from tarry.drills.kit.report import StepReport
from tarry.drills.kit.step import Step
from tarry.embedded import EmbeddedServer, ServerOptions
from tarry.processes import Child, environment_of, worker
from tarry.settings import PREFIX, Settings
from tarry.testing.waiting import eventually

APP = "tarry.drills.kit.app:app"
"""What the workers of a drill serve that names nothing else."""

TRACKER = "DRILL_TRACKER"
"""Tells a worker's code where the tracker is."""

BEGUN = "before the effect"
"""The point that each run of a tool's own code passes first."""

HEARTBEAT_TIMEOUT = 6.0
"""Seconds: a killed worker is missed soon, and one on a busy machine is not taken for dead."""

HOLD_TIMEOUT = 600.0
"""Seconds for which a model may be held."""

Told = Callable[[StepReport], None]


class Ground:
    """Use it as a context: it begins with a server and a tracker, and ends with no process left.

    Args:
        app: what its workers serve, as `module:attribute`.
        folder: for all that is left; it is made.
        short: whether what takes long is done in little time.
        has_ui: whether the server has its Web UI.
        told: is told of each step when it is over.
    """

    harness: Harness
    client: Client

    def __init__(self, app: str, folder: Path, *, short: bool, has_ui: bool, told: Told) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.short = short
        self.server = EmbeddedServer(ServerOptions(database=folder / "temporal.db", ui_port=0 if has_ui else None))
        self.points = Points()
        self.workers: list[Child] = []
        self.cells: list[Cell] = []
        self.steps: list[StepReport] = []
        self.settings = Settings.model_construct(
            task_queue="drill",
            store=str(folder.resolve() / "store"),
            config_dir=str(folder.resolve() / "config"),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            model_idle_timeout=HOLD_TIMEOUT,
            shutdown_grace=1.0,
        )
        self._app = app
        self._told = told
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as exit:
            await exit.enter_async_context(self.server)
            await exit.enter_async_context(self.points)
            outside = tracker(self.folder / "tickets.json", log=self.folder / "tracker.log", environment=os.environ)
            self._tracker = (await exit.enter_async_context(outside)).ready_line
            self.client = await Client.connect(self.server.address, data_converter=converter_of(self.settings))
            self.harness = Harness(self.client, self.settings)
            self._exit = exit.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(child.kill() for child in self.workers))
        await self._exit.aclose()

    def seconds(self, long: float, short: float) -> float:
        """How long to do something, in this form of the drill."""
        return short if self.short else long

    @asynccontextmanager
    async def step(self, title: str, *, expected: str) -> AsyncIterator[Step]:
        """A step, which is told when it is over. An exception in it fails it, and leaves it."""
        step = Step(title, expected, self.environment())
        begun = time.monotonic()
        try:
            yield step
        except BaseException as error:  # one that was interrupted is not ok either
            step.failed(line_of(error))
            raise
        finally:
            report = step.report(time.monotonic() - begun)
            self.steps.append(report)
            self._told(report)

    def environment(self, **more: str) -> dict[str, str]:
        """What a process of the drill is started with."""
        found = environment_of(self.server.address)
        kept = {name: value for name, value in found.items() if not name.startswith(PREFIX)}
        chosen = self.settings.model_dump(exclude_none=True, exclude_unset=True)
        settings = {f"{PREFIX}{name.upper()}": str(value) for name, value in chosen.items()}
        return {**kept, **settings, VARIABLE: self.points.address, TRACKER: self._tracker, **more}

    async def worker(self, app: str | None = None, **environment: str) -> Child:
        """One more worker, which serves when this returns; of another `app`, with more variables.

        Raises:
            ChildError: it could not start; the end of its log says why.
        """
        log = self.folder / f"worker-{len(self.workers) + 1}.log"
        child = worker(app or self._app, log=log, environment=self.environment(**environment))
        self.workers.append(child)
        await child.start()
        return child

    async def submit(self, text: str, *, hold_at: Sequence[str] = ()) -> Submission:
        """Submit to a new conversation, whose code holds once at each of these points, in this order.

        With a worker up the conversation has it when this returns, and `run_of` and `call_of` know its run.
        """
        conversation = self.harness.conversation()
        self.points.plan(conversation.id, hold_at)
        submission = await conversation.submit(text)
        if submission.view is None and any(worker.pid for worker in self.workers):
            # A slow worker: only the server has it yet.
            submission.view = await in_time(submission.status(), f"no worker has taken {text!r}")
        return submission

    async def held(self, submission: Submission) -> Arrival:
        """The next point at which the submission's conversation holds, when it does.

        Raises:
            TimeoutError: it does not within 120 s.
        """
        return await self.points.reached(submission.conversation_id)

    async def parked(self, submission: Submission) -> str:
        """The id of the submission's first call, when that is parked.

        Raises:
            TimeoutError: it is not within 60 s.
        """
        task_id = call_of(submission)

        async def sleeping() -> bool:
            items = self.harness.work(conversation_id=submission.conversation_id)
            return task_id in [item.id async for item in items if item.state == "sleeping"]

        await eventually(sleeping)
        return task_id

    async def settled(self, submission: Submission) -> SubmissionView:
        """The end of a submission. Needs a worker.

        Raises:
            TimeoutError: it has none within 120 s.
        """
        return await in_time(submission.wait(), f"no answer in {submission.conversation_id}")

    async def results(self, conversation_id: str) -> list[str]:
        """The results of a conversation's calls as its model read them: of each the code, or the text. Needs a worker.

        A plain result has no code.
        """
        entries = await self.harness.conversation(conversation_id).transcript()
        told = [(entry.message, entry.tool) for entry in entries if isinstance(entry.message, ToolMessage)]
        return [(facts.code if facts else "") or message.text for message, facts in told]

    async def tickets(self, conversation_id: str) -> list[Ticket]:
        """What a conversation's calls really opened, as the tracker tells it."""
        return [ticket for ticket in await tickets_at(self._tracker) if ticket.title == conversation_id]

    def runs(self, conversation_id: str) -> int:
        """How many runs of tools' own code began in a conversation, as seen from outside."""
        return self.points.passed(conversation_id, BEGUN)


def run_of(submission: Submission) -> str:
    """The id of the run that answers a submission, begun when it was submitted."""
    assert submission.view is not None, "it was submitted with a worker up"
    return submission.view.generation_id


def call_of(submission: Submission) -> str:
    """The id of that run's first call."""
    return f"{run_of(submission)}/t1.0"


def line_of(error: BaseException) -> str:
    """What went wrong, as one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
