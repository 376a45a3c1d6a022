"""Workflow tasks that were done over: what they had sent or counted is sent or counted again (spec §24.3, §24.6)."""

from __future__ import annotations

from temporalio.api.enums.v1 import EventType

from tarry.client.lists import literal
from tarry.testing import Stage

_DONE_OVER = (EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT)


async def done_over(stage: Stage) -> list[str]:
    """The workflows of a stage that had one, as happens where a worker is too slow for it."""
    client = stage.harness.client
    query = f"TaskQueue = {literal(stage.harness.settings.task_queue)}"
    return [
        found.id
        async for found in client.list_workflows(query)
        if [
            event
            async for event in client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history_events()
            if event.event_type in _DONE_OVER
        ]
    ]
