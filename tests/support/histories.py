"""What the histories of a conversation's workflows hold, told in a few words for whole-state assertions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Container, Iterable
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from tarry.core.protocol import ANNOUNCE, MODEL_REQUEST, TOOL_RUN
from tarry.core.waiting import CLEAN_UP, REFEREE, TASK_CLEAN_UP, TASK_RUN

_ENDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "completed",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "failed",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "timed out",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "canceled",
}

_FIELDS = {
    "models": {MODEL_REQUEST},
    "tools": {TOOL_RUN, TASK_RUN},
    "clean_ups": {CLEAN_UP, TASK_CLEAN_UP},
    "referees": {REFEREE},
}


@dataclass(frozen=True)
class Account:
    """Every scheduled model request and run of a tool or a task: how it ended, and on which of Temporal's attempts.

    So are `clean_ups`, the runs of cancel hooks and abort handlers, and `referees`. `announced` counts the reruns that
    told their call so; `failed_tasks` are workflow tasks that failed, and why.
    """

    models: tuple[str, ...]
    tools: tuple[str, ...] = ()
    announced: int = 0
    failed_tasks: tuple[str, ...] = ()
    clean_ups: tuple[str, ...] = ()
    referees: tuple[str, ...] = ()


async def account(client: Client, conversation_id: str) -> Account:
    """Read the histories of a conversation and of all it started, in the order of their start."""
    events: list[HistoryEvent] = []
    told: dict[str, list[str]] = {field: [] for field in _FIELDS}
    async for history in _histories(client, conversation_id):
        events += history
        for field, names in _FIELDS.items():
            told[field] += _activities(history, names)
    return Account(
        **{field: tuple(ends) for field, ends in told.items()},
        announced=sum(_is_announcement(event) for event in events),
        failed_tasks=tuple(_failed_tasks(events)),
    )


async def _histories(client: Client, workflow_id: str) -> AsyncIterator[list[HistoryEvent]]:
    """The history of a workflow, then those of its children. Not by visibility, which may lag behind."""
    history = list((await client.get_workflow_handle(workflow_id).fetch_history()).events)
    yield history
    for event in history:
        child = event.child_workflow_execution_started_event_attributes.workflow_execution.workflow_id
        if child:
            async for grandchild in _histories(client, child):
                yield grandchild


def _activities(events: Iterable[HistoryEvent], names: Container[str]) -> list[str]:
    """Each scheduled activity of those names: `completed 1`, say, `open`, or `canceled 0` when it never began."""
    told: dict[int, str] = {}
    attempts: dict[int, int] = {}
    for event in events:
        attributes: Any = getattr(event, event.WhichOneof("attributes") or "")
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED and attributes.activity_type.name in names:
            told[event.event_id] = "open"
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            attempts[attributes.scheduled_event_id] = attributes.attempt
        elif event.event_type in _ENDS and attributes.scheduled_event_id in told:
            scheduled = attributes.scheduled_event_id
            told[scheduled] = f"{_ENDS[event.event_type]} {attempts.get(scheduled, 0)}"
    return list(told.values())


def _is_announcement(event: HistoryEvent) -> bool:
    accepted = event.workflow_execution_update_accepted_event_attributes
    return accepted.accepted_request.input.name == ANNOUNCE


def _failed_tasks(events: Iterable[HistoryEvent]) -> Iterable[str]:
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            attributes = event.workflow_task_failed_event_attributes
            yield f"{WorkflowTaskFailedCause.Name(attributes.cause)}: {attributes.failure.message}"
