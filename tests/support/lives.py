"""Conversations that live through anything without a server: runs, writes, heads, sealed pages, forks, subagents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

from hypothesis import strategies as st
from temporalio.client import Client

from tarry.client.seeding import Seed, Seeding
from tarry.connect import data_converter
from tarry.core.agent import Agent
from tarry.core.conversation import ConversationState
from tarry.core.forks import ForkSource, Origin, forked
from tarry.core.messages import AssistantMessage, ToolCallRequest, ToolMessage, UserMessage
from tarry.core.prompt import PromptPatch, SectionPatch
from tarry.core.protocol import RunResult, SubmitInput
from tarry.core.subagents.protocol import ContextPolicy
from tarry.core.transcript import (
    Draft,
    Entry,
    PageRef,
    Position,
    ToolFacts,
    Transcript,
    assistant_draft,
    compaction_draft,
    note_draft,
    reset_draft,
    result_draft,
    system_draft,
    user_draft,
)
from tarry.core.writes import Write
from tarry.entries import EntryReader
from tests.support.transcripts import Store

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)

ids = st.sampled_from(["a", "b", ""])
requested = st.builds(ToolCallRequest, call_id=ids, name=st.just("t"), arguments=st.just("{}"))
sections = st.builds(SectionPatch, key=st.just("s"), text=st.sampled_from(["one", "two", None]))
moves = st.one_of(
    st.builds(AssistantMessage, text=st.just("so"), calls=st.lists(requested, max_size=3).map(tuple)),
    st.builds(ToolMessage, call_id=ids, name=st.just("t"), text=st.just("done")),
    st.builds(UserMessage, text=st.sampled_from(["steer", " "])),
    st.builds(PromptPatch, sections=st.tuples(sections), baseline=st.booleans()),
    st.just("note"),
    st.integers(0, 6),
)
"""What happens in a run; a number is a summary that keeps so many of the newest entries."""
ends = st.sampled_from(["answered"] * 4 + ["handoff", "failed", "reset"])
runs = st.tuples(st.just("run"), st.lists(moves, max_size=5), ends)
policies = st.sampled_from(
    [
        ContextPolicy(mode="all_completed"),
        *(ContextPolicy(mode="last_n_completed", completed_turns=number) for number in (1, 2, 3)),
        ContextPolicy(),
    ]
)
steps = st.one_of(
    runs,
    runs,
    st.tuples(st.just("write"), st.sampled_from(["note", "user", "reset", "handoff"])),
    st.tuples(st.sampled_from(["compact", "seal", "fold", "fork"]), st.integers(0, 6)),
    st.tuples(st.just("child"), policies),
)


@dataclass
class Life:
    """A conversation that is now and then left for a fork, or a subagent; `turns`: where its answered runs stand."""

    store: Store = field(default_factory=Store)
    state: ConversationState = field(default_factory=lambda: ConversationState.born("nonce0"))
    turns: list[tuple[int, int]] = field(default_factory=list)
    asked: int = 0
    left: int = 0
    requests: int = 0

    @property
    def id(self) -> str:
        """Of the conversation that it is now."""
        return f"c{self.left}"

    @property
    def entries(self) -> list[Entry]:
        """All that its conversation owns."""
        return self.store.all(self.state.transcript)

    def play(self, happened: Sequence[tuple[object, ...]]) -> None:
        """One step after the other."""
        for kind, *rest in happened:
            match kind, rest:
                case "run", [list() as said, str() as end]:
                    self.run(said, end)
                case "child", [ContextPolicy() as policy]:
                    self.descend(policy)
                case "write", [str() as what]:
                    self.write(what)
                case str(), [int() as number]:
                    self.change(kind, number)

    def run(self, said: Sequence[object], end: str) -> None:
        """A whole run."""
        self.open()
        self.end(said, end)

    def end(self, said: Sequence[object], end: str) -> None:
        """The open run comes to its end."""
        assert self.state.open is not None
        first = self.state.open.start.index - 1
        transcript = Transcript(start=self.state.open.start)
        for move in said:
            transcript.append(self._draft(transcript, move))
        if end == "handoff":
            transcript.append(reset_draft(AT, self.state.runs, transcript.end, "handed over"))
        elif end == "answered":
            answer = AssistantMessage(text=f"answer {self.asked}")
            transcript.append(assistant_draft(answer, AT, self.state.runs))
        elif end == "reset":
            transcript.append(reset_draft(AT, self.state.runs, transcript.end))
        is_done = end in ("answered", "handoff")
        result = RunResult(
            status="done" if is_done else "unanswered",
            reason="" if is_done else "model_error",
            entries=tuple(transcript.tail),
        )
        self.state.close_run(self.state.open, result, AT)
        if is_done:
            self.turns.append((first, self.state.transcript.end.index))

    def open(self) -> int:
        """A run begins; the place of its input."""
        self.asked += 1
        first = self.state.transcript.end.index
        self._admit(f"ask {self.asked}")
        return first

    def _admit(self, content: str, write: Write | None = None) -> None:
        self.requests += 1
        self.state.inbox.admit(SubmitInput(content=content, request_id=f"r{self.requests}", write=write), AT)
        self.state.open_next(AT, self.id)

    def _draft(self, transcript: Transcript, move: object) -> Draft:
        run = self.state.runs
        match move:
            case UserMessage():
                return user_draft(move.text, AT, run)
            case AssistantMessage():
                return assistant_draft(move, AT, run)
            case ToolMessage():
                return result_draft(move, ToolFacts(), AT, run)
            case PromptPatch():
                return system_draft(move, AT, run)
            case int():
                return compaction_draft("in short", AT, run, self._kept([*self.entries, *transcript.tail], move))
            case _:
                return note_draft("for people", AT, run)

    def _kept(self, entries: Sequence[Entry], number: int) -> Position:
        """The place before the newest entries; never an older one than the newest marker names."""
        newest = max((entry.head.index for entry in entries if entry.head is not None), default=0)
        return Position(index=max(newest, len(entries) - number, 0))

    def write(self, what: str) -> None:
        """An entry by hand."""
        match what:
            case "handoff":
                self._admit("handed over", Write(kind="reset"))
            case "reset":
                self._admit("", Write(kind="reset"))
            case "user":
                self._admit("read this", Write(kind="user"))
            case _:
                self._admit("for people", Write(kind="note"))

    def change(self, kind: str, number: int) -> None:
        """A summary between two runs, a page, or a fork at one of the newest entries."""
        entries = self.entries
        match kind:
            case "compact":
                self._admit("in short", Write(kind="compaction", head=self._kept(entries, number)))
            case "seal":
                self.store.seal(self.state.transcript, min(number, len(self.state.transcript.tail)))
            case "fold":
                self.store.fold(self.state.transcript, number)
            case _ if entries:
                at = max(len(entries) - 1 - number, 0)
                shared = self.store.shared(self.state.transcript, at)
                self.go_on_as(forked(ForkSource.of(self.state), None, shared, Origin(self.id, at), self._nonce()))
                self.turns = [turn for turn in self.turns if turn[1] <= at + 1]

    def descend(self, policy: ContextPolicy) -> None:
        """Go on in a subagent that a run of it asked for."""
        self.open()
        child = self.child(policy)
        shared = child.parent.at + 1 if child.parent is not None else 0
        self.turns = [turn for turn in self.turns if turn[1] <= shared]
        self.go_on_as(child)

    def child(self, policy: ContextPolicy, call_id: str = "") -> ConversationState:
        """What a subagent begins with that a call of the open run asks for, or the call given."""
        return asyncio.run(_composed(self, policy, call_id or self.call_id))

    @property
    def call_id(self) -> str:
        """A call of the open run."""
        assert self.state.open is not None
        return f"{self.state.open.generation_id}/t1.0"

    def go_on_as(self, state: ConversationState) -> None:
        """Leave it for another one."""
        self.left += 1
        self.state = state

    def _nonce(self) -> str:
        return f"nonce{self.left + 1}"


class _Pages:
    """Reads as an `EntryReader` does."""

    def __init__(self, life: Life) -> None:
        self._life = life

    async def read(self, workflow_id: str, first: Position, upto: Position) -> list[Entry]:
        assert workflow_id == self._life.id
        return [entry for entry in self._life.state.transcript.tail if first.index <= entry.index < upto.index]

    async def page(self, page: PageRef) -> tuple[Entry, ...]:
        return tuple(self._life.store.read(page))

    async def pages(self, page: PageRef) -> tuple[PageRef, ...]:
        return self._life.store.indexes[page.ref].pages


class _Sown(Seeding):
    """Asks no server."""

    def __init__(self, client: Client, life: Life, seed: Seed) -> None:
        super().__init__(client, cast(EntryReader, _Pages(life)), seed)
        self._life = life

    async def _asked(self) -> ForkSource:
        return ForkSource.of(self._life.state)

    async def _as_page(self, tail: Sequence[Entry]) -> list[PageRef]:
        return [self._life.store.page(tail)] if tail else []

    async def _few(self, pages: list[PageRef]) -> list[PageRef]:
        return pages


async def _composed(life: Life, policy: ContextPolicy, call_id: str) -> ConversationState:
    client = await Client.connect("nowhere:1", lazy=True, data_converter=data_converter("never-written"))
    seeding = _Sown(client, life, Seed(call_id, policy, Agent(), "/root/child"))
    return await seeding._composed(f"nonce{life.left + 1}")
