"""How a fork comes to exist: the parent is read, what is shared is put together, and a conversation starts with it.

Nothing is written before the start but what a tail needs that is too large for a start, so a fork that was cut short
has harmed nobody and may be made again (spec §16).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from tarry.asking import QUERY_TIMEOUT, ask
from tarry.client.documents import DocumentReader
from tarry.client.errors import ConversationExists, NoSuchConversation, NoSuchEntry, ServerUnavailable
from tarry.client.sending import Road
from tarry.client.work import parent_of
from tarry.core.conversation import ConversationState
from tarry.core.folding import PageIndex, foldable, folded, with_folded
from tarry.core.forks import FORK_SOURCE, ForkSource, Origin, Shared, cut, forked, split
from tarry.core.lineage import Parent
from tarry.core.protocol import VIEW
from tarry.core.transcript import PAGE_BYTES, Entry, NoSuchPosition, Page, PageRef, Position, sealed
from tarry.core.views import GenerationView
from tarry.entries import EntryReader

ATTEMPTS = 5
"""How often a parent is read that moves on meanwhile: each time a run of it has ended."""
PAUSE = 0.2
"""Seconds between two of them."""


class Moved(Exception):
    """What was read of a conversation does not fit together."""


class Forking:
    """Makes forks of one conversation."""

    def __init__(self, client: Client, reader: EntryReader, origin: Origin) -> None:
        self._client = client
        self._reader = reader
        self._documents = DocumentReader(client)
        self._origin = origin

    async def start(self, road: Road) -> None:
        """Start the fork; a repeat finds the one that is there.

        Raises:
            NoSuchConversation, NoSuchEntry: there is nothing to fork.
            ConversationExists: the id is that of another conversation.
            ServerUnavailable: no worker of the parent answers.
        """
        state = await self._state()
        if await road.start_as(state, self._origin.owner):
            return
        assert state.parent is not None
        known = await self._known(road.conversation_id)
        if known is None or not self._origin.is_of(known, state.parent.nonce):
            was = "no fork" if known is None else f"a fork of {known.conversation_id} at entry {known.at}"
            raise ConversationExists(
                f"{road.conversation_id} is there already, {was} with other choices or of another place: "
                "fork under another id"
            )

    async def _known(self, conversation_id: str) -> Parent | None:
        """The parent of a conversation that is there."""
        return await parent_of(
            await self._client.get_workflow_handle(conversation_id).describe(rpc_timeout=QUERY_TIMEOUT)
        )

    async def _state(self) -> ConversationState:
        """What the fork begins with: a run may end while it is put together, and the parent is then read again."""
        for _ in range(ATTEMPTS):
            try:
                return await self._composed(secrets.token_hex(6))
            except (Moved, NoSuchPosition, WorkflowQueryFailedError):
                await asyncio.sleep(PAUSE)
        raise ServerUnavailable(f"{self._origin.conversation_id} moved on whenever it was read: try again")

    async def _composed(self, nonce: str) -> ConversationState:
        source = await self._source()
        run = await self._run(source)
        end = run.end if run is not None else source.end
        at = end.index - 1 if self._origin.at is None else self._origin.at
        if not 0 <= at < end.index:
            raise NoSuchEntry(self._missing(at, end.index))
        return forked(source, run, await self._shared(source, run, at), self._origin, nonce)

    def _missing(self, at: int, entries: int) -> str:
        name = self._origin.conversation_id
        if not entries:
            return f"{name} has no entries yet: there is nothing to fork"
        return f"{name} has no entry {at}: they are numbered from 0 to {entries - 1}"

    async def _source(self) -> ForkSource:
        """The parent as it stands; with its session's documents when the fork is a root and the parent is none."""
        source = await self._asked()
        root = (
            self._origin.conversation_id
            if self._origin.owner
            else await self._documents.root(self._origin.conversation_id)
        )
        if root == self._origin.conversation_id:
            return source
        return source.with_session((await self._documents.view(root)).documents)

    async def _asked(self) -> ForkSource:
        name = self._origin.conversation_id
        try:
            return await ask(self._client, name, FORK_SOURCE, ForkSource)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NoSuchConversation(f"there is no conversation {name}") from error
            raise

    async def _run(self, source: ForkSource) -> GenerationView | None:
        """The open run; None: there is none, or its workflow is not there yet.

        Raises:
            Moved: the conversation has gone on without it.
        """
        if source.open_generation is None:
            return None
        try:
            run = await ask(self._client, source.open_generation, VIEW, GenerationView)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            if (await self._asked()).open_generation != source.open_generation:
                raise Moved from error
            return None
        if run.start != source.end:
            raise Moved
        return run

    async def _shared(self, source: ForkSource, run: GenerationView | None, at: int) -> Shared:
        """The entries up to `at`: pages as they are, the last one cut, and what is left of a tail."""
        pages, tail = await self._upto(self._origin.conversation_id, source.pages, source.end, at)
        if run is not None and at >= source.end.index:
            more, rest = await self._upto(run.generation_id, run.pages, run.end, at, start=run.start.index)
            if more:
                pages, tail = [*pages, *await self._as_page(tail), *more], rest
            else:
                tail = [*tail, *rest]
        if sum(entry.size() for entry in tail) > PAGE_BYTES:
            pages, tail = [*pages, *await self._as_page(tail)], []
        return Shared(await self._few(pages), tail)

    async def _upto(
        self, workflow_id: str, pages: Sequence[PageRef], end: Position, at: int, *, start: int = 0
    ) -> tuple[list[PageRef], list[Entry]]:
        """The part of one workflow's transcript that goes up to entry `at`, which may come later."""
        first = pages[-1].last.index if pages else start
        if at < first:
            return await self._pages_upto(pages, at), []
        tail = await self._read(workflow_id, Position(index=first), end)
        return list(pages), [entry for entry in tail if entry.index <= at]

    async def _read(self, workflow_id: str, first: Position, end: Position) -> list[Entry]:
        try:
            return await self._reader.read(workflow_id, first, end)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise Moved from error
            raise

    async def _pages_upto(self, pages: Sequence[PageRef], at: int) -> list[PageRef]:
        """Sealed pages up to the one that is cut; folded ones are taken apart on the way to it."""
        found: list[PageRef] = []
        while True:
            whole, last = split(pages, at)
            found += whole
            if last is None:
                return found
            if not last.level:
                entries = await self._reader.page(last)
                return [*found, cut(last, entries[: at + 1 - last.first.index])]
            pages = await self._reader.pages(last)

    async def _as_page(self, tail: Sequence[Entry]) -> list[PageRef]:
        """The page that the parent will have made of it when it seals the same entries."""
        return [sealed(await self._documents.blobs.put(Page(entries=tuple(tail))), tail)] if tail else []

    async def _few(self, pages: list[PageRef]) -> list[PageRef]:
        """The pages, those of a long run folded: what a start carries stays small."""
        while chosen := foldable(pages):
            pages = with_folded(pages, folded(chosen, await self._documents.blobs.put(PageIndex(pages=chosen))))
        return pages
