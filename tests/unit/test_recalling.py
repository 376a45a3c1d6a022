"""What a run has placed and a reset made its conversation forget is known again, and stands once (spec §1.7)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tarry.core.conversation import ConversationState
from tarry.core.inbox import Conflict
from tarry.core.mail import TakeInput
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import RunResult, SubmitInput
from tarry.core.recalling import has_forgotten, recalled
from tarry.core.transcript import Entry, Transcript, assistant_draft, user_draft

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STEER = SubmitInput(content="quickly", request_id="s", when_busy="steer")


def opened() -> ConversationState:
    state = ConversationState.born("n")
    state.inbox.admit(SubmitInput(content="go", request_id="r"), NOW)
    state.open_next(NOW, "c")
    return state


def ended(state: ConversationState) -> RunResult:
    """How the run of that conversation ends, which has placed the steer."""
    assert state.open is not None
    transcript = Transcript(start=state.open.start)
    place = transcript.append(user_draft("quickly", NOW, 1)).index
    transcript.append(assistant_draft(AssistantMessage(text="done"), NOW, 1))
    return RunResult(status="done", entries=tuple(transcript.tail), placed=("s",), places={"s": place})


def closed(state: ConversationState, result: RunResult) -> ConversationState:
    assert state.open is not None
    assert has_forgotten(state.open, result)
    state.open = recalled(state.open, state.inbox, result, NOW)
    state.close_run(state.open, result, NOW)
    state.open_next(NOW, "c")
    return state


def test_a_steer_that_is_queued_again_is_settled_by_the_run_that_has_placed_it() -> None:
    state = opened()
    state.inbox.admit(STEER, NOW)

    closed(state, ended(state))

    record = state.inbox.find("s")
    assert (state.open, state.runs, state.inbox.queue) == (None, 1, [])
    assert record is not None
    assert (record.status, record.run, record.entry, record.answer) == ("done", 1, 1, 2)


def test_one_that_nobody_has_sent_again_is_known_by_its_entry() -> None:
    state = opened()

    closed(state, ended(state))

    record = state.inbox.find("s")
    assert record is not None
    assert (record.status, record.answer) == ("done", 2)
    assert state.inbox.check(STEER, busy=False, known=record) == record
    with pytest.raises(Conflict):
        state.inbox.check(STEER.model_copy(update={"content": "slowly"}), busy=False, known=record)


def test_one_that_stands_in_a_page_and_was_not_sent_again_stays_unknown() -> None:
    state = opened()
    result = ended(state)
    later: tuple[Entry, ...] = result.entries[1:]
    assert state.open is not None

    run = recalled(state.open, state.inbox, result.model_copy(update={"entries": later}), NOW)

    assert (run, state.inbox.find("s")) == (state.open, None)


def test_other_inputs_wait_as_before_and_nothing_is_forgotten_that_the_conversation_has_handed_over() -> None:
    state = opened()
    state.inbox.admit(STEER, NOW)
    assert state.open is not None
    state.hand_over(TakeInput(generation_id=state.open.generation_id, number=1), brings=True)
    assert not has_forgotten(state.open, ended(state))

    state = opened()
    state.inbox.admit(SubmitInput(content="later", request_id="f"), NOW)
    closed(state, ended(state))
    assert (state.runs, state.open is not None and state.open.request_id) == (2, "f")
