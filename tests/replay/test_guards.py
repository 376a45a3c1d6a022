"""A change of what workflows command that forgets its guard is noticed by the kept histories (spec §22.4)."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.workflow import NondeterminismError

from tarry.namespaces import RETENTION
from tests.replay import kept
from workers.patches import due
from workers.worker import WORKFLOWS
from workflows import patches
from workflows.conversation import room
from workflows.patches import PATCHES, Patch

FOLDER = Path(patches.__file__).parent
EXTRA = "test-extra"
FIRST_STEP = 4
"""Events of a workflow that began and rests."""
SAMPLED = 5
"""Of so many kept histories of a type one is looked at, or this would take a minute."""
BEGUN_BEFORE = {
    patches.NOTED_ENDS: "plain_run",
    patches.FOUND_BY_ACTIVITY: "archived_submissions",
    patches.OVERTAKEN: "withdrawn_by_a_stop",
    patches.BEGUN_AGAIN: "reset_at_rest_unasked",
}
"""Kept histories that were begun before a change; of others they bear its name."""


def type_of(history: WorkflowHistory) -> str:
    return history.events[0].workflow_execution_started_event_attributes.workflow_type.name


def name_of(workflow_class: type) -> str:
    return str(workflow._Definition.must_from_class(workflow_class).name)


def goes_on(history: WorkflowHistory) -> bool:
    """Whether anything came after its first step: with nothing to compare, a replay notices nothing."""
    return len(history.events) > FIRST_STEP


async def fails(history: WorkflowHistory) -> bool:
    """Whether it fits today's code no longer."""
    try:
        await kept.replayer().replay_workflow(history)
    except NondeterminismError:
        return True
    return False


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.id)
async def test_guard_that_is_forgotten_is_noticed(patch: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Patch.is_passed
    monkeypatch.setattr(Patch, "is_passed", lambda self: self.id == patch.id or ask(self))
    monkeypatch.setattr(room, "EVENTS", 40_010)  # or no kept history is full

    begun = kept.read(BEGUN_BEFORE.get(patch, f"before-{patch.id}"))

    assert any([await fails(history) for history in begun if type_of(history) in patch.types])


def changed(begin: Callable[..., None], *, guarded: bool) -> Callable[..., None]:
    """`begin`, the `__init__` of a workflow, and one more command."""

    @functools.wraps(begin)
    def begin_with_more(self: Any, *args: Any) -> None:
        begin(self, *args)
        if not guarded or workflow.patched(EXTRA):
            workflow.start_activity(EXTRA, start_to_close_timeout=timedelta(seconds=5))

    return begin_with_more


@pytest.mark.parametrize("workflow_class", WORKFLOWS, ids=name_of)
async def test_one_more_command_is_noticed_in_whatever_was_begun_before_unless_it_is_guarded(
    workflow_class: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = vars(workflow_class)["__init__"]
    found = [history for name in kept.names() for history in kept.read(name)]
    ours = [history for history in found if type_of(history) == name_of(workflow_class) and goes_on(history)][::SAMPLED]
    assert ours

    monkeypatch.setattr(workflow_class, "__init__", changed(begin, guarded=False))
    assert all([await fails(history) for history in ours])

    monkeypatch.setattr(workflow_class, "__init__", changed(begin, guarded=True))
    assert not any([await fails(history) for history in ours])


def test_every_id_stands_in_one_place_with_an_end() -> None:
    named = {name: value for name, value in vars(patches).items() if isinstance(value, Patch)}
    span = patches.OPEN_FOR + patches.KEPT_FOR

    assert list(named.values()) == list(PATCHES)
    assert len({patch.id for patch in PATCHES}) == len(PATCHES)
    assert [patch.id for patch in PATCHES if patch.until < patch.since + span] == []
    assert [patch.id for patch in PATCHES if not patch.types] == []
    assert patches.KEPT_FOR == RETENTION


def test_every_id_is_asked_for_and_no_question_is_asked_elsewhere() -> None:
    named = {name for name, value in vars(patches).items() if isinstance(value, Patch)}
    files = [file for file in sorted(FOLDER.rglob("*.py")) if file.name != "patches.py"]
    attributes = [
        node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)
    ]

    used = {node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "patches"}
    assert used == named
    assert [node.lineno for node in attributes if node.attr in ("patched", "deprecate_patch")] == []


def test_what_is_due_is_told_with_the_command_that_says_whether_it_may_go() -> None:
    mail = patches.MAIL

    assert due(mail.until.replace(year=mail.until.year - 1)) == []
    [told] = [line for line in due(mail.until) if line.startswith(f"{mail.id} ")]
    assert told == (
        f"{mail.id} is due since {mail.until}: take it out when this counts 0: temporal workflow count --query "
        f"\"WorkflowType IN ('tarry.conversation') AND StartTime < '{mail.since}T00:00:00Z'\""
    )
    assert due(date(9999, 1, 1))[0].startswith(PATCHES[0].id)
