"""Steers as a conversation keeps them: when a run is told, what it takes, and what comes back (spec §6.2)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tarry.core.agent import Agent
from tarry.core.conversation import ConversationState
from tarry.core.mail import TakeInput
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import RunResult, RunSettings, RunStatus, SubmitInput, UnansweredReason, WhenBusy
from tarry.core.transcript import assistant_draft, place

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def with_queued(*queued: tuple[str, WhenBusy], begun: bool = True) -> ConversationState:
    """A conversation whose run is open, with these inputs behind it."""
    state = ConversationState.born("n")
    state.inbox.admit(SubmitInput(content="first", request_id="first"), NOW)
    state.open_next(NOW, "c")
    if begun:
        state.begin_open()
    for content, when_busy in queued:
        state.inbox.admit(SubmitInput(content=content, request_id=content, when_busy=when_busy), NOW)
    return state


def take(state: ConversationState, number: int = 1, *, only_look: bool = False) -> tuple[list[str], int]:
    """What the open run gets at a boundary, and how much is queued still."""
    assert state.open is not None
    asked = TakeInput(generation_id=state.open.generation_id, number=number, only_look=only_look)
    boundary = state.hand_over(asked)
    assert boundary is not None
    assert boundary.number == number
    return [item.request_id for item in boundary.items], boundary.queued


def test_choices_that_come_with_a_steer_count_from_the_boundary_that_takes_it() -> None:
    state = with_queued()
    chosen = RunSettings(agent=Agent(model="fast"))
    steer = SubmitInput(content="s", request_id="s", when_busy="steer", settings=chosen)
    state.inbox.admit(steer, NOW)
    assert (state.choices.agent.model, state.inbox.brings_choices) == (None, True)

    take(state)

    assert (state.choices.agent.model, state.is_run_behind, state.inbox.brings_choices) == ("fast", True, False)


def close(state: ConversationState, *placed: str, reason: UnansweredReason = "") -> None:
    run = state.open
    assert run is not None
    entry = place(assistant_draft(AssistantMessage(text="fine"), NOW, 1), run.start)
    status: RunStatus = "unanswered" if reason else "done"
    state.close_run(run, RunResult(status=status, reason=reason, entries=(entry,), placed=placed), NOW)


def test_a_run_is_told_of_steers_alone_once_until_it_asks_and_only_when_it_is_there() -> None:
    assert not with_queued(("f", "follow_up")).wants_telling
    assert not with_queued(("s", "steer"), begun=False).wants_telling
    state = with_queued(("f", "follow_up"), ("s", "steer"), ("t", "steer"))
    assert state.wants_telling

    state.tell_open()
    assert not state.wants_telling

    assert take(state) == (["s"], 1)
    assert state.wants_telling


def test_a_run_under_another_id_is_told_anew() -> None:
    state = with_queued(("s", "steer"))
    state.tell_open()

    state.rename_open("other")
    assert not state.wants_telling
    state.begin_open()
    assert state.wants_telling


def test_a_look_takes_nothing_and_counts_every_input() -> None:
    state = with_queued(("f", "follow_up"), ("s", "steer"))

    assert take(state, only_look=True) == ([], 2)
    assert [item.request_id for item in state.inbox.queue] == ["f", "s"]


def test_another_run_than_the_open_one_gets_no_answer() -> None:
    state = with_queued(("s", "steer"))

    assert state.hand_over(TakeInput(generation_id="other", number=1)) is None
    assert [item.request_id for item in state.inbox.queue] == ["s"]


@pytest.mark.parametrize("reason", ["", "model_error", "lost"])
def test_placed_steers_end_with_their_run_and_the_others_come_back_to_the_front(reason: UnansweredReason) -> None:
    state = with_queued(("s", "steer"), ("f", "follow_up"), ("t", "steer"))
    take(state, 1)
    take(state, 2)

    close(state, "s", reason=reason)

    assert [item.request_id for item in state.inbox.queue] == ["t", "f"]
    ended, back = state.inbox.find("s"), state.inbox.find("t")
    assert ended is not None
    assert back is not None
    assert (ended.status, ended.reason) == ("unanswered" if reason else "done", reason)
    assert (back.status, back.run) == ("queued", 0)


def test_a_stop_withdraws_what_its_run_had_taken_and_not_placed() -> None:
    state = with_queued(("s", "steer"), ("f", "follow_up"))
    take(state)

    close(state, reason="aborted")

    ended = state.inbox.find("s")
    assert ended is not None
    assert (ended.status, ended.reason) == ("unanswered", "aborted")
    assert [item.request_id for item in state.inbox.queue] == ["f"]
