"""The chained transcript: appending, sealing, taking over, reading back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.messages import AssistantMessage, ToolCallRequest, ToolMessage, Usage, UserMessage
from tarry.core.transcript import (
    ENTRY_OVERHEAD,
    PAGE_BYTES,
    Draft,
    Entry,
    NoSuchPosition,
    Page,
    PageRef,
    Position,
    ToolFacts,
    Transcript,
    assistant_draft,
    note_draft,
    place,
    result_draft,
    user_draft,
)

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def transcript_of(*texts: str) -> Transcript:
    transcript = Transcript()
    for text in texts:
        transcript.append(user_draft(text, AT, 1))
    return transcript


def page_of(entries: list[Entry]) -> PageRef:
    first = Position(index=entries[0].index, chain=entries[0].prev)
    size = len(Page(entries=tuple(entries)).model_dump_json())
    return PageRef(ref=f"page-{first.index}", first=first, last=entries[-1].position, size=size)


def run_after(transcript: Transcript, *texts: str) -> Transcript:
    """The transcript of a run that starts where `transcript` ends."""
    run = Transcript(start=transcript.end)
    for text in texts:
        run.append(user_draft(text, AT, 2))
    return run


def read_back(transcript: Transcript, store: dict[str, list[Entry]], max_bytes: int) -> list[Entry]:
    """All entries, newest slice first, as a reader without a cache pulls them."""
    upto, entries = transcript.end, list[Entry]()
    while upto != transcript.start:
        found = transcript.slice(upto, max_bytes)
        part = store[found.page.ref] if found.page is not None else list(found.entries)
        entries = [*part, *entries]
        upto = Position(index=entries[0].index, chain=entries[0].prev)
    return entries


def test_an_entry_carries_its_index_and_a_chain_over_all_before_it() -> None:
    transcript = transcript_of("a", "b")
    first, second = transcript.tail

    assert (first.index, first.prev, second.index, second.prev) == (0, "", 1, first.chain)
    assert transcript.end == second.position == Position(index=2, chain=second.chain)
    assert transcript_of("a", "b") == transcript
    assert transcript_of("b", "b").tail[1].chain != second.chain


def test_an_empty_transcript_ends_where_it_starts() -> None:
    start = Position(index=7, chain="c")

    assert Transcript(start=start).end == start


@pytest.mark.parametrize("text", ["plain", "größer 🦊" * 50])
def test_size_counts_bytes_and_the_tail_adds_them_up(text: str) -> None:
    transcript = transcript_of(text, text)

    assert [entry.size() for entry in transcript.tail] == [ENTRY_OVERHEAD + len(text.encode())] * 2
    assert transcript.tail_bytes == sum(entry.size() for entry in transcript.tail)


def test_a_tail_wants_sealing_once_it_is_over_a_page() -> None:
    assert not transcript_of("x" * (PAGE_BYTES - 500)).wants_sealing
    assert transcript_of("x" * PAGE_BYTES).wants_sealing


def test_sealing_moves_the_head_of_the_tail_behind_a_reference() -> None:
    transcript = transcript_of("a", "b", "c")
    end, last = transcript.end, transcript.tail[2]
    page = page_of(transcript.tail[:2])

    transcript.seal(page)

    assert transcript == Transcript(pages=[page], tail=[last], tail_bytes=last.size())
    assert transcript.end == end


def test_sealing_again_does_nothing() -> None:
    transcript = transcript_of("a", "b", "c")
    first, whole = page_of(transcript.tail[:1]), page_of(transcript.tail[:2])
    transcript.seal(whole)
    before = transcript.model_copy(deep=True)

    transcript.seal(whole)
    transcript.seal(first)

    assert transcript == before


def test_a_page_chained_by_older_code_is_taken_and_what_follows_is_placed_behind_it() -> None:
    transcript = transcript_of("a", "b", "c")
    chained_otherwise = transcript_of("A", "b")
    page = page_of(chained_otherwise.tail)

    transcript.seal(page)

    assert (transcript.pages, transcript.tail_start) == ([page], chained_otherwise.end)
    assert transcript.tail == [place(user_draft("c", AT, 1), chained_otherwise.end)]


def test_a_run_chained_by_older_code_is_taken_over_and_placed_anew() -> None:
    transcript = transcript_of("a")
    older = run_after(transcript_of("A"), "b", "c")

    transcript.extend([], older.tail)

    assert transcript.tail == [*transcript_of("a").tail, *run_after(transcript_of("a"), "b", "c").tail]


def test_what_a_run_returned_is_taken_over() -> None:
    transcript = transcript_of("a")
    transcript.seal(page_of(transcript.tail))
    run = run_after(transcript, "b", "c", "d")
    run.seal(page_of(run.tail[:2]))

    transcript.extend(run.pages, run.tail)

    assert transcript.end == run.end
    assert [page.first.index for page in transcript.pages] == [0, 1]
    assert transcript.tail == run.tail
    assert transcript.tail_bytes == run.tail_bytes


def test_a_run_without_entries_changes_nothing() -> None:
    transcript = transcript_of("a")

    transcript.extend([], [])

    assert transcript == transcript_of("a")


def test_what_does_not_continue_the_transcript_is_refused_whole() -> None:
    transcript = transcript_of("a")
    run = run_after(transcript, "b", "c", "d", "e")
    gap = [page_of(run.tail[:1]), page_of(run.tail[2:3])]

    for entries in ([run.tail[0], run.tail[2]], run.tail[1:]):
        with pytest.raises(NoSuchPosition):
            transcript.extend([], entries)
    with pytest.raises(NoSuchPosition, match="seal the open tail"):
        transcript.extend([page_of(run.tail)], [])
    assert transcript == transcript_of("a")

    transcript.seal(page_of(transcript.tail))
    sealed = transcript.model_copy(deep=True)
    broken: list[tuple[list[PageRef], list[Entry]]] = [(gap, []), (gap[:1], run.tail[2:])]
    for pages, entries in broken:
        with pytest.raises(NoSuchPosition):
            transcript.extend(pages, entries)
    assert transcript == sealed


def test_a_slice_is_the_newest_entries_that_fit_and_at_least_one() -> None:
    transcript = transcript_of("a", "b", "c")
    size = transcript.tail[1].size()

    assert list(transcript.slice(transcript.end, 2 * size).entries) == transcript.tail[1:]
    assert list(transcript.slice(transcript.tail[1].position, 10 * size).entries) == transcript.tail[:2]
    assert list(transcript.slice(transcript.end, 1).entries) == transcript.tail[2:]


def test_a_slice_of_a_sealed_place_is_its_page() -> None:
    transcript = transcript_of("a", "b", "c")
    page = page_of(transcript.tail[:2])
    inside = transcript.tail[0].position
    transcript.seal(page)

    assert transcript.slice(page.last, 10_000).page == page
    assert transcript.slice(inside, 10_000).page == page


def test_a_place_of_another_timeline_is_not_found() -> None:
    transcript = transcript_of("a", "b", "c")
    transcript.seal(page_of(transcript.tail[:2]))
    strangers = [
        transcript.end.model_copy(update={"chain": "x"}),
        transcript.end.model_copy(update={"index": 4}),
        transcript.pages[0].last.model_copy(update={"chain": "x"}),
        transcript.start,
    ]

    for stranger in strangers:
        with pytest.raises(NoSuchPosition):
            transcript.slice(stranger, 10_000)


texts = st.text(max_size=20)
instants = st.datetimes(timezones=st.just(UTC)) | st.timedeltas(timedelta(0), timedelta(1)).map(lambda d: AT + d)
details = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
drafts: st.SearchStrategy[Draft] = st.one_of(
    st.builds(user_draft, texts, instants, st.just(1)),
    st.builds(note_draft, texts, instants, st.just(1)),
    st.builds(
        assistant_draft,
        st.builds(AssistantMessage, text=texts, calls=st.just((ToolCallRequest(call_id="a", name="t", arguments=""),))),
        instants,
        st.just(2),
        st.just("m/1"),
        st.builds(Usage, input_tokens=st.integers(0, 10**6)),
    ),
    st.builds(
        result_draft,
        st.builds(ToolMessage, call_id=texts, name=texts, text=texts),
        st.builds(ToolFacts, details=details, diagnostics=st.lists(texts, max_size=2).map(tuple)),
        instants,
        st.just(3),
    ),
)


@given(st.lists(drafts, max_size=8))
def test_a_transcript_read_back_from_json_is_equal_and_its_chain_holds(given_drafts: list[Draft]) -> None:
    transcript = Transcript()
    for draft in given_drafts:
        transcript.append(draft)

    again = Transcript.model_validate_json(transcript.model_dump_json())

    assert again == transcript
    after = again.start
    for entry in again.tail:
        assert place(Draft.model_validate(dict(entry)), after) == entry
        after = entry.position


@given(st.lists(drafts, min_size=1, max_size=6), st.data())
def test_changing_any_entry_changes_every_chain_from_there_on(given_drafts: list[Draft], data: st.DataObject) -> None:
    changed = data.draw(st.integers(0, len(given_drafts) - 1))
    one, other = Transcript(), Transcript()
    for index, draft in enumerate(given_drafts):
        one.append(draft)
        other.append(draft.model_copy(update={"run": 99}) if index == changed else draft)

    same = [left.chain == right.chain for left, right in zip(one.tail, other.tail, strict=True)]

    assert same == [index < changed for index in range(len(given_drafts))]


@given(
    st.lists(st.lists(st.sampled_from(["x", "größer", "y" * 300]), max_size=5), max_size=5),
    st.integers(1, 2000),
    st.data(),
)
def test_every_entry_is_read_back_however_runs_were_sealed(
    runs: list[list[str]], max_bytes: int, data: st.DataObject
) -> None:
    conversation, plain = Transcript(), Transcript()
    store: dict[str, list[Entry]] = {}

    def seal_some(transcript: Transcript, least: int = 0) -> None:
        count = data.draw(st.integers(least, len(transcript.tail)))
        if count:
            page = page_of(transcript.tail[:count])
            store[page.ref] = transcript.tail[:count]
            transcript.seal(page)

    for notes in runs:
        run = run_after(conversation, *notes)
        seal_some(run)
        if run.pages:
            seal_some(conversation, least=len(conversation.tail))
        conversation.extend(run.pages, run.tail)
        for entry in run_after(plain, *notes).tail:
            plain.append(Draft.model_validate(dict(entry)))

    assert read_back(conversation, store, max_bytes) == plain.tail
    assert conversation.end == plain.end
    assert conversation.tail_bytes == sum(entry.size() for entry in conversation.tail)
    assert all(one.last == two.first for one, two in pairwise(conversation.pages))


def test_a_user_message_keeps_its_kind_and_time() -> None:
    entry = Transcript().append(user_draft("hi", AT, 4))

    assert (entry.kind, entry.at, entry.run, entry.message) == ("user", AT, 4, UserMessage(text="hi"))


def test_neither_a_new_field_nor_a_reworded_note_changes_chain_or_size() -> None:
    before = transcript_of("a").append(note_draft("said so", AT, 1))

    class Newer(Draft):
        origin: str = "added by a deploy"

    newer = Newer.model_validate(dict(note_draft("told so", AT, 1)))
    after = transcript_of("a").append(newer)

    assert (after.chain, after.size()) == (before.chain, before.size())
