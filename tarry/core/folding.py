"""Pages of page references: how a transcript of any length is carried in a few (spec §8.2).

Pure. When a transcript has twice `FAN` pages of one level, the oldest `FAN` of them are folded into a page of the next
level, which holds their references. So it carries less than twice `FAN` references a level, and has few levels.
Long runs fold their own pages, which then are folded with those before them.
"""

from __future__ import annotations

from itertools import groupby, zip_longest

from tarry.core.messages import Frozen
from tarry.core.transcript import PageRef

FOLD = "tarry.fold"
"""The activity that writes such a page."""

FAN = 16
"""Decides on a command when a workflow is replayed: change it only behind `workflow.patched`."""


class PageIndex(Frozen):
    """What the reference of a folded page leads to."""

    pages: tuple[PageRef, ...]

    def holding(self, index: int) -> PageRef:
        """The page among them that holds the entry `index`.

        Raises:
            StopIteration: none does.
        """
        return next(page for page in self.pages if page.first.index <= index < page.last.index)


class FoldInput(Frozen):
    """Write these references, which follow each other, into one page."""

    pages: tuple[PageRef, ...]


def foldable(pages: list[PageRef]) -> tuple[PageRef, ...]:
    """The pages that are folded next; none: there are few."""
    groups = [tuple(group) for _, group in groupby(pages, key=lambda page: page.level)]
    for same, next in zip_longest(groups, groups[1:]):
        if len(same) >= 2 * FAN:
            return same[:FAN]
        if next is not None and next[0].level > same[0].level:  # what stands before the folded pages of a long run
            return same
    return ()


def folded(pages: tuple[PageRef, ...], ref: str) -> PageRef:
    """The page that stands for `pages`, once they are written behind `ref`."""
    return PageRef(
        ref=ref,
        first=pages[0].first,
        last=pages[-1].last,
        size=sum(page.size for page in pages),
        head=next((page.head for page in reversed(pages) if page.head is not None), None),
        level=pages[0].level + 1,
    )


def with_folded(pages: list[PageRef], page: PageRef) -> list[PageRef]:
    """`pages` with `page` in the place of those that it stands for; as they were when it does not fit."""
    inside = [one for one in pages if page.first.index <= one.first.index and one.last.index <= page.last.index]
    if not inside or (inside[0].first, inside[-1].last) != (page.first, page.last):
        return pages
    place = pages.index(inside[0])
    return [*pages[:place], page, *pages[place + len(inside) :]]
