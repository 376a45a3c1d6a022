"""Does a generation run by itself? One with an open call is judged by its calls, any other asks the model (spec §9.3).

All generations are held against all calls once; from then on only those that a list tells of as changed, since at ten
thousand the whole takes seconds. Counting shows whether what is remembered is still everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from temporalio.api.workflow.v1 import WorkflowExecutionInfo

from tarry.attributes import STATE
from tarry.client.lists import QueueLists, literal
from tarry.core.protocol import DURABLE_TASK, GENERATION, TOOL_CALL

_KIND = f'WorkflowType = "{GENERATION}"'
_RUNS = f'{_KIND} AND {STATE.name} = "running"'
_CALLS = f'WorkflowType IN ("{TOOL_CALL}", "{DURABLE_TASK}")'

_SKEW = timedelta(minutes=1)
"""How far this host's clock, and what the lists know, may be behind."""
_MANY = 200
"""Changes from which on everything is read anew."""


class _LoneRun(Exception):
    """One was found; nothing else matters."""


class Pairing:
    """The generations that were open at the last look, each with an open call."""

    def __init__(self, lists: QueueLists) -> None:
        self._lists = lists
        self._paired: set[str] = set()
        self._at: datetime | None = None

    async def has_lone_run(self, now: datetime) -> bool:
        """Whether a generation is open, not held, and has no open call."""
        runs = await self._lists.count_open(_RUNS)
        if runs > await self._lists.count_open(_CALLS):
            return True
        try:
            followed = await self._follow(self._at - _SKEW) if self._at is not None else None
            # One that was held and let go neither began nor ended: the count tells.
            is_complete = followed is not None and len(followed) == runs
            self._paired = followed if followed is not None and is_complete else await self._read()
        except _LoneRun:
            return True
        self._at = now
        return False

    async def _read(self) -> set[str]:
        """All that are open, each held against all calls."""
        callers = {call.parent_execution.workflow_id async for call in self._lists.open(_CALLS)}
        paired: set[str] = set()
        async for run in self._lists.open(_RUNS):
            if run.execution.workflow_id not in callers:
                raise _LoneRun
            paired.add(run.execution.workflow_id)
        return paired

    async def _follow(self, since: datetime) -> set[str] | None:
        """All that are open, by what began or ended since; None when that is too much to follow."""
        began = await _few(self._lists.open(f"{_RUNS} AND StartTime > {literal(since)}"))
        ended = await _few(self._lists.all(f"{_KIND} AND CloseTime > {literal(since)}"))
        calls = await _few(self._lists.all(f"{_CALLS} AND CloseTime > {literal(since)}"))
        if began is None or ended is None or calls is None:
            return None
        started = {run.execution.workflow_id for run in began}
        for run_id in started | {call.parent_execution.workflow_id for call in calls}:
            await self._check(run_id)
        # One that continued as new is among both.
        return self._paired - {run.execution.workflow_id for run in ended} | started

    async def _check(self, run_id: str) -> None:
        is_run = await self._lists.count_open(f"{_RUNS} AND WorkflowId = {literal(run_id)}") > 0
        if is_run and not await self._lists.count_open(f"{_CALLS} AND ParentWorkflowId = {literal(run_id)}"):
            raise _LoneRun


async def _few(executions: AsyncIterator[WorkflowExecutionInfo]) -> list[WorkflowExecutionInfo] | None:
    """All of them, None when they are many."""
    found: list[WorkflowExecutionInfo] = []
    async for execution in executions:
        found.append(execution)
        if len(found) > _MANY:
            return None
    return found
