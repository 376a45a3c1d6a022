"""Transcripts whose pages are sealed and folded without a store, for tests of machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tarry.core.folding import PageIndex, folded, with_folded
from tarry.core.forks import Shared, cut, split
from tarry.core.transcript import Entry, PageRef, Transcript, sealed


@dataclass
class Store:
    """Pages and folded pages by reference."""

    entries: dict[str, tuple[Entry, ...]] = field(default_factory=dict)
    indexes: dict[str, PageIndex] = field(default_factory=dict)

    def seal(self, transcript: Transcript, count: int) -> None:
        """The first entries of the tail become a page."""
        if count:
            transcript.seal(self.page(transcript.tail[:count]))

    def page(self, entries: Sequence[Entry]) -> PageRef:
        """A page of these entries."""
        page = sealed(f"page {len(self.entries)}", entries)
        self.entries[page.ref] = tuple(entries)
        return page

    def fold(self, transcript: Transcript, count: int) -> None:
        """The first pages become one, if they are of one level."""
        pages = tuple(transcript.pages[:count])
        if pages and len({page.level for page in pages}) == 1:
            ref = f"index {len(self.indexes)}"
            self.indexes[ref] = PageIndex(pages=pages)
            transcript.pages = with_folded(transcript.pages, folded(pages, ref))

    def read(self, page: PageRef) -> list[Entry]:
        """What a reference leads to, as far as it counts."""
        below = self.indexes[page.ref].pages if page.level else ()
        found = [entry for one in below for entry in self.read(one)] if below else list(self.entries[page.ref])
        return [entry for entry in found if page.first.index <= entry.index < page.last.index]

    def all(self, transcript: Transcript) -> list[Entry]:
        """Every entry of a transcript."""
        return [entry for page in transcript.pages for entry in self.read(page)] + transcript.tail

    def shared(self, transcript: Transcript, at: int) -> Shared:
        """What a fork at that entry begins with."""
        tail = [entry for entry in transcript.tail if entry.index <= at]
        if tail:
            return Shared(transcript.pages, tail)
        found: list[PageRef] = []
        pages, last = list(transcript.pages), None
        while True:
            whole, last = split(pages, at)
            found += whole
            if last is None:
                return Shared(found, [])
            if not last.level:
                return Shared([*found, cut(last, self.read(last)[: at + 1 - last.first.index])], [])
            pages = list(self.indexes[last.ref].pages)
