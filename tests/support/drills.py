"""What a drill is made of: real workers that stop at points, a server, and what can be read when all is over.

Nothing here waits for a length of time: a worker says that it has reached a point and goes on when it is let go,
so that it can be killed exactly there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
from temporalio.client import Client

from tarry.client import Harness, Submission
from tarry.connect import converter_of
from tarry.core.messages import AssistantMessage, Frozen, ToolMessage
from tarry.core.protocol import Progress, SubmissionView
from tarry.core.transcript import Entry
from tarry.drills.kit.points import VARIABLE, Arrival, Points
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.processes import Child, environment_of, worker
from tarry.settings import PREFIX, Settings
from tests.support.histories import Account, account
from tests.support.waiting import PATIENCE, eventually

ROUND = ["user", "assistant", "tool_result", "assistant"]
"""The kinds of entries of a run with one call in it, when nothing went wrong with its model requests."""

ONCE_EACH = ("completed 1", "completed 1")
"""The two model requests of such a run."""


class Run(Frozen):
    """A line of the ledger: one run of a tool that really began. A task that has no conversation is its own."""

    tool: str
    title: str
    conversation_id: str
    attempt: int
    key: str
    wake: str = ""
    checkpoint: Any = None


@dataclass(frozen=True)
class Aftermath:
    """A conversation when its submission is settled: as its user, its readers, the world and history see it.

    `runs` are the attempts of the tool that really began, as the ledger has them; `tickets` those it opened.
    """

    end: str
    kinds: list[str]
    results: list[str]
    runs: list[int]
    tickets: list[str]
    account: Account


class Drill:
    """A queue of its own on `server`, with the workers a test starts on it. `settings` are those of `Settings`."""

    app = "tests.support.drill_app:app"

    def __init__(self, server: EmbeddedServer, folder: Path, tracker: str, **settings: Any) -> None:
        defaults: dict[str, Any] = {
            "task_queue": f"drill-{uuid.uuid4().hex[:8]}",
            "store": str(folder / "store"),
            "heartbeat_timeout": 3.0,
            "shutdown_grace": 1.0,
        }
        self.folder = folder
        self.points = Points()
        self.settings = Settings(**{**defaults, **settings})
        self.workers: list[Child] = []
        self._server = server
        self._tracker = tracker
        self._exit = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        await self._exit.enter_async_context(self.points)
        self.harness = await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(child.kill() for child in self.workers))
        await self._exit.aclose()

    async def connect(self, **options: Any) -> Harness:
        """A harness of its own, its client with these options."""
        converter = converter_of(self.settings)
        return Harness(await Client.connect(self._server.address, data_converter=converter, **options), self.settings)

    async def worker(self, **environment: str) -> Child:
        """One more worker, serving."""
        log = self.folder / f"worker-{len(self.workers) + 1}.log"
        child = worker(self.app, log=log, environment=self._environment() | environment)
        self.workers.append(child)
        await child.start()
        return child

    async def stop(self, child: Child) -> int:
        """Tell a worker to stop, as an orchestrator does; its exit code."""
        assert child.pid is not None
        os.kill(child.pid, signal.SIGTERM)
        return await self.ended(child)

    async def ended(self, child: Child) -> int:
        """The exit code of a worker that is on its way out."""
        async with asyncio.timeout(PATIENCE):
            return await child.wait()

    async def logged(self, child: Child, text: str) -> None:
        """Return when a worker has written `text` into its log."""

        async def log() -> str:
            return child.log.read_text()

        await eventually(log, lambda written: text in written)

    async def submit(self, content: str, *, stop_at: Sequence[str] = (), die_at: Sequence[str] = ()) -> Submission:
        """Submit to a new conversation, whose workers stop at these points in turn, or die there."""
        conversation = self.harness.conversation()
        self.points.plan(conversation.id, stop_at or die_at, deadly=bool(die_at))
        return await conversation.submit(content)

    async def reached(self, submission: Submission) -> Arrival:
        """The next stop of the submission's conversation."""
        return await self.points.reached(submission.conversation_id)

    async def published(self, workflow_id: str, text: str) -> None:
        """Return when the heartbeats of the workflow's open activity have carried `text`."""
        await eventually(lambda: self._progress(workflow_id), lambda progress: text in progress)

    async def _progress(self, workflow_id: str) -> str:
        client = self.harness.client
        described = await client.get_workflow_handle(workflow_id).describe()
        for pending in described.raw_description.pending_activities:
            for details in await client.data_converter.decode(pending.heartbeat_details.payloads, [Progress]):
                return str(details.text)
        return ""

    async def aftermath(self, submission: Submission) -> Aftermath:
        """How it ended, and what is left of it on every side. Needs a worker."""
        end = await settled(submission)
        conversation_id = submission.conversation_id
        entries = await self.harness.conversation(conversation_id).transcript()
        return Aftermath(
            end=" ".join(part for part in (end.status, end.reason) if part),
            kinds=kinds(entries),
            results=[entry.message.text for entry in entries if isinstance(entry.message, ToolMessage)],
            runs=[run.attempt for run in self.runs(conversation_id)],
            tickets=await self.tickets(conversation_id),
            account=await account(self.harness.client, conversation_id),
        )

    def runs(self, conversation_id: str) -> list[Run]:
        """What the ledger holds of a conversation, oldest first."""
        return [run for run in map(Run.model_validate, self.lines("ledger")) if run.conversation_id == conversation_id]

    def requests(self, conversation_id: str) -> list[ModelRequest]:
        """The requests the model was sent in a conversation, oldest first."""
        sent = map(ModelRequest.model_validate, self.lines("requests"))
        return [request for request in sent if request.session_id == conversation_id]

    def lines(self, file: str) -> list[dict[str, Any]]:
        """What the application recorded in `file`."""
        path = self.folder / file
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def tickets(self, conversation_id: str) -> list[str]:
        """The ids of the tickets that a conversation really opened."""
        async with httpx.AsyncClient() as client:
            tickets = (await client.get(f"{self._tracker}/tickets")).json()
        return [ticket["id"] for ticket in tickets if ticket["title"] == conversation_id]

    def _environment(self) -> dict[str, str]:
        chosen = self.settings.model_dump(exclude_none=True)
        return {
            **environment_of(self._server.address),
            **{f"{PREFIX}{name.upper()}": str(value) for name, value in chosen.items()},
            "DRILL_FOLDER": str(self.folder),
            VARIABLE: self.points.address,
            "DRILL_TRACKER": self._tracker,
        }


async def settled(submission: Submission) -> SubmissionView:
    """Its end."""
    async with asyncio.timeout(PATIENCE):
        return await submission.wait()


def kinds(entries: list[Entry]) -> list[str]:
    """The kinds of all entries but those of the prompt; a response that was cut off shows as `aborted`."""
    return [_kind(entry) for entry in entries if entry.kind != "system"]


def _kind(entry: Entry) -> str:
    is_cut_off = isinstance(entry.message, AssistantMessage) and entry.message.stop == "aborted"
    return "aborted" if is_cut_off else entry.kind
