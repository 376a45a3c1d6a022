"""What earlier timelines of a call, which resets cut off, did under an intent of it (spec §1.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from pydantic import ValidationError
from temporalio import activity
from temporalio.api.common.v1 import Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from activities.listed import surely_listed
from tarry.client.lists import literal
from tarry.core.protocol import ToolRunInput
from tarry.core.waiting import ParkRequest, RunEnd, StepRequest


@dataclass(frozen=True)
class Before:
    """Whether any timeline scheduled the intent; when its run ended with a park or a step, that."""

    began: bool
    went_on: ParkRequest | StepRequest | None = None


async def intent_before(client: Client, input: ToolRunInput) -> Before:
    """What became of the intent that the current activity is about, before a reset of its call.

    Of a timeline that the server has forgotten, or does not tell of, nothing is known: then it may have begun.
    """
    try:
        found = await _look(client, input)
        if not found.began:
            # A timeline that was cut off as soon as it had begun may not be listed yet.
            await surely_listed(client, input.task_id)
            found = await _look(client, input)
    except RPCError as error:
        activity.logger.warning("What %s did before its reset is not known: %s", input.task_id, error.message)
        return Before(began=True)
    return found


async def _look(client: Client, input: ToolRunInput) -> Before:
    own = activity.info().workflow_run_id
    runs = [found.run_id async for found in client.list_workflows(f"WorkflowId = {literal(input.task_id)}")]
    if input.first_run_id not in runs:
        return Before(began=True)
    began = False
    for run_id in runs:
        if run_id == own:
            continue
        async for end in _ends(client, input, run_id):
            began = True
            if isinstance(end, ParkRequest | StepRequest):
                return Before(began=True, went_on=end)
    return Before(began)


async def _ends(client: Client, input: ToolRunInput, run_id: str) -> AsyncIterator[object]:
    """How each run of the intent ended in a timeline; None of one whose end it does not tell."""
    scheduled: dict[int, object] = {}
    async for event in client.get_workflow_handle(input.task_id, run_id=run_id).fetch_history_events():
        if await _schedules(client, event, input):
            scheduled[event.event_id] = None
        completed = event.activity_task_completed_event_attributes
        if completed.scheduled_event_id in scheduled:
            scheduled[completed.scheduled_event_id] = await _end(client, completed.result)
    for end in scheduled.values():
        yield end


async def _schedules(client: Client, event: HistoryEvent, input: ToolRunInput) -> bool:
    asked = event.activity_task_scheduled_event_attributes
    if asked.activity_type.name != activity.info().activity_type:
        return False
    [found] = await client.data_converter.decode(asked.input.payloads, [ToolRunInput])
    return isinstance(found, ToolRunInput) and found.idempotency_key == input.idempotency_key


async def _end(client: Client, result: Payloads) -> object:
    try:
        [end] = await client.data_converter.decode(result.payloads, [RunEnd])
    except (ValidationError, ValueError):  # anybody with a shell can complete an activity by hand
        return None
    return end.root if isinstance(end, RunEnd) else None
