"""A subagent in a run of which calls park and are woken, under a tree that grants permits as a test wants."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from tarry import App, Expired, Extension, Received, Sleep, ToolApi
from tarry.client import Conversation, Submission
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, Step
from tarry.tools import Tool, tool
from tests.support.fake_tree import FakeTree, fake_tree
from tests.support.parking import ANSWER, Answer
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually

OWNER = "root~nonce/g1/t1.0"
HOUR = timedelta(hours=1)


@dataclass
class Listening:
    """`listen(keys)`: waits for one key after the other. `ran` has why each of its runs began."""

    until: timedelta = HOUR
    ran: list[str] = field(default_factory=list)

    @property
    def tool(self) -> Tool:
        @tool(replay="safe")
        async def listen(keys: str, api: ToolApi) -> Sleep | str:
            """Wait for each of these keys."""
            self.ran.append(str(api.wake or "begun"))
            said: list[str] = []
            for key in keys.split():
                match await api.read_signal(ANSWER, key):
                    case Received(value=answer):
                        said.append(answer.text)
                    case Expired():
                        said.append("nothing")
                    case None:
                        return Sleep(signals=[ANSWER.key(key)], until=self.until, ask=f"What of {key}?")
            return " ".join(said)

        return listen

    async def has_run(self, times: int) -> list[str]:
        async def ran() -> list[str]:
            return self.ran

        return await eventually(ran, lambda found: len(found) >= times)


@dataclass
class Agent:
    """A subagent in its first run, which is not over."""

    on: Stage
    tree: FakeTree
    conversation: Conversation
    submission: Submission

    async def run(self) -> str:
        """The id of the run."""
        view = await eventually(self.conversation.view, lambda view: view.open_generation is not None)
        return view.open_generation or ""

    async def say(self, key: str, *, slot: int = 0, below: str = "") -> str:
        """Deliver to a call of the first round, or to what it created."""
        task_id = f"{await self.run()}/t1.{slot}{below}"
        sent = await eventually(
            lambda: self.on.harness.signal(task_id, ANSWER, key, Answer(text=f"{key}!")),
            lambda sent: sent.answer not in ("not_found", "accepted"),
        )
        return sent.answer

    async def results(self) -> list[str]:
        """What the calls of its run said, once it is over."""
        settled = await self.submission.wait()
        assert settled.status == "done", settled
        entries = await self.conversation.transcript()
        return [entry.message.text for entry in entries if entry.kind == "tool_result" and entry.message is not None]


def app_of(steps: list[Step], *tools: Tool, **more: Any) -> App:
    return App(model=ScriptedModel(steps), extensions=[Extension("test", tools, [ANSWER], **more)])


@contextlib.asynccontextmanager
async def agent(
    server: EmbeddedServer, app: App, store: Path, *, grants: bool = True, tree_id: str = "", **settings: Any
) -> AsyncIterator[Agent]:
    """A subagent that was given an input; without `grants` its tree grants nothing until it is told to."""
    async with (
        stage(server, app, store, heartbeat_timeout=4.0, **settings) as on,
        fake_tree(on.client, grants=grants) as tree,
    ):
        conversation = on.harness.conversation()
        await conversation.start(owner=OWNER, tree=tree_id or tree.id)
        yield Agent(on, tree, conversation, await conversation.submit("go"))


def kinds_of(told: list[tuple[str, Any]]) -> list[str]:
    return [name for name, _ in told]
