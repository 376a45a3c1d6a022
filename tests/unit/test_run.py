"""The run machine: given a state, one event, the whole step (spec §6.3, §6.4)."""

from __future__ import annotations

import pytest

from tarry.core.messages import AssistantMessage, ToolCallRequest, Usage
from tarry.core.output import correction
from tarry.core.protocol import ModelFailure, ModelTurn, ResolvedCall, RunSettings
from tarry.core.resolve import HookKind
from tarry.core.run import (
    Aborted,
    Failed,
    Finish,
    Hold,
    Pause,
    Released,
    RequestModel,
    Responded,
    RoundEnded,
    RunCalls,
    RunState,
    Step,
    WorkerLost,
    WorkerStopped,
    Yield,
    advance,
)

SETTINGS = RunSettings(restart_limit=2, provider_retries=3, max_turns=4)
CALL = ResolvedCall(call_id="c1", tool="look")
ASKED = AssistantMessage(calls=(ToolCallRequest(call_id="c1", name="look", arguments="{}"),), stop="tool_use")


def turn(message: AssistantMessage, *calls: ResolvedCall) -> Responded:
    return Responded(ModelTurn(message=message, calls=calls, usage=Usage(input_tokens=3, output_tokens=2)))


def failure(error: str, **fields: object) -> Failed:
    return Failed(ModelFailure.model_validate({"error": error, "text": "said no", **fields}))


def test_an_answer_without_calls_ends_the_run_and_counts_its_usage() -> None:
    state = RunState(failures=2, lost=1)
    answer = AssistantMessage(text="done")
    assert advance(state, turn(answer), SETTINGS) == Step(Finish("done"), message=answer)
    assert state == RunState(usage=Usage(input_tokens=3, output_tokens=2))


def test_calls_are_run_and_the_end_of_their_round_begins_the_next_turn() -> None:
    state = RunState()
    assert advance(state, turn(ASKED, CALL), SETTINGS) == Step(RunCalls((CALL,)), message=ASKED)
    assert advance(state, RoundEnded(), SETTINGS) == Step(RequestModel())
    assert state.turn == 2


def test_answer_of_another_form_is_sent_back_once_and_twice_in_a_row_ends_the_run() -> None:
    wrong, right = AssistantMessage(text="no data"), AssistantMessage(text="{}")
    state = RunState()

    def told(message: AssistantMessage, invalid: str = "", on_yield: HookKind = "") -> Step:
        return advance(state, Responded(ModelTurn(message=message, invalid=invalid, on_yield=on_yield)), SETTINGS)

    back = Step(RequestModel(), message=wrong, user=correction("It is no JSON."))
    assert told(wrong, "It is no JSON.") == back
    assert told(right, on_yield="quick") == Step(Yield(), message=right)
    assert told(wrong, "It is no JSON.") == back
    assert (state.turn, state.invalid) == (3, 1)
    assert told(wrong, "Again.") == Step(Finish("unanswered", "invalid_output", "Again."), message=wrong)


def test_answer_of_another_form_is_not_sent_back_beyond_the_bound_of_turns() -> None:
    step = advance(RunState(turn=4), Responded(ModelTurn(message=AssistantMessage(text="no"), invalid="No.")), SETTINGS)

    assert (step.command, step.user) == (
        Finish("unanswered", "max_turns", "the run reached its bound of 4 turns"),
        "",
    )


def test_a_run_ends_at_its_bound_of_turns() -> None:
    state = RunState(turn=4)
    assert advance(state, RoundEnded(), SETTINGS).command == Finish(
        "unanswered", "max_turns", "the run reached its bound of 4 turns"
    )


@pytest.mark.parametrize(("failures", "seconds"), [(0, 2.0), (1, 4.0), (2, 8.0)])
def test_provider_errors_are_retried_with_doubling_pauses(failures: int, seconds: float) -> None:
    state = RunState(failures=failures)
    note = f"The model request failed and is sent again in {seconds:g} s: said no"
    assert advance(state, failure("retryable"), SETTINGS) == Step(Pause(seconds, "said no"), note=note)
    assert state == RunState(failures=failures + 1)


@pytest.mark.parametrize(("wish", "seconds"), [(7.0, 7.0), (0.2, 1.0), (90_000.0, 3600.0)])
def test_the_wish_of_a_provider_is_kept_within_bounds(wish: float, seconds: float) -> None:
    assert advance(RunState(), failure("retryable", retry_after=wish), SETTINGS).command == Pause(seconds, "said no")


def test_the_fourth_provider_error_ends_the_run_unanswered() -> None:
    state = RunState(failures=3)
    assert advance(state, failure("retryable"), SETTINGS) == Step(Finish("unanswered", "model_error", "said no"))


@pytest.mark.parametrize("error", ["permanent", "overflow"])
def test_errors_that_cannot_heal_are_not_retried(error: str) -> None:
    settings = SETTINGS.model_copy(update={"compaction": False})
    assert advance(RunState(), failure(error), settings) == Step(Finish("unanswered", "model_error", "said no"))


def test_a_partial_answer_is_kept_as_aborted() -> None:
    step = advance(RunState(), failure("retryable", partial="half an"), SETTINGS)
    assert step.message == AssistantMessage(text="half an", stop="aborted")


def test_lost_workers_spend_no_provider_retry_and_are_held_at_their_own_limit() -> None:
    state = RunState(failures=1)
    lost = [advance(state, WorkerLost("half"), SETTINGS).command for _ in range(3)]
    assert lost == [RequestModel(), RequestModel(), Hold("3 workers in a row were lost in this model request")]
    assert state == RunState(failures=1, lost=3)


def test_a_response_resets_the_count_of_lost_workers() -> None:
    state = RunState(lost=2)
    advance(state, turn(ASKED, CALL), SETTINGS)
    assert state.lost == 0


def test_a_clean_stop_of_the_worker_costs_nothing() -> None:
    state = RunState(failures=1, lost=2)
    step = advance(state, WorkerStopped("half"), SETTINGS)
    assert step == Step(RequestModel(), message=AssistantMessage(text="half", stop="aborted"))
    assert state == RunState(failures=1, lost=2)


def test_a_request_that_somebody_paused_is_held_and_counts_for_nothing() -> None:
    state = RunState(failures=1, lost=2)
    step = advance(state, WorkerStopped("half", paused=True), SETTINGS)
    held = "its model request was paused"
    assert step == Step(Hold(held), message=AssistantMessage(text="half", stop="aborted"), note=f"Held: {held}.")
    assert state == RunState(failures=1, lost=2)


def test_released_work_begins_to_count_anew() -> None:
    state = RunState(lost=3)
    assert advance(state, Released(), SETTINGS) == Step(RequestModel())
    assert state.lost == 0


def test_an_empty_answer_is_asked_again_twice_and_never_kept() -> None:
    state = RunState()
    empty = turn(AssistantMessage(reasoning="hm"))
    steps = [advance(state, empty, SETTINGS) for _ in range(3)]
    assert [step.command for step in steps] == [
        RequestModel(),
        RequestModel(),
        Finish("unanswered", "empty_answer", "the model answered with nothing 3 times"),
    ]
    assert [step.message for step in steps] == [None, None, None]


def test_a_refusal_is_an_answer_only_with_a_text() -> None:
    refusal = AssistantMessage(text="I cannot help with that.", stop="refusal")
    assert advance(RunState(), turn(refusal), SETTINGS) == Step(Finish("done"), message=refusal)
    silent = AssistantMessage(stop="refusal")
    assert advance(RunState(), turn(silent), SETTINGS) == Step(
        Finish("unanswered", "refused", "the model refused to answer")
    )


def test_responses_cut_off_inside_a_call_are_bounded() -> None:
    state = RunState()
    cut = turn(ASKED.model_copy(update={"stop": "length"}), CALL)
    settings = RunSettings()
    ends = []
    for _ in range(4):
        advance(state, cut, settings)
        ends.append(advance(state, RoundEnded(), settings).command)
    assert ends[:3] == [RequestModel()] * 3
    assert ends[3] == Finish("unanswered", "cut_off", "4 responses in a row were cut off inside a call")


def test_a_stop_ends_the_run_and_keeps_what_had_streamed() -> None:
    step = advance(RunState(), Aborted("half"), SETTINGS)
    assert step == Step(Finish("unanswered", "aborted"), message=AssistantMessage(text="half", stop="aborted"))
    assert advance(RunState(), failure("aborted"), SETTINGS) == Step(Finish("unanswered", "aborted"))


def test_an_end_that_no_activity_told_leaves_what_is_known_of_the_hooks_of_the_end() -> None:
    state = RunState(after_run=True)
    advance(state, failure("permanent"), SETTINGS)
    assert state.after_run
    advance(state, failure("permanent", model="m"), SETTINGS)
    assert not state.after_run
