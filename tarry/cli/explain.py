"""`tarry explain`: what something waits for, or what it is doing, and what would move it.

Temporal's descriptions and lists say most of it with no worker up; a worker adds what only the task knows (spec §9.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import PendingActivityState, PendingWorkflowTaskState
from temporalio.api.workflow.v1 import PendingActivityInfo, PendingWorkflowTaskInfo
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from tarry.cli import render
from tarry.cli.exits import ExitCode
from tarry.cli.explanation import Explanation, drawn
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.cli.turns import newest_turns
from tarry.cli.work import with_conversation_states
from tarry.client import Harness, WorkItem
from tarry.client.errors import reaching_server
from tarry.client.tasks import describe, view_at_once
from tarry.client.work import parked_note, work_item
from tarry.client.workers import marked


def explain(
    task_id: Annotated[str, typer.Argument(metavar="ID", help="A call, task, run or conversation of `tarry ps`.")],
    as_json: JsonOption = False,
) -> int:
    """Say what something waits for, or what it is doing, and which command would move it.

    No worker needs to be up; one adds what the task received.
    """
    return run_async(_explain(Output(as_json=as_json), task_id))


async def _explain(output: Output, task_id: str) -> int:
    explanation, now = await _found(await Harness.connect(), task_id), datetime.now(UTC)
    if output.as_json:
        output.json(explanation.facts())
        return ExitCode.DONE
    output.rich(drawn(explanation, now))
    if explanation.parts:
        output.table(render.work(explanation.parts, now))
    return ExitCode.DONE


@reaching_server()
async def _found(harness: Harness, task_id: str) -> Explanation:
    description = await describe(harness.client, task_id)
    (item,) = await marked(harness.client, [await work_item(description)])
    is_open = description.status == WorkflowExecutionStatus.RUNNING
    is_group = item.kind in ("conversation", "generation")
    parts = await _parts(harness, item) if is_open and (is_group or item.state == "waiting") else []
    if item.kind == "conversation":
        item = with_conversation_states([item, *parts])[0]
    return Explanation(
        item=item,
        closed="" if is_open or description.status is None else description.status.name.lower(),
        pending=tuple(_pending(description, datetime.now(UTC))),
        note=await parked_note(description) if is_open else None,
        task=None if is_group else await view_at_once(harness.client, task_id),
        parts=tuple(parts),
        turns=tuple(await newest_turns(harness.client, task_id)) if is_open and item.kind == "generation" else (),
    )


async def _parts(harness: Harness, item: WorkItem) -> list[WorkItem]:
    """What is not over below it."""
    found = [part async for part in harness.work(conversation_id=item.conversation_id) if part.id != item.id]
    found = await marked(harness.client, found)
    return found if item.kind == "conversation" else [part for part in found if part.id.startswith(f"{item.id}/")]


def _pending(description: WorkflowExecutionDescription, now: datetime) -> Iterator[str]:
    raw = description.raw_description
    if raw.HasField("pending_workflow_task"):
        yield from _next_step(raw.pending_workflow_task, now)
    for activity in raw.pending_activities:
        yield _running(activity, now)


def _next_step(task: PendingWorkflowTaskInfo, now: datetime) -> Iterator[str]:
    if task.attempt > 1:
        yield f"its next step fails, and was tried {task.attempt} times: the workflow's history says why"
    elif task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED:
        yield f"a worker must take its next step; none has for {_age(task.scheduled_time, now)}"


def _running(activity: PendingActivityInfo, now: datetime) -> str:
    words = [activity.activity_type.name.removeprefix("tarry."), f"attempt {activity.attempt}"]
    if activity.paused:
        words.append(_paused(activity, now))
    if activity.HasField("last_started_time"):
        words.append(f"since {_age(activity.last_started_time, now)}")
    elif activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED:
        words.append(f"no worker has taken it for {_age(activity.scheduled_time, now)}")
    if activity.HasField("last_failure"):
        words.append(f"failed before: {activity.last_failure.message}")
    return ", ".join(words)


def _paused(activity: PendingActivityInfo, now: datetime) -> str:
    why = activity.pause_info.manual.reason
    told = f"paused for {_age(activity.pause_info.pause_time, now)}{f' ({why})' if why else ''}"
    return f"{told}: `temporal activity unpause --activity-id {activity.activity_id}` lets it go on"


def _age(moment: Timestamp, now: datetime) -> str:
    return render.duration(now - moment.ToDatetime(UTC))
