"""How a subagent's conversation begins: with what its parent's had completed before the call for it (spec §17.30).

It is a fork that ends with the last complete turn, and one entry of its own, a head marker: where its context begins,
and what stands in front. Nothing is read of the parent but its tail, the page that is cut, and the newest head marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from tarry.asking import QUERY_TIMEOUT
from tarry.client.errors import ConversationExists, NoSuchConversation, NoSuchEntry, reaching_server
from tarry.client.forking import Forking
from tarry.client.sending import Road
from tarry.core.agent import Agent
from tarry.core.conversation import ConversationState
from tarry.core.forks import ForkSource, Origin, forked
from tarry.core.open_run import run_of
from tarry.core.paths import root_of
from tarry.core.protocol import OWNER_MEMO
from tarry.core.subagents.protocol import ContextPolicy
from tarry.core.transcript import Entry, PageRef, Position, seed_draft
from tarry.core.turns import KEPT, Turn, exact_start
from tarry.entries import EntryReader


@dataclass(frozen=True)
class Seed:
    """A subagent that is to begin: the call that asked for it, what it is to know, its choices, and its path."""

    owner: str
    policy: ContextPolicy
    agent: Agent
    path: str = ""


class Seeding(Forking):
    """Begins one subagent."""

    def __init__(self, client: Client, reader: EntryReader, seed: Seed) -> None:
        super().__init__(client, reader, Origin(root_of(seed.owner), agent=seed.agent, owner=seed.owner))
        self._seed = seed
        self._nonce, self._run_number = run_of(seed.owner)

    @reaching_server()
    async def start(self, road: Road) -> None:
        """Begin it; a repeat, however much later, finds the one that is there, and reads nothing.

        What it begins with is fixed by the call: the complete turns before the run that made it.

        Raises:
            NoSuchConversation: the parent's is not there, or another one under its id; or the subagent's own is over.
            NoSuchEntry: the parent's has had so many turns since that it is not known where the call stands.
            ConversationExists: the id is that of another conversation; nothing was begun.
            ServerUnavailable: no server answers, or no worker of the parent.
        """
        if await self._is_there(road.conversation_id):
            return
        state = await self._state()
        if not await road.start_as(state, self._seed.owner, self._seed.path):
            await self._is_there(road.conversation_id)

    async def _is_there(self, conversation_id: str) -> bool:
        handle = self._client.get_workflow_handle(conversation_id)
        try:
            found = await handle.describe(rpc_timeout=QUERY_TIMEOUT)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return False
        if await found.memo_value(OWNER_MEMO, default="") != self._seed.owner:
            raise ConversationExists(
                f"{conversation_id} is there already, and is not the subagent of {self._seed.owner}"
            )
        if found.status != WorkflowExecutionStatus.RUNNING:
            raise NoSuchConversation(f"{conversation_id} was there, and is over: start another subagent")
        return True

    async def _composed(self, nonce: str) -> ConversationState:
        inherited = None if self._seed.policy.mode == "fresh" else await self._inherited(nonce)
        return inherited or ConversationState.born(nonce, self._seed.agent)

    async def _inherited(self, nonce: str) -> ConversationState | None:
        """What it begins with of its parent's; None: there is nothing to tell."""
        source = await self._source()
        turns, end = self._before_the_call(source)
        if not turns:
            return None
        pages, tail = await self._upto(self._origin.conversation_id, source.pages, source.end, end - 1)
        head = _newest_head(pages, tail)
        start = exact_start(turns, head, self._seed.policy.completed_turns)
        told = "" if start is not None else await self._told(pages, tail)
        if not told and turns[-1].first < head:
            return None
        at = turns[-1].end - 1
        shared = await self._shared(source, None, at)
        state = forked(source, None, shared, replace(self._origin, at=at), nonce)
        first = min(head if start is None else start, state.transcript.end.index)
        state.transcript.append(seed_draft(_now(), state.runs, Position(index=first), told, self._note(turns, first)))
        return state

    def _before_the_call(self, source: ForkSource) -> tuple[list[Turn], int]:
        """The complete turns before the call's run, and the number of entries before that."""
        name, number = self._origin.conversation_id, self._run_number
        if source.nonce != self._nonce:
            raise NoSuchConversation(
                f"{name} is another conversation than the one in which {self._seed.owner} was made"
            )
        if number is None:
            number = source.runs + 1
        if source.turns.has_forgotten(number):
            raise NoSuchEntry(f"{name} has had over {KEPT} turns since {self._seed.owner}: its context is not known")
        first = source.turns.first_of(number)
        return source.turns.before(number), source.end.index if first is None else first

    async def _told(self, pages: Sequence[PageRef], tail: Sequence[Entry]) -> str:
        """What the newest head marker says in place of what came before it."""
        marker = next((entry for entry in reversed(tail) if entry.head is not None), None)
        page = next((page for page in reversed(pages) if page.head is not None), None)
        if marker is None and page is not None:
            marker = await self._marker(page)
        return "" if marker is None or marker.message is None else marker.message.text

    async def _marker(self, page: PageRef) -> Entry:
        """The newest head marker of a page that has one."""
        while page.level:
            page = next(one for one in reversed(await self._reader.pages(page)) if one.head is not None)
        return next(entry for entry in reversed(await self._reader.page(page)) if entry.head is not None)

    def _note(self, turns: Sequence[Turn], first: int) -> str:
        whole = sum(turn.first >= first for turn in turns)
        return f"a subagent of {self._origin.conversation_id}, from its last {whole} completed turns on"


def _newest_head(pages: Sequence[PageRef], tail: Sequence[Entry]) -> int:
    """Where the context begins: the place that the newest head marker names, else the beginning."""
    heads = [entry.head for entry in reversed(tail)] + [page.head for page in reversed(pages)]
    return next((head.index for head in heads if head is not None), 0)


def _now() -> datetime:
    return datetime.now(UTC)
