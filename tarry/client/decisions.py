"""What people decided, and what came of it: from lists and histories, with no worker up (spec §23.7).

As long as Temporal retains the task: what it has forgotten is in no list.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus, WorkflowHistoryEventFilterType
from temporalio.service import RPCError

from tarry import attributes
from tarry.client.errors import reaching_server
from tarry.client.lists import listed_memo, literal
from tarry.client.tasks import RPC_TIMEOUT, describe_task
from tarry.core.decisions import DECIDED_MEMO, Decided
from tarry.core.waiting import PARKED_MEMO, ParkedNote

_WINDOWS = tuple(map(timedelta, (1 / 24, 1, 7, 30, 365, 3_650)))
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""Nobody decided anything before."""
_MOST = 1_000
"""Tasks in one list, unless more were decided within `_FINEST`."""
_FINEST = timedelta(milliseconds=1)
_AT_A_TIME = 8

Came = Literal["runs", "waits", "ran", "failed", "not_run", "stopped", "unknown"]
"""What came of the task: it runs or waits again; it ended with a result, or an error; it was denied, blocked or
expired in the end; it was stopped."""

_NOT_RUN = frozenset({"denied", "blocked", "expired", "invalid_park"})
_STOPPED = frozenset({"aborted", "interrupted", "lost"})


@dataclass(frozen=True)
class DecisionRecord:
    """A decision and its task. `code` is of the outcome: `expired`, `tool_error`; empty for a plain result."""

    task_id: str
    decided: Decided
    came: Came = "unknown"
    code: str = ""


@dataclass(frozen=True)
class LastSeen:
    """How a task stands that does not ask any more.

    `until`: the deadline of its newest wait. `ended`: when it was over, None while it is not. `code`: of its outcome.
    `is_taken_up`: a worker has seen all that came to it.
    """

    decided: tuple[Decided, ...]
    until: datetime | None
    ended: datetime | None
    code: str
    is_taken_up: bool


@reaching_server()
async def decisions(client: Client, task_queue: str, before: datetime, limit: int) -> list[DecisionRecord]:
    """The newest of a queue that were made before a time, newest first; at least `limit` if there are so many.

    Of one task the newest three are kept, and stand where its newest one does. Of a task whose decisions this process
    cannot read it is told that there is one, and when.

    Raises:
        ServerUnavailable: no server answers.
    """
    found = [] if before <= _EARLIEST else await _decided_before(client, task_queue, before, limit)
    found.sort(key=lambda one: one.typed_search_attributes[attributes.DECIDED], reverse=True)
    wanted = found[:limit]
    records: list[DecisionRecord] = []
    for start in range(0, len(wanted), _AT_A_TIME):
        some = await asyncio.gather(*(_records(client, one) for one in wanted[start : start + _AT_A_TIME]))
        records += [record for of_one in some for record in of_one]
    return records


async def _decided_before(client: Client, task_queue: str, before: datetime, limit: int) -> list[WorkflowExecution]:
    """Tasks with the newest decisions before a time, in no order: `limit` of them at least, or all."""
    ours = f"TaskQueue = {literal(task_queue)} AND ExecutionStatus != 'ContinuedAsNew'"
    name = attributes.DECIDED.name

    def of(window: timedelta) -> str:
        since = before - min(window, before - _EARLIEST)
        return f"{ours} AND {name} < {literal(before)} AND {name} >= {literal(since)}"

    async def count(window: timedelta) -> int:
        return (await client.count_workflows(of(window))).count

    found: list[WorkflowExecution] = []
    shorter = timedelta(0)
    # Lists of the dev server cannot be sorted, so a window is made that holds enough, and not too much.
    for window in _WINDOWS:
        held = await count(window)
        while held > _MOST and window - shorter > _FINEST:
            half = shorter + (window - shorter) / 2
            if (of_half := await count(half)) < max(limit, _MOST // 2):
                shorter = half
            else:
                window, held = half, of_half
        if held >= limit or window == _WINDOWS[-1]:
            # Its lists also find a task by the time of an earlier decision, and a page must not come again.
            listed = [one async for one in client.list_workflows(of(window))]
            found = [one for one in listed if one.typed_search_attributes[attributes.DECIDED] < before]
            if len(found) >= limit:
                break
        shorter = window
    return found


async def last_seen(client: Client, task_id: str, task_queue: str) -> LastSeen:
    """How a task of a queue stands that does not ask any more.

    Raises:
        NoSuchTask: none there has that id, or Temporal has forgotten it.
    """
    found = await describe_task(client, task_id, task_queue)
    note: ParkedNote | None = await listed_memo(found, PARKED_MEMO, None, ParkedNote)
    _, code = await _came(client, found)
    is_taken_up = not found.raw_description.HasField("pending_workflow_task")
    return LastSeen(await _decided(found), note.until if note else None, found.close_time, code, is_taken_up)


async def _records(client: Client, found: WorkflowExecution) -> list[DecisionRecord]:
    came, code = await _came(client, found)
    known = await _decided(found) or (_unreadable(found.typed_search_attributes[attributes.DECIDED]),)
    return [DecisionRecord(found.id, one, came, code) for one in reversed(known)]


def _unreadable(at: datetime) -> Decided:
    return Decided(signal="", key="", delivery_id="", at=at, question="[not readable here]")


async def _decided(found: WorkflowExecution) -> tuple[Decided, ...]:
    return await listed_memo(found, DECIDED_MEMO, (), tuple[Decided, ...])


async def _came(client: Client, found: WorkflowExecution) -> tuple[Came, str]:
    match found.status:
        case WorkflowExecutionStatus.RUNNING:
            state = found.typed_search_attributes.get(attributes.STATE)
            return ("runs" if state == "running" else "waits"), ""
        case WorkflowExecutionStatus.COMPLETED:
            return _told(await _outcome(client, found))
        case None | WorkflowExecutionStatus.CONTINUED_AS_NEW:
            return "unknown", ""
        case status:
            return "stopped", status.name.lower()


def _told(outcome: Any) -> tuple[Came, str]:
    """What an outcome says: a call's, or a durable task's."""
    if not isinstance(outcome, dict):
        return "unknown", ""
    code = str(outcome.get("code") or "")
    if code in _NOT_RUN:
        return "not_run", code
    if code in _STOPPED:
        return "stopped", code
    failed = bool(outcome.get("is_error")) or outcome.get("status") == "failed"
    return ("failed" if failed else "ran"), code


async def _outcome(client: Client, found: WorkflowExecution) -> Any:
    """As JSON data; None where it cannot be read."""
    handle = client.get_workflow_handle(found.id, run_id=found.run_id)
    last = WorkflowHistoryEventFilterType.CLOSE_EVENT
    try:
        async for event in handle.fetch_history_events(event_filter_type=last, rpc_timeout=RPC_TIMEOUT):
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
                payloads = event.workflow_execution_completed_event_attributes.result.payloads
                [outcome] = await client.data_converter.decode(payloads)
                return outcome
    except (RPCError, ValueError, RuntimeError):
        return None
    return None
