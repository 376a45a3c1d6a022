"""Folded pages: few references, whatever the length, and every entry still has its page (spec §8.2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tarry.core.folding import FAN, PageIndex, foldable, folded, with_folded
from tarry.core.transcript import PageRef, Position, Transcript


def page(number: int, head: int | None = None) -> PageRef:
    """The page of the ten entries from ten times `number` on."""
    first, last = (Position(index=index, chain=f"c{index}") for index in (number * 10, number * 10 + 10))
    marked = None if head is None else Position(index=head, chain=f"c{head}")
    return PageRef(ref=f"p{number}", first=first, last=last, size=100, head=marked)


def grown(number: int, store: dict[str, PageIndex], heads: frozenset[int] = frozenset()) -> Transcript:
    """A transcript of so many pages, folded as it grew."""
    transcript = Transcript()
    for one in range(number):
        transcript.pages.append(page(one, one * 10 if one in heads else None))
        transcript.pages = folded_on(transcript.pages, store)
    return transcript


def folded_on(pages: list[PageRef], store: dict[str, PageIndex]) -> list[PageRef]:
    while chosen := foldable(pages):
        ref = f"i{len(store)}"
        store[ref] = PageIndex(pages=chosen)
        pages = with_folded(pages, folded(chosen, ref))
    return pages


def leaf(transcript: Transcript, store: dict[str, PageIndex], index: int) -> PageRef:
    """As a reader finds it."""
    found = transcript.slice(Position(index=index + 1, chain=f"c{index + 1}"), 1).page
    assert found is not None
    while found.level:
        found = store[found.ref].holding(index)
    return found


@given(st.integers(1, 1_200), st.data())
def test_every_entry_is_found_and_references_grow_with_the_logarithm(number: int, data: st.DataObject) -> None:
    store: dict[str, PageIndex] = {}
    transcript = grown(number, store)

    index = data.draw(st.integers(0, number * 10 - 1))
    assert leaf(transcript, store, index) == page(index // 10)
    levels = {one.level for one in transcript.pages}
    assert len(transcript.pages) < 2 * FAN * len(levels)
    assert len(levels) <= 3
    assert transcript.end == page(number - 1).last


@given(st.integers(1, 300), st.frozensets(st.integers(0, 299), max_size=4))
def test_the_newest_head_marker_is_known_however_deep_it_is_folded(number: int, marked: frozenset[int]) -> None:
    heads = frozenset(head for head in marked if head < number)

    start = grown(number, {}, heads).context_start

    assert start == (Position(index=max(heads) * 10, chain=f"c{max(heads) * 10}") if heads else None)


@given(st.lists(st.integers(1, 90), max_size=12), st.integers(0, 90))
def test_pages_that_long_runs_have_folded_are_folded_with_the_others(runs: list[int], later: int) -> None:
    store: dict[str, PageIndex] = {}
    pages: list[PageRef] = []
    for number in (*runs, later):
        begun = pages[-1].last.index // 10 if pages else 0
        pages = folded_on(pages + folded_on([page(begun + one) for one in range(number)], store), store)

    levels = [one.level for one in pages]
    assert levels == sorted(levels, reverse=True)
    assert len(pages) < 2 * FAN * max(len(set(levels)), 1)
    found = Transcript(pages=pages)
    assert all(leaf(found, store, one * 10) == page(one) for one in range(sum(runs) + later))


def test_the_newest_pages_stay_as_they_are() -> None:
    transcript = grown(10 * FAN, {})

    assert [one.level for one in transcript.pages[-FAN:]] == [0] * FAN


def test_a_page_that_does_not_fit_changes_nothing() -> None:
    pages = [page(number) for number in range(4)]

    assert with_folded(pages, folded((page(7), page(8)), "i")) == pages
    shifted = folded((pages[1], pages[2]), "i")
    assert with_folded(pages, shifted.model_copy(update={"first": Position(index=15, chain="c15")})) == pages
