"""When something happens in a workflow: the history's long poll, which costs no event and rests while nothing does."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

OVERDUE = 2.0
"""Seconds in which a worker takes up what has come; after that it is worth while to look whether there is one."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

_CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW
_TELLING = frozenset(
    {
        # What a query answers changes with a workflow task alone.
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        _CONTINUED,
    }
)


class Listening:
    """Listens to any number of workflows. `told` is set when something happened to those in `news`."""

    def __init__(self, client: Client, root: str) -> None:
        """`root` is the one to be asked whether there is a worker, when what came to any of them is not taken up."""
        self._client = client
        self._root = root
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self.told = asyncio.Event()
        self.news: set[str] = set()
        self.over: set[str] = set()

    def take(self) -> set[str]:
        """To whom something happened since this was asked last."""
        news, self.news = self.news, set()
        self.told.clear()
        return news

    def follow(self, workflow_ids: Collection[str]) -> None:
        """Listen to these from now on, and to no others."""
        for workflow_id in [one for one in self._listeners if one not in workflow_ids]:
            self._listeners.pop(workflow_id).cancel()
            self.over.discard(workflow_id)
        for workflow_id in workflow_ids:
            if workflow_id not in self._listeners:
                self._listeners[workflow_id] = asyncio.create_task(self._listen(workflow_id))

    async def close(self) -> None:
        """Listen to nothing any more."""
        listeners = list(self._listeners.values())
        self.follow(())
        await asyncio.gather(*listeners, return_exceptions=True)

    def _tell(self, workflow_id: str) -> None:
        self.news.add(workflow_id)
        self.told.set()

    async def _listen(self, workflow_id: str) -> None:
        """Until it is over for good: over its runs, and over outages of the server."""
        run_id: str | None = None
        pause = _FIRST_PAUSE
        while True:
            try:
                last = await self._hear(workflow_id, run_id)
                run_id = await self._next_run(workflow_id, last)
                pause = _FIRST_PAUSE
                if run_id is None:
                    self.over.add(workflow_id)
                    return self._tell(workflow_id)
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    run_id = None
                # Not begun yet, or no server. Another look finds out, and tells of an outage.
                self._tell(workflow_id)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def _hear(self, workflow_id: str, run_id: str | None) -> HistoryEvent | None:
        """Tell of what happens to one run until it closes; its last event."""
        handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        last: HistoryEvent | None = None
        overdue: asyncio.TimerHandle | None = None
        try:
            async for last in handle.fetch_history_events(wait_new_event=True):
                if overdue is not None and last.event_type in _TELLING:
                    overdue.cancel()
                if last.event_type in _TELLING:
                    self._tell(workflow_id)
                elif last.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED:
                    overdue = asyncio.get_running_loop().call_later(OVERDUE, self._tell, self._root)
        finally:
            if overdue is not None:
                overdue.cancel()
        return last

    async def _next_run(self, workflow_id: str, last: HistoryEvent | None) -> str | None:
        """The run that follows a closed one: its successor, or the one that a reset made of it."""
        if last is not None and last.event_type == _CONTINUED:
            return last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        found = await self._client.get_workflow_handle(workflow_id).describe()
        return found.run_id if found.status == WorkflowExecutionStatus.RUNNING else None
