"""The state of a conversation: its runs, their ids, and what it takes over from them (spec §1.7, §6.2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tarry.core.conversation import ConversationState
from tarry.core.messages import AssistantMessage, Usage
from tarry.core.protocol import RunResult, SubmitInput
from tarry.core.transcript import Entry, Position, assistant_draft, place

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def opened(nonce: str = "n", content: str = "x", now: datetime = NOW) -> ConversationState:
    """A conversation whose first run is open."""
    state = ConversationState.born(nonce)
    state.inbox.admit(SubmitInput(content=content, request_id="r1"), now)
    state.open_next(now, "c")
    return state


def answer_after(start: Position) -> Entry:
    return place(assistant_draft(AssistantMessage(text="fine"), NOW, 1), start)


def test_an_input_admitted_again_at_another_time_has_the_same_place() -> None:
    first, again = opened(), opened(now=NOW + timedelta(hours=1))

    assert first.open == again.open


def test_equal_inputs_of_two_conversations_never_have_the_same_place() -> None:
    one, other = opened("n"), opened("m")

    assert one.transcript.end.index == other.transcript.end.index
    assert one.transcript.end.chain != other.transcript.end.chain


def test_a_run_that_continues_the_transcript_is_taken_over_and_answers_its_input() -> None:
    state = opened()
    assert state.open is not None
    answer = answer_after(state.open.start)

    state.close_run(state.open, RunResult(status="done", entries=(answer,)), NOW)

    assert state.open is None
    assert state.transcript.tail[-1] == answer
    record = state.inbox.find("r1")
    assert record is not None
    assert (record.status, record.answer) == ("done", 1)


def test_a_run_that_does_not_continue_the_transcript_counts_as_lost_and_leaves_it_as_it_was() -> None:
    state = opened()
    assert state.open is not None
    before = list(state.transcript.tail)
    foreign = RunResult(
        status="done", entries=(answer_after(Position(index=7, chain="other")),), usage=Usage(input_tokens=3)
    )

    state.close_run(state.open, foreign, NOW)

    assert state.open is None
    assert state.transcript.tail[:-1] == before
    assert state.transcript.tail[-1].note.startswith("The run was lost")
    record = state.inbox.find("r1")
    assert record is not None
    assert (record.status, record.reason) == ("unanswered", "lost")
    assert state.usage == Usage(input_tokens=3)


def test_an_open_run_that_got_another_id_is_known_by_it() -> None:
    state = opened()

    renamed = state.rename_open("c~n/g1~2")

    assert state.open == renamed
    assert state.generation_of("c", 1) == state.view("c").open_generation == "c~n/g1~2"
    assert state.generation_of("c", 2) == "c~n/g2"
