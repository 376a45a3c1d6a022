"""The task machine: the replay rule, the fence, parks and clean-up (spec §4.2 to §4.4, §4.6, §4.8)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from signals.data import MAX_DEPTH
from signals.parking import Park, Wake
from tarry.core import results
from tarry.core.protocol import ResolvedCall, ToolOutcome
from tarry.core.task import (
    Abort,
    Aborted,
    CleanUp,
    Execute,
    Hold,
    Interrupt,
    Parked,
    Ran,
    Reconcile,
    Reconciled,
    Released,
    Rest,
    Settle,
    Unavailable,
    Woke,
    WorkerLost,
    WorkerStopped,
    advance,
    after_clean_up,
    announce,
    is_stale,
)
from tarry.core.task_state import Child, State
from tarry.core.text import Bounded
from tarry.core.waiting import ChildEnd

UNSAFE = ResolvedCall(call_id="c", tool="pay")
SAFE = UNSAFE.model_copy(update={"replay": "safe"})
ASKS = UNSAFE.model_copy(update={"reconciles": True})
DONE = ToolOutcome(text="paid")
NOT_HERE = ToolOutcome(text="", code="not_here")
NOW = datetime(2030, 1, 1, tzinfo=UTC)
PARK = Park(since=NOW, until=NOW, checkpoint={"build": 7})
WAKE = Wake(reason="signal", signal="app.ci", key="done")
CLEANS = UNSAFE.model_copy(update={"cancels": "parked"})
SAFE_CLEANS = SAFE.model_copy(update={"cancels": "parked"})
ABORTED = results.aborted("pay", "half")


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


def woken(**changes: Any) -> State:
    """A task whose second run was begun by a wake."""
    state = State()
    advance(state, Parked(PARK), UNSAFE)
    advance(state, Woke(WAKE), UNSAFE)
    return state.model_copy(update=changes)


def test_a_park_keeps_its_checkpoint_and_a_wake_is_a_new_intent_with_a_run_of_its_own() -> None:
    state = State(attempt=2, published="half", not_here=3)
    assert advance(state, Parked(PARK), SAFE) == Rest(PARK)
    assert (state.park, state.checkpoint, state.wake) == (PARK, {"build": 7}, None)
    assert advance(state, Woke(WAKE), SAFE) == Execute()
    assert state == State(run=3, first_run=3, intent=2, wake=WAKE, checkpoint={"build": 7}, published=None)


def test_a_rerun_of_a_woken_run_keeps_its_wake_and_intent() -> None:
    state = woken()
    assert advance(state, WorkerStopped("half"), SAFE) == Execute()
    assert (state.wake, state.checkpoint, state.intent, state.first_run, state.run) == (WAKE, {"build": 7}, 2, 2, 3)


def test_a_next_park_takes_the_place_of_the_wake() -> None:
    state, later = woken(), PARK.model_copy(update={"checkpoint": "later"})
    assert advance(state, Parked(later), UNSAFE) == Rest(later)
    assert (state.wake, state.checkpoint) == (None, "later")


def test_a_stop_while_parked_cleans_up_with_the_last_checkpoint() -> None:
    state = State()
    advance(state, Parked(PARK), CLEANS)
    assert advance(state, Aborted(), CLEANS) == CleanUp(Abort(None, waited=True))
    assert state.checkpoint == {"build": 7}
    assert is_stale(state, 1, 1), "memos of the run that parked are refused from now on"


def test_a_park_that_lost_to_a_stop_is_cleaned_up_after() -> None:
    state = State()
    assert advance(state, Aborted("", lost=PARK), CLEANS) == CleanUp(Abort("", waited=True))
    assert state.checkpoint == {"build": 7}


@pytest.mark.parametrize(("output", "told"), [(None, ""), ("half", "half")])
def test_a_woken_run_that_is_stopped_is_cleaned_up_after_also_before_it_was_entered(
    output: str | None, told: str
) -> None:
    assert advance(woken(), Aborted(output), CLEANS) == CleanUp(Abort(told))


@pytest.mark.parametrize("outcome", [ABORTED, results.interrupted("pay", "half")])
def test_a_woken_run_that_its_worker_stopped_is_cleaned_up_after(outcome: ToolOutcome) -> None:
    assert advance(woken(), Ran(outcome), CLEANS) == CleanUp(Settle(outcome))
    assert advance(State(), Ran(outcome), CLEANS) == Settle(outcome), "a first run sees the Stop itself"
    assert advance(woken(), Ran(outcome), UNSAFE) == Settle(outcome), "there is no hook"


def test_an_unsafe_woken_run_that_was_cut_off_is_cleaned_up_after_and_a_safe_one_runs_again() -> None:
    assert advance(woken(), WorkerLost("half"), CLEANS) == CleanUp(Interrupt("half"))
    assert advance(State(), WorkerLost("half"), CLEANS) == Interrupt("half")
    assert advance(woken(), WorkerStopped("half"), SAFE_CLEANS) == Execute()


def test_a_result_of_a_woken_run_settles_the_call_and_nothing_is_cleaned_up() -> None:
    assert advance(woken(), Ran(DONE), CLEANS) == Settle(DONE)
    failed = results.tool_error("pay", ValueError("no"))
    assert advance(woken(), Ran(failed), CLEANS) == Settle(failed)


def test_a_clean_up_that_failed_is_told_in_every_kind_of_result() -> None:
    assert after_clean_up(CleanUp(Abort("half")), "It broke.") == Abort("half", cleanup="It broke.")
    assert after_clean_up(CleanUp(Interrupt("half")), "It broke.") == Interrupt("half", cleanup="It broke.")
    assert after_clean_up(CleanUp(Settle(ABORTED)), "") == Settle(ABORTED)
    told = after_clean_up(CleanUp(Settle(ABORTED)), "It broke.")
    assert isinstance(told, Settle)
    assert "It broke. (cleanup_unknown)" in told.outcome.text
    assert told.outcome.text.endswith("</harness>")
    assert told.outcome.text.count("<harness>") == 1


def test_a_parked_task_whose_tool_is_gone_is_unavailable_only_when_nothing_of_the_wake_has_run() -> None:
    state = woken(not_here=5)
    assert advance(state, Ran(NOT_HERE), CLEANS) == Unavailable()
    begun = woken(not_here=5, published="half")
    assert advance(begun, Ran(NOT_HERE), CLEANS) == Interrupt("half")


def test_the_outcome_of_a_child_is_kept_however_deep_its_result_is() -> None:
    state = State(children={"deep": Child(task_id="t", digest="")})
    details: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        details = [details]
    outcome = results.outcome_from(Bounded("done"), details=details).model_dump(mode="json")

    state.end_child("deep", outcome, failed=False)

    assert outcome["facts"]["details"] == details
    assert state.child_end("t") == ChildEnd(is_over=True, outcome=outcome)
