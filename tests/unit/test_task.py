"""The task machine: the replay rule and the fence (spec §4.3, §4.4, §4.6)."""

from __future__ import annotations

import pytest

from tarry.core import results
from tarry.core.protocol import ResolvedCall, ToolOutcome
from tarry.core.task import (
    Abort,
    Aborted,
    Execute,
    Hold,
    Interrupt,
    Ran,
    Reconcile,
    Reconciled,
    Released,
    Settle,
    Unavailable,
    WorkerLost,
    WorkerStopped,
    advance,
    announce,
    is_stale,
)
from tarry.core.task_state import State

UNSAFE = ResolvedCall(call_id="c", tool="pay")
SAFE = UNSAFE.model_copy(update={"replay": "safe"})
ASKS = UNSAFE.model_copy(update={"reconciles": True})
DONE = ToolOutcome(text="paid")
NOT_HERE = ToolOutcome(text="", code="not_here")


def test_a_result_settles_the_call() -> None:
    assert advance(State(), Ran(DONE), UNSAFE) == Settle(DONE)


@pytest.mark.parametrize("event", [WorkerLost("half"), WorkerStopped("half")])
def test_an_unsafe_tool_that_was_cut_off_is_interrupted_and_never_run_again(event: WorkerLost | WorkerStopped) -> None:
    state = State()
    assert advance(state, event, UNSAFE) == Interrupt("half")
    assert state == State()


@pytest.mark.parametrize("event", [WorkerLost("half"), WorkerStopped("half")])
def test_an_unsafe_tool_with_a_reconcile_hook_is_asked_first(event: WorkerLost | WorkerStopped) -> None:
    state = State(attempt=2)
    assert advance(state, event, ASKS) == Reconcile("half")
    assert is_stale(state, 1, 2), "memos of the run that was cut off are refused from now on"
    assert advance(State(), Reconciled(DONE, "half"), ASKS) == Settle(DONE)
    assert advance(State(), Reconciled(None, "half"), ASKS) == Interrupt("half")


def test_a_safe_tool_whose_attempts_are_used_up_is_held_until_a_retry() -> None:
    state = State(run=1, attempt=6)
    assert advance(state, WorkerLost(""), SAFE) == Hold(
        "every attempt at this tool was used up, the last one when its worker was lost"
    )
    assert advance(state, Released(), SAFE) == Execute()
    assert state == State(run=7, published=""), "the next run is the seventh, whoever scheduled it"


def test_a_safe_tool_reruns_uncounted_after_a_clean_stop() -> None:
    state = State(run=1, attempt=3)
    assert advance(state, WorkerStopped(""), SAFE) == Execute()
    assert state == State(run=4, attempt=1, published="")


def test_a_tool_that_no_worker_has_is_looked_for_five_times_in_thirty_seconds() -> None:
    state = State()
    commands = [advance(state, Ran(NOT_HERE), UNSAFE) for _ in range(6)]
    assert commands == [Execute(pause=6.0)] * 5 + [Unavailable()]
    assert state == State(not_here=6), "no run was spent"


def test_a_tool_that_had_begun_and_that_no_worker_has_any_more_is_interrupted() -> None:
    given_back, crashed = State(not_here=5), State(attempt=2, not_here=4)
    assert advance(given_back, WorkerStopped("half"), SAFE) == Execute()
    assert advance(given_back, Ran(NOT_HERE), SAFE) == Interrupt("half")
    after_a_crash = results.not_here("pay", "half")
    assert advance(crashed, Ran(after_a_crash), SAFE) == Execute(pause=6.0)
    assert (crashed.run, crashed.attempt) == (3, 1)
    assert advance(crashed, Ran(NOT_HERE), SAFE) == Interrupt("half")


def test_a_stop_before_the_code_runs_settles_as_aborted() -> None:
    assert advance(State(), Aborted(), UNSAFE) == Abort()


def test_a_stop_after_the_code_has_begun_says_so_with_what_was_published() -> None:
    assert advance(State(), Aborted("half"), UNSAFE) == Abort("half")
    state = State()
    assert advance(state, WorkerLost("half"), SAFE) == Hold(
        "every attempt at this tool was used up, the last one when its worker was lost"
    )
    assert advance(state, Aborted(), SAFE) == Abort("half")


@pytest.mark.parametrize(
    ("run", "attempt", "stale"), [(2, 2, False), (2, 3, False), (3, 1, False), (2, 1, True), (1, 9, True)]
)
def test_only_what_is_older_than_the_newest_announcement_is_stale(run: int, attempt: int, stale: bool) -> None:
    assert is_stale(State(run=2, attempt=2), run, attempt) is stale


def test_an_announcement_fences_off_earlier_attempts_and_a_stale_one_changes_nothing() -> None:
    state = State()
    assert announce(state, 1, 2)
    assert state == State(run=1, attempt=2)
    assert not announce(state, 1, 1)
    assert state == State(run=1, attempt=2)
