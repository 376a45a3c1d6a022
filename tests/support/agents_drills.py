"""Drills with trees of agents: what must be left of one, whoever was killed, and how many executed at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarry.client import Conversation, Submission
from tarry.client.agents import AgentTree
from tarry.connect import sending_inline
from tarry.core.messages import ToolMessage, UserMessage
from tarry.core.protocol import digest
from tarry.core.subagents.protocol import AgentList, tree_of
from tarry.core.transcript import Entry
from tarry.drills.kit.points import Arrival
from tests.support.agents_app import ENDED, WORDS
from tests.support.drills import Drill, settled
from tests.support.waiting import eventually

LIMIT = 2
"""Permits of the trees of these drills."""


@dataclass(frozen=True)
class Left:
    """A tree when its root has answered.

    `told`: how often the model of its parent, and no other one, read that an agent ended; `heard`: what each agent was
    told by its parent, in order; `turns`: how many each ended. `open`: permits, turns, messages and completions that
    are still somewhere.
    """

    answer: str
    told: dict[str, int]
    heard: dict[str, list[str]]
    turns: dict[str, int]
    open: tuple[int, ...] = (0, 0, 0, 0, 0)
    doubled: tuple[str, ...] = ()


@dataclass
class Tree:
    """One root conversation of a drill."""

    drill: AgentsDrill
    root: Conversation
    agents: AgentTree
    submissions: list[Submission] = field(default_factory=list)
    used: int = 0

    def agent_id(self, name: str) -> str:
        """The id of a child of the root, which exists from its name on."""
        return f"agent-{digest(f'{self.agents.id}/root/{name}')}"

    async def transcripts(self, tree: AgentList) -> dict[str, list[Entry]]:
        """Of the root and of every agent, by path."""
        ids = {"/root": self.root.id, **{row.path: row.agent_id for row in tree.agents}}
        return {path: await self.drill.harness.conversation(id).transcript() for path, id in ids.items()}

    def plan(self, name: str, *points: str, deadly: bool = False) -> None:
        """Stop an agent, or the root, at these points in turn."""
        self.drill.points.plan(self.agent_id(name) if name else self.root.id, points, deadly=deadly)

    async def reached(self, name: str) -> Arrival:
        """The next of these stops."""
        return await self.drill.points.reached(self.agent_id(name) if name else self.root.id)

    async def submit(self, content: str) -> None:
        """One more input of the root."""
        self.submissions.append(await self.root.submit(content))

    async def listed(self) -> AgentList:
        """All agents, as the tree tells it."""
        return await self.agents.list()

    async def waits(self) -> str:
        """The id of the root's call that waits for agents, once it is parked."""

        async def found() -> str:
            return (await self.drill.parked(self.root.id, "wait_agent") or [""])[0]

        return await eventually(found)

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Note meanwhile how many permits are used at most."""
        watching = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            watching.cancel()

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(Exception):  # nobody answers while workers are missed
                self.used = max(self.used, (await self.listed()).permits_used)
            await asyncio.sleep(0.05)

    async def left(self) -> Left:
        """What is left when all inputs are settled, and the tree has nothing more to do."""
        ends = [await settled(submission) for submission in self.submissions]
        tree = await eventually(self.listed, lambda found: all(row.state == "idle" for row in found.agents))
        transcripts = await self.transcripts(tree)
        rows = tree.agents
        return Left(
            answer=", ".join(end.answer_text or end.reason for end in ends),
            told={row.path: _told(row.path, transcripts) for row in rows},
            heard={row.path: _texts(transcripts[row.path], UserMessage) for row in rows},
            turns={row.path: row.turns for row in rows},
            open=(
                tree.permits_used,
                tree.queued,
                sum(row.pending for row in rows),
                sum(row.updates for row in rows),
                sum(row.undelivered for row in rows),
            ),
            doubled=_doubled(tree),
        )

    def peak(self) -> int:
        """How many agents executed at once, as their models and tools have recorded it."""
        spans = [line for line in self.drill.lines("spans") if line["agent"] != self.root.id]
        executing: set[str] = set()
        peak = 0
        for line in sorted(spans, key=lambda line: line["at"]):
            (executing.add if line["executes"] else executing.discard)(line["agent"])
            peak = max(peak, len(executing))
        return peak


def _told(path: str, transcripts: dict[str, list[Entry]]) -> int:
    """How often it was told that an agent ended; -1: to somebody else than its parent."""
    told = {
        reader: sum(text.count(path + ENDED) for text in _texts(entries, ToolMessage))
        for reader, entries in transcripts.items()
    }
    by_parent = told.pop(path.rpartition("/")[0])
    return -1 if any(told.values()) else by_parent


def _texts(entries: Sequence[Entry], kind: type[UserMessage | ToolMessage]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry.message, kind)]


def _doubled(tree: AgentList) -> tuple[str, ...]:
    """Turns that began or ended more than once, or began and did not end."""
    begun, ended = (
        Counter(event.turn_id for event in tree.events if event.kind == kind) for kind in ("turn-start", "turn-end")
    )
    return tuple(sorted(turn for turn in begun | ended if (begun[turn], ended[turn]) != (1, 1)))


class AgentsDrill(Drill):
    """A drill whose workers serve the application with agents."""

    app = "tests.support.agents_app:app"

    async def pair(self) -> None:
        """Two workers."""
        await asyncio.gather(*(self.worker(DRILL_LIMIT=str(LIMIT)) for _ in range(2)))

    async def tree(self) -> Tree:
        """A new root, which has not been told anything yet."""
        root = self.harness.conversation()
        await root.configure(thinking="off")
        nonce = (await root.view()).nonce
        return Tree(self, root, AgentTree(self.harness.client, self.settings, tree_of(f"{root.id}~{nonce}")))

    async def parked(self, conversation_id: str, tool: str) -> Sequence[str]:
        """The calls of that tool in a conversation which sleep, as lists tell it: no worker needs to be up."""
        return [
            item.id
            async for item in self.harness.work(conversation_id=conversation_id)
            if item.tool == tool and item.state == "sleeping"
        ]

    async def answer(self, task_id: str, text: str) -> None:
        """A person answers by a plain signal."""
        envelope: dict[str, Any] = {"key": "k", "value": {"text": text}}
        await sending_inline(self.harness.client).get_workflow_handle(task_id).signal(WORDS.name, envelope)

    def kill_other(self, arrival: Arrival) -> None:
        """Kill the worker of the two at which nothing has arrived."""
        [other] = [child for child in self.workers if child.pid != arrival.pid]
        assert other.pid is not None
        os.kill(other.pid, signal.SIGKILL)
