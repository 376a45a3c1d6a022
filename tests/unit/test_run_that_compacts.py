"""The run machine around compaction: once for a request, outside the budget of its retries (spec §11.5)."""

from __future__ import annotations

import pytest

from tarry.core.compaction_protocol import NoSummary, Summary
from tarry.core.compaction_view import ContextFull
from tarry.core.messages import AssistantMessage, Usage
from tarry.core.protocol import ModelFailure, ModelTurn, RunSettings
from tarry.core.run import (
    FRUITLESS_LIMIT,
    Compact,
    Compacted,
    Failed,
    Finish,
    Full,
    RequestModel,
    Responded,
    RunState,
    Step,
    advance,
)
from tarry.core.transcript import Position

SETTINGS = RunSettings(provider_retries=0)
OVERFLOW = Failed(ModelFailure(error="overflow", text="too long"))
SPENT = Usage(input_tokens=9, output_tokens=1)
SUMMARY = Summary(text="what was", head=Position(index=2, chain="c"), usage=SPENT)


def none(why: str = "no_progress") -> NoSummary:
    return NoSummary.model_validate({"why": why, "detail": "so it is", "usage": SPENT})


def responded(state: RunState, *, is_large: bool = False) -> None:
    advance(state, Responded(ModelTurn(message=AssistantMessage(text="fine"), is_large=is_large)), SETTINGS)


def test_an_overflow_is_compacted_and_sent_again_whatever_the_retries() -> None:
    state = RunState()
    assert advance(state, OVERFLOW, SETTINGS).command == Compact("too long")
    assert advance(state, Compacted(SUMMARY, "too long"), SETTINGS) == Step(RequestModel(), summary=SUMMARY)
    assert (state.failures, state.usage) == (0, SPENT)


def test_a_second_overflow_of_the_same_request_ends_the_run() -> None:
    state = RunState(compacted=True)
    assert advance(state, OVERFLOW, SETTINGS) == Step(Finish("unanswered", "model_error", "too long"))


def test_a_response_allows_the_next_request_its_own_compaction() -> None:
    state = RunState(compacted=True)
    responded(state)
    assert advance(state, OVERFLOW, SETTINGS).command == Compact("too long")


def test_an_overflow_that_cannot_be_compacted_ends_the_run_and_says_both() -> None:
    step = advance(RunState(compacted=True), Compacted(none("nothing"), "too long"), SETTINGS)
    detail = "too long; the context could not be compacted (nothing: so it is)"
    assert step == Step(Finish("unanswered", "model_error", detail))


def test_a_full_context_is_compacted_first_and_sent_anyway_when_there_is_no_summary() -> None:
    state = RunState()
    assert advance(state, Full(ContextFull(tokens=9, window=10)), SETTINGS) == Step(Compact())
    step = advance(state, Compacted(none("declined")), SETTINGS)
    assert (step.command, step.note) == (
        RequestModel(),
        "The context was not compacted (declined: so it is).",
    )
    assert state.compacted


def test_compactions_without_progress_are_counted_and_stopped() -> None:
    state = RunState()
    notes = []
    for _ in range(FRUITLESS_LIMIT):
        advance(state, Full(ContextFull(tokens=9, window=10)), SETTINGS)
        notes.append(advance(state, Compacted(none()), SETTINGS).note)
        responded(state)
    assert ["not tried again" in note for note in notes] == [False, False, True]
    assert state.fruitless == FRUITLESS_LIMIT
    advance(state, Compacted(SUMMARY), SETTINGS)
    assert state.fruitless == 0


def test_a_stop_during_compaction_ends_the_run_as_stopped() -> None:
    assert advance(RunState(), Compacted(none("aborted")), SETTINGS).command == Finish("unanswered", "aborted")


def test_switched_off_an_overflow_ends_the_run() -> None:
    settings = RunSettings(compaction=False)
    assert advance(RunState(), OVERFLOW, settings).command == Finish("unanswered", "model_error", "too long")


@pytest.mark.parametrize("is_large", [True, False])
def test_a_run_tells_of_a_large_context_once_until_it_is_small_again(is_large: bool) -> None:
    state = RunState(has_told=True)
    responded(state, is_large=is_large)
    assert (state.is_large, state.has_told) == (is_large, is_large)
