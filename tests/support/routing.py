"""Which queue each run of application code was scheduled on."""

from __future__ import annotations

from temporalio.client import Client

from tarry.core.protocol import RECONCILE, TOOL_RUN
from tarry.core.routing import worker_of
from tarry.core.waiting import CLEAN_UP, TASK_CLEAN_UP, TASK_RUN

_CODE = {TOOL_RUN, RECONCILE, CLEAN_UP, TASK_RUN, TASK_CLEAN_UP}


async def scheduled(client: Client, workflow_id: str, task_queue: str) -> list[tuple[str, str]]:
    """Of the code of a task's current run: what was scheduled, and for which worker."""
    history = await client.get_workflow_handle(workflow_id).fetch_history()
    found = [event.activity_task_scheduled_event_attributes for event in history.events]
    return [
        (one.activity_type.name.removeprefix("tarry."), worker_of(one.task_queue.name, task_queue))
        for one in found
        if one.activity_type.name in _CODE
    ]
