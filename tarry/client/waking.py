"""May the workers be switched off, and when must they be back? Told by the server alone, with no worker up (spec §9.3).

What needs a worker shows as a task in the queue, as a state, or as a deadline that has passed. A generation says
`running` as long as it is open; one with an open call is judged by its calls. Only counts are asked for, so that ten
thousand parked tasks cost what one does; lists are read when generations or calls began or ended since the last time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import Field
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkflowExecutionsRequest
from temporalio.client import Client

from signals.parking import MAX_AHEAD
from tarry.attributes import DEADLINE, STATE
from tarry.client.errors import reaching_server
from tarry.client.work import literal
from tarry.core.messages import Frozen
from tarry.core.protocol import DURABLE_TASK, GENERATION, TOOL_CALL

Why = Literal["", "backlog", "running", "deadline"]


class WakePlan(Frozen):
    """Whether workers are needed."""

    active: bool = Field(description="they are needed now")
    at: datetime | None = Field(
        default=None, description="when they must be back at the latest; None while active, and when nothing is due"
    )
    why: Why = Field(
        default="", description="`backlog`: tasks wait for a worker; `running`: work runs; `deadline`: one has passed"
    )


_QUEUES = (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
_RUNS = f'WorkflowType = "{GENERATION}" AND {STATE.name} = "running"'
_CALLS = f'WorkflowType IN ("{TOOL_CALL}", "{DURABLE_TASK}")'
_RUNS_ITSELF = f'WorkflowType != "{GENERATION}" AND {STATE.name} = "running"'

_SKEW = timedelta(minutes=1)
"""How far this host's clock, and what the server's lists know, may be behind."""

_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=30), timedelta(days=900), MAX_AHEAD)
_PRECISION = timedelta(seconds=1)
_FEW = 100
_PAGE = 1_000

_SHORTEST_PAUSE = 2.0
_LOAD = 0.1
"""The part of the time that looking may take."""


class WakeCheck:
    """Looks at one task queue. Keep it for the next look: what has not changed is not read again."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._queue = task_queue
        self._ours = f"TaskQueue = {literal(task_queue)}"
        self._paired_at: datetime | None = None
        self._paired_runs = 0

    @reaching_server()
    async def look(self) -> WakePlan:
        """How it stands. In the moment in which a worker takes a task, neither queue nor state tells of it.

        Raises:
            ServerUnavailable: no server answers.
        """
        now = datetime.now(UTC)
        why = await self._why(now)
        return WakePlan(active=True, why=why) if why else WakePlan(active=False, at=await self._first_deadline(now))

    async def watch(self) -> AsyncIterator[WakePlan]:
        """The plan, and each other plan as it comes, for ever. That nothing is active counts when seen twice in a row.

        Looking takes a tenth of the time at most, and a pause is two seconds or longer.

        Raises:
            ServerUnavailable: no server answers. Watching can be begun again.
        """
        told: WakePlan | None = None
        was_active = True
        while True:
            began = time.monotonic()
            plan = await self.look()
            pause = max(_SHORTEST_PAUSE, (time.monotonic() - began) / _LOAD)
            if plan != told and (plan.active or not was_active):
                told = plan
                yield plan
            was_active = plan.active
            await asyncio.sleep(pause)

    async def _why(self, now: datetime) -> Why:
        if await self._has_backlog():
            return "backlog"
        if await self._count(_RUNS_ITSELF):
            return "running"
        if await self._count(f"{DEADLINE.name} <= {_moment(now)}"):
            return "deadline"
        return "running" if await self._has_lone_run(now) else ""

    async def _has_backlog(self) -> bool:
        for kind in _QUEUES:
            request = DescribeTaskQueueRequest(
                namespace=self._client.namespace,
                task_queue=TaskQueue(name=self._queue),
                task_queue_type=kind,
                report_stats=True,
                # The statistics cover all partitions, and are some seconds old; this is of one partition, and fresh.
                include_task_queue_status=True,
            )
            found = await self._client.workflow_service.describe_task_queue(request, retry=True)
            if found.stats.approximate_backlog_count > 0 or found.task_queue_status.backlog_count_hint > 0:
                return True
        return False

    async def _has_lone_run(self, now: datetime) -> bool:
        """Whether a generation is open without an open call: then it is its own model request that runs."""
        runs = await self._count(_RUNS)
        if runs > await self._count(_CALLS):
            return True
        if runs == 0 or (runs == self._paired_runs and not await self._has_changed()):
            return False
        callers = {call.parent_execution.workflow_id async for call in self._open(_CALLS)}
        async for run in self._open(_RUNS):
            if run.execution.workflow_id not in callers:
                return True
        self._paired_at, self._paired_runs = now, runs
        return False

    async def _has_changed(self) -> bool:
        """Whether a generation or a call began or ended since they were paired. One that was held adds to the runs."""
        if self._paired_at is None:
            return True
        since = _moment(self._paired_at - _SKEW)
        kinds = f'WorkflowType IN ("{GENERATION}", "{TOOL_CALL}", "{DURABLE_TASK}")'
        query = f"{self._ours} AND {kinds} AND (StartTime > {since} OR CloseTime > {since})"
        return (await self._client.count_workflows(query)).count > 0

    async def _first_deadline(self, now: datetime) -> datetime | None:
        """The earliest deadline ahead; of very many within a second, one that is up to a second too early.

        The dev server's lists cannot be sorted. Counts in ever smaller windows find it in a few dozen short questions.
        """
        low, high = now, now
        for window in _WINDOWS:
            high = now + window
            if found := await self._count(_between(low, high)):
                break
        else:
            return None
        while found > _FEW and high - low > _PRECISION:
            middle = low + (high - low) / 2
            if earlier := await self._count(_between(low, middle)):
                found, high = earlier, middle
            else:
                low = middle
        return low if found > _FEW else await self._earliest(low, high)

    async def _earliest(self, low: datetime, high: datetime) -> datetime | None:
        query = f"{self._open_query} AND {_between(low, high)}"
        deadlines = [found.typed_search_attributes.get(DEADLINE) async for found in self._client.list_workflows(query)]
        # None when all of them ended since they were counted: the next look finds the next one.
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def _open_query(self) -> str:
        return f'ExecutionStatus = "Running" AND {self._ours}'

    async def _count(self, query: str) -> int:
        return (await self._client.count_workflows(f"{self._open_query} AND {query}")).count

    async def _open(self, query: str) -> AsyncIterator[WorkflowExecutionInfo]:
        request = ListWorkflowExecutionsRequest(
            namespace=self._client.namespace, page_size=_PAGE, query=f"{self._open_query} AND {query}"
        )
        while True:
            page = await self._client.workflow_service.list_workflow_executions(request, retry=True)
            for execution in page.executions:
                yield execution
            if not page.next_page_token:
                return
            request.next_page_token = page.next_page_token


def _between(low: datetime, high: datetime) -> str:
    return f"{DEADLINE.name} > {_moment(low)} AND {DEADLINE.name} <= {_moment(high)}"


def _moment(moment: datetime) -> str:
    return literal(moment.isoformat())
