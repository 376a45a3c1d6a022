"""A tree of agents on a real server, asked by calls that no conversation made: requests in few words."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

from pydantic import BaseModel

from signals import Sleep
from tarry import Received, Signal
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.client.agents import AgentTree, kept_text
from tarry.core.messages import UserMessage
from tarry.core.subagents.definition import AgentDefinition, RuntimeMode, Snapshot, SubagentSettings
from tarry.core.subagents.protocol import (
    READ_DONE,
    AgentRow,
    Caller,
    Completion,
    FollowUp,
    Interrupt,
    Interrupted,
    ReadDone,
    ReadUpdates,
    SendMessage,
    Sent,
    StartAgent,
    Started,
    TurnAccepted,
    Updates,
    tree_of,
)
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.store import BlobStore
from tarry.testing import Call, Reply, ScriptedModel, call, say
from tarry.tools import Tool, tool
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually

WORK = "work "
"""How an input begins that has the child call the held tool with the rest of it."""


def _is_working(row: AgentRow) -> bool:
    """Whether its newest turn has not ended, or its parent has not got the completion yet."""
    return bool(row.turn_id) or row.state == "running"


class Work:
    """The tool `work(what)`: each call is held until it is let go or stopped. `peak`: how many were held at once.

    While it `is_deaf`, a Stop does not end it.
    """

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.peak = 0
        self._open: dict[str, threading.Event] = {}
        self.is_deaf = False
        self._all = False
        self.tool: Tool = tool(name="work", description="Work.", replay="safe")(self._work)

    def _work(self, what: str, api: ToolApi) -> str:
        held = self._open.setdefault(what, threading.Event())
        self.begun.append(what)
        self.peak = max(self.peak, len(self.running))
        while not (self._all or held.wait(0.02)):
            if api.is_cancelled and not self.is_deaf:
                held.set()
                return "stopped"
        held.set()
        return f"did {what}"

    @property
    def running(self) -> list[str]:
        """What is held now."""
        return [what for what, held in self._open.items() if not held.is_set()]

    def let(self, *whats: str) -> None:
        """Let these go; without any, all that there are and will be."""
        self._all = self._all or not whats
        for what in whats:
            self._open[what].set()

    async def is_idle(self) -> bool:
        """Whether nothing is held now."""
        return not self.running

    async def has_begun(self, *whats: str) -> None:
        """Return when all of these have begun."""

        async def begun() -> set[str]:
            return set(self.begun)

        await eventually(begun, lambda found: set(whats) <= found)


class Answered(BaseModel):
    text: str


ANSWER = Signal("test.answer", 1, Answered)
"""What a child waits for that was asked to `ask`, under the key `answer`."""


@tool(replay="safe")
async def ask(what: str, api: ToolApi) -> Sleep | str:
    """Ask a person."""
    match await api.read_signal(ANSWER, "answer"):
        case Received(value=answered):
            return answered.text
        case _:
            return Sleep(signals=[ANSWER.key("answer")], ask=what)


def _first(request: ModelRequest) -> Reply | Call:
    asked = last_input(request)
    if asked.startswith(WORK):
        return call("work", what=asked.removeprefix(WORK))
    return call("ask", what=asked) if asked.startswith("ask ") else say(f"heard {asked}")


def last_input(request: ModelRequest) -> str:
    """What the model was asked last."""
    return next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))


def children_app(work: Work) -> App:
    """Children that answer `heard …`, or `done …` after the held tool has let them go, or a person has answered."""
    model = ScriptedModel.for_each_input([_first, lambda request: say(f"done {last_input(request)}")])
    return App(model=model, extensions=[Extension("test", [work.tool, ask], [ANSWER])])


class Grove:
    """A tree, and short ways to ask it. Calls are numbered, unless a test names them."""

    def __init__(self, on: Stage, work: Work, root: str = "") -> None:
        self.on = on
        self.work = work
        self.root = root or f"root-{uuid.uuid4().hex[:8]}"
        self.nonce = "n"
        self.tree = AgentTree(on.client, on.settings, tree_of(f"{self.root}~{self.nonce}"))
        self._numbers = count(1)
        self._read: Counter[str] = Counter()
        self._blobs = BlobStore(on.client.data_converter)

    async def root_it(self) -> None:
        """Begin the root conversation, with an input and its answer."""
        conversation = self.on.harness.conversation(self.root)
        await (await conversation.submit("hello")).wait()
        self.nonce = (await conversation.view()).nonce
        self.tree = await self.on.harness.agents(self.root)

    async def begin(self, limit: int = 4, mode: RuntimeMode = "background") -> None:
        settings = SubagentSettings(max_concurrent_runs=limit, runtime_mode=mode)
        scout = AgentDefinition(name="scout", description="looks")
        await self.tree.begin(Snapshot(definitions=(scout,), settings=settings))

    def caller(self, agent_id: str = "", call: str = "", run: int = 1) -> Caller:
        """A call in a conversation of the tree, by default the root; run 0: a person."""
        conversation = agent_id or self.root
        place = f"g{run}" if run else "person"
        name = call or f"t{next(self._numbers)}.0"
        return Caller(conversation_id=conversation, task_id=f"{conversation}~{self.nonce}/{place}/{name}")

    async def start(self, name: str | None = None, prompt: str = "go", by: Caller | None = None) -> Started:
        text = await kept_text(self._blobs, prompt)
        caller = by or self.caller()
        return await self.tree.start(StartAgent(caller=caller, definition="scout", task_name=name, prompt=text))

    async def send(self, target: str, content: str, by: Caller | None = None) -> Sent:
        text = await kept_text(self._blobs, content)
        return await self.tree.send(SendMessage(caller=by or self.caller(), target=target, text=text))

    async def follow_up(self, target: str, content: str | None = None, by: Caller | None = None) -> TurnAccepted:
        text = None if content is None else await kept_text(self._blobs, content)
        return await self.tree.follow_up(FollowUp(caller=by or self.caller(), target=target, text=text))

    async def interrupt(self, target: str, by: Caller | None = None) -> Interrupted:
        return await self.tree.interrupt(Interrupt(caller=by or self.caller(), target=target))

    async def read(self, by: Caller | None = None, target: str = "", key: str = "") -> Updates:
        return await self.tree.read(ReadUpdates(caller=by or self.caller(), target=target, key=key))

    async def read_done(self, by: Caller) -> None:
        """The result of the call that read is in its history."""
        await self.on.client.get_workflow_handle(self.tree.id).signal(READ_DONE, ReadDone(task_id=by.task_id))

    async def completions(self, number: int, run: int = 1_000) -> list[Completion]:
        """What children of the root ended, once there are so many; read for good, by calls of a run of the root."""
        found: list[Completion] = []
        while len(found) < number:
            # Asking for nothing would leave events.
            await eventually(self._has_unread)
            reader = self.caller(run=run)
            completions = (await self.read(reader)).completions
            await self.read_done(reader)
            self._read.update(one.path for one in completions)
            found += completions
        return found

    async def _has_unread(self) -> bool:
        children = [row for row in (await self.tree.list()).agents if row.path.count("/") == 2]
        return any(row.turns - _is_working(row) > self._read[row.path] for row in children)

    async def row(self, path: str) -> AgentRow:
        return next(row for row in (await self.tree.list()).agents if row.path == path)

    async def state(self, path: str) -> str:
        return (await self.row(path)).state

    async def becomes(self, path: str, state: str) -> None:
        """Return when the agent at `path` is in that state."""
        await eventually(lambda: self.state(path), lambda found: found == state)


@contextlib.asynccontextmanager
async def grove(
    server: EmbeddedServer,
    store: Path,
    limit: int = 4,
    mode: RuntimeMode = "background",
    *,
    rooted: bool = False,
    **settings: int | float,
) -> AsyncIterator[Grove]:
    """A tree that has begun, with one worker up; `rooted`: below a conversation that is there."""
    work = Work()
    async with idle_stage(server, children_app(work), store, **settings) as on, on.worker():
        made = Grove(on, work)
        if rooted:
            await made.root_it()
        await made.begin(limit, mode)
        yield made
        work.let()
