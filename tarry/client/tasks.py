"""Asking about one task, and stopping one. A task is whatever a signal can be delivered to."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowQueryFailedError,
)
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from signals.box import Receipt
from tarry.asking import PATIENCE, ask
from tarry.client.errors import NoSuchTask, reaching_server
from tarry.core.protocol import DURABLE_TASK, TOOL_CALL
from tarry.core.subagents.protocol import AGENTS
from tarry.core.waiting import RECEIPTS, TASK, TaskView

RPC_TIMEOUT = timedelta(seconds=5)
VERDICT_PATIENCE = timedelta(seconds=3)
"""How long a receipt is waited for: a worker that has just come judges within a moment what the server kept."""

_PAUSE = 0.1
_OURS = "tarry."
_TASKS = frozenset({TOOL_CALL, DURABLE_TASK, AGENTS})
_NOT_THERE = frozenset({RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT})
_SILENCE = frozenset(
    {
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.UNAVAILABLE,
    }
)
"""Nobody answered a query; a worker that comes up will."""

T = TypeVar("T")


async def describe(client: Client, workflow_id: str) -> WorkflowExecutionDescription:
    """The description of a workflow of ours, also when it is over; no worker is needed.

    Raises:
        NoSuchTask: nothing has that id, or what has it is not ours.
    """
    try:
        found = await client.get_workflow_handle(workflow_id).describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status in _NOT_THERE:
            raise NoSuchTask(f"there is no {workflow_id}") from error
        raise
    if not found.workflow_type.startswith(_OURS):
        raise NoSuchTask(f"{workflow_id} is a workflow of somebody else")
    return found


async def describe_task(client: Client, task_id: str, task_queue: str | None = None) -> WorkflowExecutionDescription:
    """`describe` of a task alone, of one task queue where it is named.

    Raises:
        NoSuchTask: as `describe`; or it is no tool call and no durable task, or one of another queue.
    """
    found = await describe(client, task_id)
    if task_queue is not None and found.task_queue != task_queue:
        raise NoSuchTask(f"there is no {task_id} on {task_queue}")
    if found.workflow_type not in _TASKS:
        raise NoSuchTask(f"{task_id} is no task that a signal could be delivered to")
    return found


@reaching_server()
async def receipt(client: Client, task_id: str, delivery_id: str) -> Receipt | None:
    """The newest receipt of a delivery, None when the task knows none (spec §3.4).

    Needs a worker, also for a task that is over; waits a few seconds for one and for its verdict.

    Raises:
        NoSuchTask: no task has that id.
        ServerUnavailable: no server answers, or no worker.
    """
    found = await describe_task(client, task_id)
    patience = VERDICT_PATIENCE if found.status == WorkflowExecutionStatus.RUNNING else timedelta(0)

    async def look() -> Receipt | None:
        known: list[Receipt] = await receipts_of(client, task_id)
        return next((receipt for receipt in reversed(known) if receipt.delivery_id == delivery_id), None)

    attempts = AsyncRetrying(
        retry=retry_if_result(lambda receipt: receipt is None),
        stop=stop_after_delay(patience),
        wait=wait_fixed(_PAUSE),
        retry_error_callback=lambda _: None,
    )
    answer: Receipt | None = await attempts(look)
    return answer


async def receipts_of(client: Client, task_id: str, *, patience: timedelta = PATIENCE) -> list[Receipt]:
    """All receipts that a task knows. Asked once when there is no `patience`."""
    return await _ask(client, task_id, RECEIPTS, list[Receipt], patience=patience)


@reaching_server()
async def view(client: Client, task_id: str) -> TaskView:
    """Where a task stands, also when it is over. Waits a few seconds for a worker.

    Raises:
        NoSuchTask: no task has that id.
        ServerUnavailable: no server answers, or no worker.
    """
    return await _ask(client, task_id, TASK, TaskView)


async def view_at_once(client: Client, task_id: str) -> TaskView | None:
    """Where a task stands; None when no worker says so within two seconds.

    Raises:
        NoSuchTask: no task has that id.
    """
    try:
        return await _ask(client, task_id, TASK, TaskView, patience=timedelta(0))
    except RPCError as error:
        if error.status not in _SILENCE:
            raise
        return None


async def _ask(client: Client, task_id: str, query: str, as_type: type[T], *, patience: timedelta = PATIENCE) -> T:
    try:
        return await ask(client, task_id, query, as_type, patience=patience)
    except WorkflowQueryFailedError as error:
        raise NoSuchTask(f"{task_id} is no task that a signal could be delivered to") from error
    except RPCError as error:
        if error.status in _NOT_THERE:
            raise NoSuchTask(f"there is no {task_id}") from error
        raise
