"""Waits that close a circle: found when the last of them is asked for, and refused, the circle named (spec §4.9)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError

from signals.parking import InvalidPark
from tarry.asking import query
from tarry.core.waiting import TASK, TaskView

PATIENCE = timedelta(seconds=3)
MAX_LOOKS = 64
"""Tasks that are asked; a longer chain is not followed."""


async def check_no_cycle(client: Client, task_id: str, on: Sequence[str]) -> None:
    """Follow who waits for whom from `on`; tasks that give no answer are taken to wait for nobody.

    Raises:
        InvalidPark: one of them waits, through others, for `task_id`.
    """
    paths: list[tuple[str, ...]] = [(other,) for other in on if not other.startswith(f"{task_id}/")]
    seen: set[str] = set()
    while paths and len(seen) < MAX_LOOKS:
        path = paths.pop(0)
        if path[-1] in seen:
            continue
        seen.add(path[-1])
        for waited in await _waited_for(client, path[-1]):
            if waited == task_id or task_id.startswith(f"{waited}/"):
                raise InvalidPark(f"the wait closes a circle: {' -> '.join((task_id, *path, waited))}")
            paths.append((*path, waited))


async def _waited_for(client: Client, task_id: str) -> tuple[str, ...]:
    try:
        view = await query(client.get_workflow_handle(task_id), TASK, TaskView, within=PATIENCE)
    except (RPCError, WorkflowQueryFailedError):
        return ()
    return view.on
