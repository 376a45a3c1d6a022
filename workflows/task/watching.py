"""Waiting for tasks that are not children: each is asked to tell when it is over, and tells (spec §4.9).

The telling is acknowledged before the task ends: a signal sent in the very task that ends a workflow never
arrives (spec §1.6).
"""

from __future__ import annotations

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

from tarry.core.task_state import State
from tarry.core.waiting import ENDED, WATCH, EndNotice
from workflows.ends import read_signal

MAX_WATCHERS = 256
MAX_ID_BYTES = 1_000
"""Of a workflow id. A command that names another one fails the workflow task, each time anew."""


async def watch(state: State, tasks: Sequence[str]) -> None:
    """Ask each of `tasks` that is no child and is not watched yet; one that is not there, or no more, is over."""
    for task_id in tasks:
        if state.is_child(task_id) or task_id in state.others:
            continue
        if not is_id(task_id):
            state.others[task_id] = False
            continue
        state.others[task_id] = None
        try:
            await workflow.get_external_workflow_handle(task_id).signal(WATCH, workflow.info().workflow_id)
        except FailureError:
            state.others[task_id] = False


async def tell(watchers: Sequence[str], *, failed: bool) -> None:
    """Tell these, and who comes to them meanwhile, that the task is over; who is over too need not know."""
    for watcher in filter(is_id, watchers):
        notice = EndNotice(task_id=workflow.info().workflow_id, failed=failed)
        try:
            await workflow.get_external_workflow_handle(watcher).signal(ENDED, notice)
        except FailureError:
            continue


def take_watcher(state: State, args: Sequence[RawValue]) -> None:
    """Somebody wants to know; what cannot be read is nobody, and so is who comes after the 256th."""
    watcher = read_signal(args, str)
    if watcher is None or not is_id(watcher):
        return
    if watcher not in state.watchers and len(state.watchers) < MAX_WATCHERS:
        state.watchers.append(watcher)


def is_id(text: str) -> bool:
    """Whether the server takes it for an id, or a name."""
    return 0 < len(text.encode("utf-8", "replace")) <= MAX_ID_BYTES


def take_end(state: State, args: Sequence[RawValue]) -> None:
    """A watched task is over; what is not watched does not count."""
    notice = read_signal(args, EndNotice)
    if notice is not None and notice.task_id in state.others:
        state.others[notice.task_id] = notice.failed
