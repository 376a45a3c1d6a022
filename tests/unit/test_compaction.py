"""What a compaction keeps and what it tells the summary's model: cuts, estimates and words (spec §11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.context import in_context, request_context
from tarry.core.messages import AssistantMessage, Message, StopReason, ToolCallRequest, ToolMessage, Usage, UserMessage
from tarry.core.model_info import ModelInfo, OwnThresholds
from tarry.core.summaries import (
    RESULT_CHARACTERS,
    accepted,
    estimate,
    framed,
    is_due,
    must_wait,
    select_cut,
    serialise,
    summary_request,
    tokens_of,
)
from tarry.core.thresholds import Thresholds
from tarry.core.transcript import (
    Draft,
    Entry,
    Position,
    ToolFacts,
    Transcript,
    assistant_draft,
    compaction_draft,
    note_draft,
    reset_draft,
    result_draft,
    user_draft,
)
from tarry.models import ModelRequest
from tarry.testing import check_request

AT = datetime(2026, 3, 1, tzinfo=UTC)


def said(text: str = "said" * 4) -> Draft:
    return user_draft(text, AT, 1)


def answer(text: str = "fine" * 4, usage: Usage | None = None) -> Draft:
    return assistant_draft(AssistantMessage(text=text), AT, 1, usage=usage)


def asks(*ids: str) -> Draft:
    calls = tuple(ToolCallRequest(call_id=i, name="look", arguments="{}") for i in ids)
    return assistant_draft(AssistantMessage(calls=calls, stop="tool_use"), AT, 1)


def result(call_id: str, text: str = "seen" * 4) -> Draft:
    return result_draft(ToolMessage(call_id=call_id, name="look", text=text), ToolFacts(), AT, 1)


def recorded(drafts: Iterable[Draft]) -> Transcript:
    transcript = Transcript()
    for draft in drafts:
        transcript.append(draft)
    return transcript


def compacted(transcript: Transcript, keep: int, cutoff: int | None = None) -> bool:
    """Cut what stood there at `cutoff`, and place the summary at the end; whether there was a cut."""
    cut = select_cut(transcript.tail[:cutoff], keep)
    if cut is not None:
        transcript.append(compaction_draft(framed("summary"), AT, 1, cut.head))
    return cut is not None


def check(entries: Sequence[Entry]) -> None:
    """A strict provider takes the request, and no result in it was made up for a batch that has one."""
    check_request(ModelRequest(messages=request_context(entries).messages, session_id="c"))


BATCH = [said(), answer(), said(), asks("a", "b", "c"), result("a"), result("b"), result("c"), answer(), said()]


@pytest.mark.parametrize("keep", range(40))
def test_a_batch_of_calls_is_kept_whole_or_summarised_whole_wherever_the_boundary_falls(keep: int) -> None:
    transcript = recorded(BATCH)

    if not compacted(transcript, keep):
        return

    kept = [entry.kind for entry in in_context(transcript.tail)][1:]
    assert kept.count("tool_result") in (0, 3)
    assert kept[0] in ("user", "assistant")
    check(transcript.tail)
    before = transcript.model_copy(deep=True)
    if compacted(transcript, keep):  # run twice
        check(transcript.tail)
        assert [entry.index for entry in in_context(transcript.tail)[1:]] <= [
            entry.index for entry in in_context(before.tail)[1:]
        ]


@pytest.mark.parametrize("cutoff", range(1, len(BATCH) + 1))
def test_a_cutoff_in_the_middle_of_a_batch_parts_no_call_from_its_result(cutoff: int) -> None:
    transcript = recorded(BATCH)

    if compacted(transcript, 1, cutoff):
        check(transcript.tail)
        kinds = [entry.kind for entry in in_context(transcript.tail)]
        assert kinds.count("tool_result") in (0, 3)


def test_a_person_who_spoke_between_a_call_and_its_results_is_no_place_to_cut() -> None:
    entries = recorded([said(), answer(), asks("a", "b"), result("a"), said(), result("b")]).tail

    cut = select_cut(entries, 5)

    assert cut is not None
    assert cut.head.index == 2


def test_a_person_who_spoke_while_calls_run_is_no_place_to_cut() -> None:
    entries = recorded([said(), answer(), asks("a"), said()]).tail

    cut = select_cut(entries, 1)

    assert cut is not None
    assert cut.head.index == 2


@pytest.mark.parametrize(
    ("drafts", "keep"),
    [([], 0), ([said()], 0), ([said(), answer()], 100), ([note_draft("n", AT, 1), said()], 1), ([asks("a")], 0)],
    ids=["no entries", "one input", "all is recent", "only a note before it", "nothing before the response"],
)
def test_there_is_nothing_to_compact(drafts: list[Draft], keep: int) -> None:
    assert select_cut(recorded(drafts).tail, keep) is None


def test_an_earlier_summary_alone_is_not_summarised_again_and_with_more_it_is() -> None:
    transcript = recorded([said(), answer(), said("x" * 80)])
    assert compacted(transcript, 20)
    assert select_cut(transcript.tail, 20) is None

    transcript.append(answer())
    transcript.append(said("y" * 80))
    cut = select_cut(transcript.tail, 20)

    assert cut is not None
    assert [entry.kind for entry in cut.summarised] == ["compaction", "user", "assistant"]
    assert serialise(cut.summarised).startswith("[Earlier summary]: ")


def test_the_estimate_is_the_last_count_and_four_characters_a_token_since() -> None:
    counted = Usage(input_tokens=100, output_tokens=20)
    entries = recorded([said(), answer(usage=counted), said("x" * 41), answer(usage=Usage())]).tail

    assert estimate(entries) == 120 + 11 + 4
    assert estimate(entries[:1], beside=7) == 4 + 7


def test_a_count_from_before_the_newest_marker_is_of_another_context() -> None:
    transcript = recorded([said(), answer(), said("x" * 40), answer(usage=Usage(input_tokens=9_999))])
    transcript.append(compaction_draft("short", AT, 1, Position(index=2, chain=transcript.tail[1].chain)))

    assert estimate(transcript.tail) == 2 + 10 + 4

    transcript.append(answer(usage=Usage(input_tokens=50)))
    assert estimate(transcript.tail) == 50


SIZES = Thresholds(reserve=10, keep_recent=1, background=20)


def test_thresholds_need_a_window_and_something_to_cut() -> None:
    entries = recorded([said(), answer(), said("x" * 360)]).tail
    usage = Usage(input_tokens=75)

    assert must_wait(entries, SIZES, ModelInfo(context_window=100), 0) is not None
    assert must_wait(entries, SIZES, ModelInfo(), 0) is None
    assert must_wait(entries, None, ModelInfo(context_window=100), 0) is None
    assert must_wait(entries[2:], SIZES, ModelInfo(context_window=80), 0) is None
    assert is_due(entries, SIZES, ModelInfo(context_window=100), usage)
    assert not is_due(entries, SIZES, ModelInfo(context_window=105), usage)
    assert not is_due(entries, SIZES.model_copy(update={"background": 0}), ModelInfo(context_window=100), usage)
    assert not is_due(entries, SIZES, ModelInfo(), usage)


def test_the_sizes_of_a_model_win_over_those_of_the_run() -> None:
    own = ModelInfo(context_window=100, compaction=OwnThresholds(reserve_tokens=50, background_tokens=0))

    assert SIZES.of_model(own) == Thresholds(reserve=50, keep_recent=1, background=0)
    assert SIZES.of_model(ModelInfo()) == SIZES


def test_a_transcript_is_told_as_labelled_text_without_what_no_model_reads() -> None:
    long = "r" * (RESULT_CHARACTERS + 5)
    aborted = assistant_draft(AssistantMessage(text="half", stop="aborted"), AT, 1)
    entries = recorded([said("hi"), asks("a"), result("a", long), note_draft("n", AT, 1), aborted, answer("done")]).tail

    assert serialise(entries) == (
        "[User]: hi\n\n[Assistant calls]: look {}\n\n[Result of look]: "
        + "r" * RESULT_CHARACTERS
        + "\n[5 more characters left out]\n\n[Assistant]: done"
    )


def test_the_request_names_its_sections_and_ends_with_the_instructions() -> None:
    text = summary_request(recorded([said("hi")]).tail, " the colours ")

    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["Goal", "Constraints", "Progress", "Key Decisions", "Next Steps", "Critical Context"]
    assert text.endswith("Attend above all to this: the colours")
    assert "Attend" not in summary_request([], " ")


@pytest.mark.parametrize(
    ("message", "is_summary"),
    [
        (AssistantMessage(text="all of it"), True),
        (AssistantMessage(text=" \n"), False),
        (AssistantMessage(text="cut", stop="length"), False),
        (AssistantMessage(text="no", stop="refusal"), False),
        (AssistantMessage(text="x", calls=(ToolCallRequest(call_id="a", name="look", arguments="{}"),)), False),
    ],
)
def test_only_a_whole_text_without_a_call_is_a_summary(message: AssistantMessage, is_summary: bool) -> None:
    assert (accepted(message) is None) is is_summary


ids = st.sampled_from(["a", "b", "c", ""])
texts = st.sampled_from(["", "text", "x" * 40])
stops: st.SearchStrategy[StopReason] = st.sampled_from(["stop", "tool_use", "length", "aborted"])
calls = st.lists(st.builds(ToolCallRequest, call_id=ids, name=st.just("look"), arguments=st.just("{}")), max_size=3)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, text=texts),
    st.builds(AssistantMessage, text=texts, calls=calls.map(tuple), stop=stops),
    st.builds(ToolMessage, call_id=ids, name=st.just("look"), text=texts),
)
steps = st.one_of(
    messages,
    st.just("note"),
    st.just("reset"),
    st.tuples(st.integers(0, 40), st.integers(0, 30)),  # a compaction: what it keeps, and how far back its cutoff is
)


def play(step: Message | str | tuple[int, int], transcript: Transcript) -> None:
    match step:
        case "reset":
            transcript.append(reset_draft(AT, 1, transcript.end, "go on"))
        case str():
            transcript.append(note_draft("note", AT, 1))
        case (keep, back):
            cutoff = max(len(transcript.tail) - back, 0)
            cut = select_cut(transcript.tail[:cutoff], keep)
            newest = transcript.context_start
            if cut is not None and (newest is None or cut.head.index >= newest.index):
                transcript.append(compaction_draft(framed("summary"), AT, 1, cut.head))
        case UserMessage():
            transcript.append(user_draft(step.text, AT, 1))
        case AssistantMessage():
            transcript.append(assistant_draft(step, AT, 1))
        case ToolMessage():
            transcript.append(result_draft(step, ToolFacts(), AT, 1))


@given(st.lists(steps, max_size=25))
def test_any_entries_heads_and_cuts_give_a_request_that_a_strict_provider_takes(
    played: list[Message | str | tuple[int, int]],
) -> None:
    transcript = Transcript()
    transcript.append(said("begin"))
    for step in played:
        play(step, transcript)
        if request_context(transcript.tail).messages:
            check(transcript.tail)
        else:
            assert any(entry.head is not None for entry in transcript.tail)

    start = transcript.context_start
    needed = [entry for entry in transcript.tail if start is None or entry.index >= start.index]
    assert request_context(needed) == request_context(transcript.tail)


@given(st.lists(messages, max_size=20), st.integers(0, 60))
def test_a_cut_keeps_what_it_says_and_parts_no_exchange(given_messages: list[Message], keep: int) -> None:
    transcript = Transcript()
    for message in given_messages:
        play(message, transcript)
    cut = select_cut(transcript.tail, keep)
    if cut is None:
        return

    kept = transcript.tail[cut.head.index :]
    assert [*cut.summarised, *kept] == transcript.tail
    assert cut.kept == sum(map(tokens_of, kept))
    assert kept[0].kind in ("user", "assistant")
    assert cut.head.chain == kept[0].prev
    whole = [message for message in request_context(transcript.tail).messages if isinstance(message, ToolMessage)]
    after = [message for message in request_context(kept).messages if isinstance(message, ToolMessage)]
    # No result of a kept call is made up: what was there before is there still.
    assert [message.text for message in after] == [message.text for message in whole][len(whole) - len(after) :]
