"""The run machine where hooks have a word: after a round, and before an answer stands (spec §6.5)."""

from __future__ import annotations

from tarry.core.inbox import MAX_CONTENT
from tarry.core.messages import AssistantMessage, ToolCallRequest
from tarry.core.protocol import ModelTurn, ResolvedCall, RunSettings
from tarry.core.run import (
    Finish,
    HearRound,
    RequestModel,
    Responded,
    RoundEnded,
    RoundHeard,
    RunCalls,
    RunState,
    Step,
    Yield,
    Yielded,
    advance,
)
from tarry.core.run_hooks import continuation, terminates
from tarry.core.task_state import TaskOutcome

SETTINGS = RunSettings(max_turns=2)
CALL = ResolvedCall(call_id="c1", tool="look")
ASKED = AssistantMessage(calls=(ToolCallRequest(call_id="c1", name="look", arguments="{}"),), stop="tool_use")
ANSWER = AssistantMessage(text="fine")


def completed(result: object) -> TaskOutcome:
    return TaskOutcome(status="completed", result=result)


def test_a_round_is_told_to_the_hooks_of_the_response_that_made_its_calls() -> None:
    state = RunState()
    asked = Responded(ModelTurn(message=ASKED, calls=(CALL,), after_tools="quick"))

    assert advance(state, asked, SETTINGS) == Step(RunCalls((CALL,)), message=ASKED)
    assert advance(state, RoundEnded(), SETTINGS) == Step(HearRound())
    assert state.turn == 1


def test_a_round_that_was_heard_ends_the_run_or_begins_the_next_turn() -> None:
    assert advance(RunState(), RoundHeard(terminates=True), SETTINGS) == Step(Finish("done"))
    assert advance(RunState(), RoundHeard(terminates=False), SETTINGS) == Step(RequestModel())


def test_an_answer_is_kept_before_the_hooks_are_asked_whether_it_stands() -> None:
    answered = Responded(ModelTurn(message=ANSWER, on_yield="io"))

    assert advance(RunState(), answered, SETTINGS) == Step(Yield(), message=ANSWER)


def test_an_answer_stands_or_the_agent_is_sent_back_in_a_turn_of_its_own() -> None:
    state = RunState()
    assert advance(state, Yielded(None), SETTINGS) == Step(Finish("done"))
    assert advance(state, Yielded("again"), SETTINGS) == Step(RequestModel(), user="again")
    assert state.turn == 2


def test_at_the_bound_of_turns_the_run_ends_without_the_input_that_nobody_would_read() -> None:
    step = advance(RunState(turn=2), Yielded("again"), SETTINGS)

    assert step == Step(Finish("unanswered", "max_turns", "the run reached its bound of 2 turns"))


def test_only_a_task_that_completed_and_says_so_ends_a_run() -> None:
    assert terminates([None, completed({"terminate": True})])
    for outcome in (None, completed(None), completed({"terminate": "true"}), completed([True])):
        assert not terminates([outcome])
    assert not terminates([TaskOutcome(status="failed", result={"terminate": True}, error="x")])


def test_the_first_task_with_words_to_go_on_with_counts_and_they_are_bounded() -> None:
    said = [None, completed({"continue": ""}), completed({"continue": 3}), completed({"continue": "a"})]
    assert continuation([*said, completed({"continue": "b"})]) == "a"
    assert continuation([None, completed({"terminate": True})]) is None

    long = continuation([completed({"continue": "x" * (2 * MAX_CONTENT)})])
    assert long is not None
    assert len(long) == MAX_CONTENT


def test_a_handoff_ends_the_run_after_its_round_and_after_the_hooks_heard_of_it() -> None:
    handed = Step(Finish("done"), handoff="carry on")
    assert advance(RunState(), RoundEnded("carry on"), SETTINGS) == handed

    state = RunState(after_tools="quick")
    assert advance(state, RoundEnded("carry on"), SETTINGS) == Step(HearRound())
    assert advance(state, RoundHeard(terminates=False), SETTINGS) == handed
