"""Kept histories: what was recorded once replays under today's workflows, as in production (spec §1.4)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.workflow import NondeterminismError

from tarry.core import (
    choices,
    commits,
    compaction_protocol,
    expectation,
    folding,
    gates,
    keeping,
    protocol,
    registry,
    run_hooks,
    waiting,
)
from tarry.core.subagents import carrying
from tarry.core.subagents import protocol as agents
from tests.replay import kept
from tests.replay.changed import Guarded, GuardedCall, Timed, Unguarded, UnguardedCall
from tests.replay.record import SCENARIOS
from workers.worker import WORKFLOWS

ROOT = Path(__file__).parents[2]

ACTIVITIES = {
    *(protocol.MODEL_REQUEST, protocol.TOOL_RUN, protocol.RECONCILE, keeping.SEAL),
    *(keeping.ARCHIVE, keeping.ADOPT, keeping.SALVAGE, keeping.FIND_SUBMISSION, folding.FOLD),
    keeping.LEAVE_BEHIND,
    compaction_protocol.COMPACT,
    *(waiting.JUDGE, waiting.REFEREE, waiting.CLEAN_UP, waiting.TASK_RUN, waiting.TASK_CLEAN_UP),
    *(commits.SEND, expectation.FORWARD, registry.SWEEP),
    *(gates.ASK_GATES, gates.TELL_RESULT, run_hooks.ASK_RUN_HOOKS),
    *(carrying.CARRY_OUT, carrying.LOOK_AFTER, keeping.TERMINATE),
}
UPDATES = {
    *(protocol.SUBMIT, protocol.WITHDRAW, protocol.ABORT, protocol.RETRY, protocol.MEMO, protocol.ANNOUNCE),
    *(
        waiting.DELIVER,
        waiting.CREATE_CHILD,
        commits.COMMIT,
        expectation.EXPECT,
        compaction_protocol.COMPACT,
        choices.CONFIGURE,
    ),
    *(agents.START, agents.SEND, agents.FOLLOW_UP, agents.READ, agents.INTERRUPT, agents.RELOAD),
}
EVENTS = {
    "ACTIVITY_TASK_TIMED_OUT",
    "CHILD_WORKFLOW_EXECUTION_TERMINATED",
    "EXTERNAL_WORKFLOW_EXECUTION_SIGNALED",
    "MARKER_RECORDED",
    "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED",
    "START_CHILD_WORKFLOW_EXECUTION_FAILED",
    "TIMER_CANCELED",
    "TIMER_FIRED",
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
    "WORKFLOW_EXECUTION_CANCEL_REQUESTED",
    "WORKFLOW_EXECUTION_CONTINUED_AS_NEW",
    "WORKFLOW_EXECUTION_SIGNALED",
    "WORKFLOW_EXECUTION_UPDATE_ADMITTED",
    "WORKFLOW_PROPERTIES_MODIFIED",
}


def events() -> Iterator[HistoryEvent]:
    for name in kept.names():
        for history in kept.read(name):
            yield from history.events


def of_type(name: str, workflow_type: str) -> list[WorkflowHistory]:
    """The histories of a scenario's workflows of that type."""
    first = [(history, history.events[0].workflow_execution_started_event_attributes) for history in kept.read(name)]
    return [history for history, started in first if started.workflow_type.name == workflow_type]


def test_every_scenario_is_kept() -> None:
    assert set(SCENARIOS) <= set(kept.names())


def test_kept_histories_hold_every_activity_update_and_event_there_is() -> None:
    found = list(events())
    activities = {event.activity_task_scheduled_event_attributes.activity_type.name for event in found}
    accepted = [event.workflow_execution_update_accepted_event_attributes for event in found]
    kinds = {EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in found}

    assert activities - {""} == ACTIVITIES
    assert {request.accepted_request.input.name for request in accepted} - {""} == UPDATES
    assert EVENTS - kinds == set()


@pytest.mark.parametrize("name", kept.names())
async def test_kept_history_replays_under_todays_workflows(name: str) -> None:
    histories = kept.read(name)
    assert histories

    for history in histories:
        try:
            await kept.replayer().replay_workflow(history)
        except NondeterminismError as error:
            pytest.fail(f"{history.workflow_id} was begun by older code: guard the change (docs/deploying.md): {error}")


def test_kept_histories_replay_where_no_application_was_ever_loaded(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.replay.empty_registry"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)

    assert (done.returncode, done.stdout) == (0, f"{sum(len(kept.read(name)) for name in kept.names())}\n"), done.stderr


def test_kept_histories_replay_where_traces_are_sent_and_no_span_comes_of_a_replay() -> None:
    command = [sys.executable, "-m", "tests.replay.traced"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    replayed = sum(len(kept.read(name)) for name in kept.names())
    assert (done.returncode, done.stdout) == (0, f"{replayed} 0\n"), done.stderr


async def test_no_workflow_reads_a_clock_draws_chance_or_does_io() -> None:
    """Those of the longest histories of each type, which go the most ways: the sandbox takes its time."""
    by_type: dict[str, list[WorkflowHistory]] = {}
    for history in (history for name in kept.names() for history in kept.read(name)):
        started = history.events[0].workflow_execution_started_event_attributes
        by_type.setdefault(started.workflow_type.name, []).append(history)
    assert len(by_type) == len(WORKFLOWS)

    for histories in by_type.values():
        for history in sorted(histories, key=lambda one: len(one.events))[-6:]:
            await kept.sandboxed().replay_workflow(history)


async def test_the_sandbox_refuses_what_a_workflow_must_not_do() -> None:
    [run, *_] = of_type("plain_run", protocol.GENERATION)

    with pytest.raises(RuntimeError, match=r"Cannot access datetime\.datetime\.now"):
        await kept.sandboxed(Timed).replay_workflow(run)


async def test_replay_needs_the_blobs_that_a_history_refers_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "STORE", tmp_path)
    [run] = of_type("large_input_and_result", protocol.GENERATION)

    with pytest.raises(RuntimeError, match="is missing from the store"):
        await kept.replayer().replay_workflow(run)


@pytest.mark.parametrize(
    ("name", "workflow_type", "unguarded", "guarded"),
    [
        ("plain_run", protocol.GENERATION, Unguarded, Guarded),
        ("parked_with_a_deadline", protocol.TOOL_CALL, UnguardedCall, GuardedCall),
    ],
)
async def test_change_that_forgets_its_guard_is_noticed(
    name: str, workflow_type: str, unguarded: type, guarded: type
) -> None:
    histories = of_type(name, workflow_type)
    assert histories

    for history in histories:
        with pytest.raises(NondeterminismError):
            await kept.replayer(unguarded).replay_workflow(history)
        await kept.replayer(guarded).replay_workflow(history)


def test_kept_history_is_never_recorded_anew() -> None:
    command = [sys.executable, "-m", "tests.replay.record", "plain_run"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stderr) == (2, "plain_run is kept already, and never recorded anew\n")
    with pytest.raises(FileExistsError):
        kept.write("plain_run", [], ROOT)
