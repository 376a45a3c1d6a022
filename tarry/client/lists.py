"""Temporal's lists of one task queue: counts and executions, which no worker needs to be up for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TypeVar

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import ListWorkflowExecutionsRequest
from temporalio.client import Client, WorkflowExecution

from tarry.attributes import WORKER
from tarry.codec import UnreadablePayload

T = TypeVar("T")

_PAGE = 1_000
_IS_OPEN = 'ExecutionStatus = "Running"'


async def listed_memo(execution: WorkflowExecution, name: str, default: T, as_type: type[T]) -> T:
    """A memo of one of many: the default too where this process cannot read it, or one would hide all others."""
    try:
        found: T = await execution.memo_value(name, default, type_hint=as_type)
    except UnreadablePayload:
        return default
    return found


def literal(value: str | datetime) -> str:
    """A text or an aware time in a query. The dev server finds none with a backslash or a double quote in it."""
    text = value.isoformat() if isinstance(value, datetime) else value
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


class QueueLists:
    """The workflows whose tasks go to one queue, those alone whose code `workers` run. Some milliseconds behind."""

    def __init__(self, client: Client, task_queue: str, workers: Sequence[str] = ()) -> None:
        self._client = client
        self._ours = f"TaskQueue = {literal(task_queue)}"
        if workers:
            self._ours += f" AND {WORKER.name} IN ({', '.join(map(literal, workers))})"

    async def count_open(self, query: str) -> int:
        """How many that are open fit `query`."""
        return (await self._client.count_workflows(f"{self._ours} AND {_IS_OPEN} AND {query}")).count

    def open(self, query: str) -> AsyncIterator[WorkflowExecutionInfo]:
        """Those that are open and fit `query`."""
        return self.all(f"{_IS_OPEN} AND {query}")

    async def all(self, query: str) -> AsyncIterator[WorkflowExecutionInfo]:
        """Those that fit `query`, also when they are over."""
        request = ListWorkflowExecutionsRequest(
            namespace=self._client.namespace, page_size=_PAGE, query=f"{self._ours} AND {query}"
        )
        while True:
            # Raw, since the SDK's own objects take as long again to make.
            page = await self._client.workflow_service.list_workflow_executions(request, retry=True)
            for execution in page.executions:
                yield execution
            if not page.next_page_token:
                return
            request.next_page_token = page.next_page_token
