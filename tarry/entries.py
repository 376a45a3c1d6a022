"""Reading a transcript from outside its workflow: cache, then query, then page.

The cache maps an entry's chain to the entry, so a reset, a fork or a reused id can never serve another
timeline (spec §6.1); a miss costs one query of a few milliseconds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

from temporalio.client import Client
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_exponential

from tarry.asking import ask
from tarry.core.folding import PageIndex
from tarry.core.protocol import ENTRIES, EntriesQuery
from tarry.core.transcript import Entry, Page, PageRef, Position, Slice
from tarry.store import BlobStore, StoreError

T = TypeVar("T")

FIRST_SLICE = 8 * 1024
"""Most often a few new entries are all that is missing."""
NEXT_SLICE = 24 * 1024
"""The answer stays inline: from 32 KiB on each one would leave a blob in the store that nobody needs again."""


class EntryCache:
    """Entries by chain, the least recently used dropped first. Shared by all activities of a process."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[str, tuple[Entry, int]] = OrderedDict()

    def get(self, chain: str) -> Entry | None:
        """The entry with that chain, which then counts as used."""
        found = self._entries.get(chain)
        if found is None:
            return None
        self._entries.move_to_end(chain)
        return found[0]

    def add(self, entries: Iterable[Entry]) -> None:
        """Keep entries, dropping the ones unused for longest when there are too many bytes."""
        for entry in entries:
            if entry.chain not in self._entries:
                size = entry.size()
                self._entries[entry.chain] = (entry, size)
                self._bytes += size
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            self._bytes -= self._entries.popitem(last=False)[1][1]


class EntryReader:
    """Reads entries that workflows own."""

    def __init__(
        self, client: Client, blobs: BlobStore, cache: EntryCache, *, patience: timedelta = timedelta(0)
    ) -> None:
        """`patience` is how long a store that is out of reach is tried again."""
        self._client = client
        self._blobs = blobs
        self._cache = cache
        self._patience = patience

    async def context(
        self,
        conversation_id: str,
        generation_id: str,
        run_start: Position,
        cutoff: Position,
        first: Position | None = None,
    ) -> list[Entry]:
        """Every entry from `first` up to `cutoff`, oldest first; those from `run_start` on belong to the generation."""
        first = first or Position()
        own = await self.read(generation_id, max(first, run_start, key=lambda place: place.index), cutoff)
        return await self.read(conversation_id, first, run_start) + own

    async def read(self, workflow_id: str, first: Position, upto: Position) -> list[Entry]:
        """The entries of one workflow's transcript from `first` up to `upto`, oldest first."""
        newest_first: list[Entry] = []
        place = upto
        size = FIRST_SLICE
        while place.index > first.index:
            entry = self._cache.get(place.chain)
            if entry is None:
                entry = await self._fetch(workflow_id, place, size)
                size = NEXT_SLICE
            newest_first.append(entry)
            place = Position(index=entry.index, chain=entry.prev)
        return newest_first[::-1]

    async def entry(self, workflow_id: str, index: int, pages: Sequence[PageRef], end: Position) -> Entry:
        """One entry of a transcript with these pages and this end: out of its page, or of the open tail."""
        for page in pages:
            if page.first.index <= index < page.last.index:
                leaf = await self._leaf(page, index)
                return (await self.page(leaf))[index - leaf.first.index]
        return (await self.read(workflow_id, Position(index=index), end))[0]

    async def _fetch(self, workflow_id: str, place: Position, size: int) -> Entry:
        """Read the slice or page that ends at `place` into the cache and return its last entry."""
        part = await self._query(workflow_id, place, size)
        entries = part.entries
        if part.page is not None:
            entries = await self.page(await self._leaf(part.page, place.index - 1))
        self._cache.add(entries)
        return next(entry for entry in reversed(entries) if entry.chain == place.chain)

    async def page(self, page: PageRef) -> tuple[Entry, ...]:
        """The entries of a sealed page, as far as it belongs to this transcript."""
        entries = (await self._blob(page.ref, Page)).entries
        return entries[: page.last.index - page.first.index]

    async def pages(self, page: PageRef) -> tuple[PageRef, ...]:
        """The pages below a folded one."""
        return (await self._blob(page.ref, PageIndex)).pages

    async def _leaf(self, page: PageRef, index: int) -> PageRef:
        """The page of entries that holds entry `index`, below a folded one."""
        while page.level:
            page = (await self._blob(page.ref, PageIndex)).holding(index)
        return page

    async def _blob(self, ref: str, as_type: type[T]) -> T:
        attempts = AsyncRetrying(
            stop=stop_after_delay(self._patience),
            wait=wait_exponential(multiplier=0.2, max=5),
            retry=retry_if_exception_type(StoreError),
            reraise=True,
        )
        value: T = await attempts(self._blobs.get, ref, as_type)
        return value

    async def archived(self, archive: tuple[str, ...], key: str) -> str | None:
        """The packed record of a settled submission, looked for in the archives given (spec §7.1)."""
        for ref in archive:
            records = await self._blob(ref, dict[str, str])
            if key in records:
                return records[key]
        return None

    async def _query(self, workflow_id: str, upto: Position, size: int) -> Slice:
        return await ask(self._client, workflow_id, ENTRIES, Slice, EntriesQuery(upto=upto, max_bytes=size))
