"""Steers as a conversation keeps them: when a run is told, what it takes, and what comes back (spec §6.2)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tarry.core.agent import Agent, AgentChange
from tarry.core.conversation import ConversationState
from tarry.core.mail import TakeInput
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import Notify, RunResult, RunSettings, RunStatus, SubmitInput, UnansweredReason, WhenBusy
from tarry.core.settled import Settled
from tarry.core.transcript import assistant_draft, place
from tarry.core.writes import Write

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


def said(state: ConversationState) -> list[str]:
    """All entries but responses, by their texts."""
    texts = [entry.note or (entry.message.text if entry.message else "") for entry in state.transcript.tail]
    return [text for text in texts if text != "fine"]


def ended(state: ConversationState, request_id: str) -> tuple[str, str, int]:
    record = state.inbox.find(request_id)
    assert record is not None
    return record.status, record.reason, record.entry


def test_a_run_that_was_stopped_by_itself_leaves_what_it_had_taken_behind_it() -> None:
    state = with_queued(("s", "steer"), ("f", "follow_up"), ("t", "steer"))
    take(state)

    close(state, reason="aborted")

    assert ended(state, "s") == ("unanswered", "aborted", 2)
    assert said(state) == ["first", "s"]
    assert [item.request_id for item in state.inbox.queue] == ["f", "t"]


@pytest.mark.parametrize("reason", ["", "aborted", "lost", "model_error"])
def test_steers_that_a_stop_overtakes_stand_behind_the_run_however_that_ends(reason: UnansweredReason) -> None:
    state = with_queued(("s", "steer"), ("f", "follow_up"), ("t", "steer"), ("u", "steer"))
    take(state)

    state.stop()
    assert ended(state, "f") == ("unanswered", "aborted", -1)
    assert ended(state, "u") == ("placed", "", -1)
    state.inbox.admit(SubmitInput(content="v", request_id="v", when_busy="steer"), NOW)
    close(state, reason=reason)

    lost = ["The run was lost: "] if reason == "lost" else []
    assert said(state) == ["first", *lost, "s", "t", "u"]
    assert [ended(state, name)[:2] for name in "stu"] == [("unanswered", "aborted")] * 3
    state.open_next(NOW, "c")
    assert said(state)[-1] == "v"


def test_a_steer_that_the_run_placed_before_a_stop_ends_with_the_run_and_stands_once() -> None:
    state = with_queued(("s", "steer"))
    take(state)

    state.stop()
    close(state, "s", reason="aborted")

    assert ended(state, "s")[:2] == ("unanswered", "aborted")
    assert said(state) == ["first"]  # the run's entries are its own


def test_each_stop_of_a_run_overtakes_what_has_come_since_the_one_before() -> None:
    state = with_queued(("s", "steer"))
    state.stop()
    state.inbox.admit(SubmitInput(content="t", request_id="t", when_busy="steer"), NOW)

    state.stop()
    close(state, reason="aborted")

    assert said(state) == ["first", "s", "t"]
    assert state.inbox.queue == []


def test_queued_writes_stand_before_what_a_stop_overtook() -> None:
    """So that a reset leaves it to be read."""
    state = with_queued(("s", "steer"))
    state.inbox.admit(SubmitInput(content="anew", request_id="w", write=Write(kind="reset")), NOW)

    state.stop()
    close(state, reason="aborted")

    assert [entry.kind for entry in state.transcript.tail] == ["user", "assistant", "reset", "user"]
    assert ended(state, "w") == ("done", "", 2)


def test_between_two_runs_a_stop_places_queued_steers_at_once() -> None:
    state = with_queued(("f", "follow_up"), ("s", "steer"))
    close(state)

    state.stop()

    assert said(state) == ["first", "s"]
    assert ended(state, "f") == ("unanswered", "aborted", -1)
    assert ended(state, "s") == ("unanswered", "aborted", 2)


def test_choices_that_come_with_a_steer_count_from_the_stop_that_overtakes_it() -> None:
    state = with_queued()
    chosen = RunSettings(agent=Agent(model="fast"))
    state.inbox.admit(SubmitInput(content="s", request_id="s", when_busy="steer", settings=chosen), NOW)

    state.stop()
    assert state.choices.agent.model == "fast"
    state.configure(AgentChange(model="slow"))
    close(state, reason="aborted")

    assert state.choices.agent.model == "slow"


def test_what_a_stop_overtook_is_known_as_placed_and_told_as_such_when_the_run_has_ended() -> None:
    state = with_queued()
    notify = Notify(task_id="t", key="k")
    submit = SubmitInput(content="s", request_id="s", when_busy="steer", notify=notify)
    state.inbox.admit(submit, NOW)

    state.stop()
    assert state.inbox.take_back("s") == "already_placed"
    assert "s" in state.view("c").placed
    assert state.notices("c") == []
    close(state, reason="aborted")

    assert state.inbox.take_back("s") == "settled"
    (told,) = state.notices("c")
    assert Settled.model_validate(told.delivery.value).was_placed
