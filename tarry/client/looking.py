"""Making views of a conversation: a query says what is committed, a description what streams (spec §7.9).

Only what has news is asked again. Without a worker the last answers stay, and the view says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from tarry.asking import QUERY_TIMEOUT, query
from tarry.client.errors import NoSuchConversation, ServerUnavailable
from tarry.client.listening import OVERDUE
from tarry.client.questions import open_questions
from tarry.client.sights import CallSight, RunSight, describe, see_call, see_run, task_id_of
from tarry.core.live import (
    MAX_ENTRIES,
    MAX_SETTLED,
    Contact,
    LiveCall,
    LiveRun,
    LiveView,
    Question,
    open_requests,
    window,
)
from tarry.core.messages import Usage
from tarry.core.protocol import SUBMISSION, VIEW, SubmissionLookup, SubmissionView
from tarry.core.transcript import Entry, Position
from tarry.core.views import ConversationView, GenerationView
from tarry.entries import EntryReader

T = TypeVar("T")

AT_A_TIME = 8
"""Calls that are described at the same time."""
_FIRST_QUESTIONS_PAUSE = 1.0
_LONGEST_QUESTIONS_PAUSE = 10.0


class Silence(Exception):
    """No worker answered a query in time, or no server."""


class Looker:
    """Looks at one conversation again and again.

    Attributes:
        contact: who answered at the last look.
        timeout: how long a question waits for a worker. Short, so that who watches soon hears that there is none.
    """

    def __init__(self, client: Client, reader: EntryReader, conversation_id: str) -> None:
        self._client = client
        self._reader = reader
        self._id = conversation_id
        self._conversation: ConversationView | None = None
        self._run: GenerationView | None = None
        self._sight: RunSight | None = None
        self._calls: dict[int, CallSight] = {}
        self._entries: tuple[Entry, ...] = ()
        self._settled: tuple[SubmissionView, ...] = ()
        self._gone: list[str] = []
        self._below = Below(client, conversation_id)
        self._unread: set[str] = {conversation_id}
        self._asked = 0.0
        self.contact: Contact = "up"
        self.timeout: timedelta = QUERY_TIMEOUT

    @property
    def _lacks_worker(self) -> bool:
        """Whether something waits for a worker, of whom no event tells."""
        request = self._sight is not None and self._sight.lacks_worker
        return request or any(call.lacks_worker for call in self._calls.values())

    @property
    def listens_to(self) -> list[str]:
        """The workflows whose news change the view."""
        run = self._conversation.open_generation if self._conversation else None
        calls = [seen.call.task_id for seen in self._calls.values() if seen.call.status not in ("done", "pending")]
        tree = self._conversation.tree if self._conversation else ""
        return [self._id, *([run, *calls] if run else []), *([tree] if tree else [])]

    @property
    def streams(self) -> list[str]:
        """The workflows that may publish without an event, and so have to be looked at by and by."""
        run = self._conversation.open_generation if self._conversation else None
        calls = [seen.call.task_id for seen in self._calls.values() if seen.streams]
        return [*([run] if run and self._sight and self._sight.message is not None else []), *calls]

    @property
    def next_look(self) -> float | None:
        """Seconds until it should look for questions further below; None: there can be none, or its tree will tell."""
        if any(seen.looks_below for seen in self._calls.values()):
            return self._below.pause
        return self._below.pause if self._looks_below and not self._below.is_calm else None

    @property
    def _looks_below(self) -> bool:
        """Whether something below may ask a question: what a call waits for, or an agent, which nobody waits for."""
        has_tree = self._conversation is not None and bool(self._conversation.tree)
        return has_tree or any(seen.looks_below for seen in self._calls.values())

    async def look(self, news: Collection[str]) -> LiveView:
        """How the conversation stands, after `news` of these workflows. Comes within seconds, whoever is away.

        Raises:
            NoSuchConversation: nothing with that id.
        """
        self._unread |= set(news)
        if self._lacks_worker and time.monotonic() - self._asked > OVERDUE:
            self._unread.add(self._id)
        try:
            await self._ask(set(self._unread))
            self._unread.clear()
            self.contact = "up"
        except Silence:
            self.contact = await self._who_is_away()
        try:
            await self._see(news)
        except RPCError:
            self.contact = "no_server"
        return self._view()

    async def _who_is_away(self) -> Contact:
        try:
            found = await describe(self._client, self._id)
        except RPCError:
            return "no_server"
        if found is None:
            raise NoSuchConversation(f"there is no conversation {self._id}")
        return "no_worker"

    async def _ask(self, news: set[str]) -> None:
        """Query what has news, the conversation first."""
        old = self._conversation
        if self._id in news or old is None:
            self._asked = time.monotonic()
            found = await self._query(self._id, VIEW, ConversationView)
            if found is None:
                raise NoSuchConversation(f"there is no conversation {self._id}")
            if old is None or old.open_generation != found.open_generation:
                self._run, self._sight, self._calls = None, None, {}
            known = self._entries if old is not None and old.nonce == found.nonce else ()
            self._entries = await self._read_conversation(found, known)
            self._conversation = found
            await self._settle(old, found)
        run_id = self._conversation.open_generation if self._conversation else None
        if run_id is not None and (run_id in news or self._run is None):
            run = await self._query(run_id, VIEW, GenerationView)
            if run is not None:
                self._entries, self._run = await self._read_run(run, self._entries), run

    async def _read_conversation(self, found: ConversationView, known: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """The newest that the conversation itself has, and those of its open run that are known."""
        end = found.end
        if known and (end.index < known[0].index or end in [_before(known[0]), *(e.position for e in known)]):
            return known
        newer = await self._read(self._id, max(_end(known), _first(end), key=_index), end)
        if known and newer and newer[0].prev == known[-1].chain:
            return window([*known, *newer])
        return window(await self._read(self._id, _first(end), end))

    async def _read_run(self, run: GenerationView, known: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """The entries of the open run behind those of the conversation; of those that are known what leads there."""
        before = [entry for entry in known if entry.index < run.start.index]
        own = [entry for entry in known if entry.index >= run.start.index]
        if own and own[-1].position == run.end:
            return known
        place = max(run.start, _first(run.end), key=_index)
        newer = await self._read(run.generation_id, max(place, _end(own), key=_index), run.end)
        if own and not (newer and newer[0].prev == own[-1].chain):
            own, newer = [], await self._read(run.generation_id, place, run.end)
        return window([*before, *own, *newer])

    async def _read(self, workflow_id: str, first: Position, upto: Position) -> list[Entry]:
        try:
            return await self._reader.read(workflow_id, first, upto)
        except (RPCError, WorkflowQueryFailedError) as error:
            raise Silence from error

    async def _settle(self, old: ConversationView | None, new: ConversationView) -> None:
        """Ask what became of the submissions that are neither queued nor placed any more, each until it is told."""
        if old is not None:
            self._gone += [one for one in (*old.placed, *old.queued) if one not in (*new.placed, *new.queued)]
        while self._gone:
            found = await self._query(self._id, SUBMISSION, SubmissionLookup, self._gone[0])
            del self._gone[0]
            if found is not None and found.submission is not None:
                self._settled = (*self._settled, found.submission)[-MAX_SETTLED:]

    async def _query(self, workflow_id: str, name: str, answer: type[T], *arguments: str) -> T | None:
        """The answer; None of what is not there (yet).

        Raises:
            Silence: nobody answered in time.
        """
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            return await query(handle, name, answer, *arguments, within=self.timeout)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise Silence from error
        except WorkflowQueryFailedError as error:
            raise Silence from error

    async def _see(self, news: Collection[str]) -> None:
        """Describe the run and those of its calls that have news, and look below."""
        run_id = self._conversation.open_generation if self._conversation else None
        if run_id is not None:
            await self._see_run(run_id, news)
        if self._looks_below:
            await self._below.look(frozenset(news))

    async def _see_run(self, run_id: str, news: Collection[str]) -> None:
        if self._sight is None or run_id in news or run_id in self.streams:
            self._sight = await see_run(self._client, run_id)
        asked = dict(open_requests(self._entries)) if self._run is not None and self._run.phase == "tools" else {}
        self._calls = {slot: seen for slot, seen in self._calls.items() if slot in asked}
        wanted = [self._named(slot, call) for slot, call in asked.items() if self._is_wanted(slot, run_id, news)]
        for start in range(0, len(wanted), AT_A_TIME):
            seen = await asyncio.gather(
                *(see_call(self._client, call.task_id, call) for call in wanted[start : start + AT_A_TIME])
            )
            self._calls |= {one.call.slot: one for one in seen}

    def _named(self, slot: int, call: LiveCall) -> LiveCall:
        """The call as it was seen last, with the id that it has by now."""
        assert self._run is not None
        assert self._sight is not None
        turn = self._run.turn
        known = self._calls[slot].call if slot in self._calls else call
        named = task_id_of(self._run.generation_id, turn, slot)
        task_id = self._sight.calls.get((turn, slot), known.task_id or named)
        return known.model_copy(update={"task_id": task_id})

    def _is_wanted(self, slot: int, run_id: str, news: Collection[str]) -> bool:
        seen = self._calls.get(slot)
        if seen is None or seen.call.task_id in news or seen.streams:
            return True
        return run_id in news and seen.call.status != "done"

    def _view(self) -> LiveView:
        found = self._conversation or ConversationView(
            conversation_id=self._id,
            nonce="",
            end=Position(),
            pages=(),
            open_generation=None,
            queued=(),
            runs=0,
            usage=Usage(),
        )
        own = [seen.question for seen in self._calls.values() if seen.question is not None]
        known = {question.task_id for question in own}
        below = [one for one in self._below.questions if one.task_id not in known] if self._looks_below else []
        return LiveView(
            **dict(found),
            entries=self._entries,
            run=self._live_run(found),
            questions=tuple(sorted([*own, *below], key=lambda question: question.since)),
            settled=self._settled,
            contact=self.contact,
        )

    def _live_run(self, found: ConversationView) -> LiveRun | None:
        if found.open_generation is None:
            return None
        run = self._run
        if run is None:
            return LiveRun(generation_id=found.open_generation, inputs=found.placed)
        return LiveRun(
            generation_id=run.generation_id,
            turn=run.turn,
            phase="held" if run.held else run.phase,
            held=run.held,
            retry=run.retry,
            inputs=found.placed,
            message=self._sight.message if self._sight else None,
            calls=tuple(seen.call for _, seen in sorted(self._calls.items())),
        )


class Below:
    """Questions from further down: nested calls, tasks and conversations that a call waits for.

    Lists know them alone, and nothing tells when one is asked. So it looks at once when something happens nearby, and
    ever more rarely while nothing does.
    """

    def __init__(self, client: Client, conversation_id: str) -> None:
        self._client = client
        self._id = conversation_id
        self._again = 0.0
        self._gap = _FIRST_QUESTIONS_PAUSE
        self.questions: list[Question] = []

    @property
    def pause(self) -> float:
        """Seconds until the next look."""
        return max(0.0, self._again - time.monotonic())

    @property
    def is_calm(self) -> bool:
        """Whether nothing has happened for so long that only news are worth another look."""
        return self._gap >= _LONGEST_QUESTIONS_PAUSE

    async def look(self, news: Collection[str]) -> None:
        """Look if it is time to."""
        if news:
            self._gap = _FIRST_QUESTIONS_PAUSE
        elif self.pause > 0:
            return
        with contextlib.suppress(ServerUnavailable):
            self.questions = await open_questions(self._client, self._id)
        self._again = time.monotonic() + self._gap
        self._gap = min(self._gap * 2, _LONGEST_QUESTIONS_PAUSE)


def _before(entry: Entry) -> Position:
    return Position(index=entry.index, chain=entry.prev)


def _end(entries: Sequence[Entry]) -> Position:
    return entries[-1].position if entries else Position()


def _first(end: Position) -> Position:
    """The place of the oldest entry that a view can hold."""
    return Position(index=max(0, end.index - MAX_ENTRIES))


def _index(place: Position) -> int:
    return place.index
