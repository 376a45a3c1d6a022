"""What can be seen of a run from outside with no worker up: Temporal's description of it and of its calls.

Heartbeat details carry what streams, search attributes the state, the memo the question (spec §7.9, §9.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from tarry import attributes
from tarry.client.questions import question_of
from tarry.client.work import parked_note
from tarry.core.live import CallStatus, LiveCall, LiveMessage, Question, Streamed
from tarry.core.paths import path_of
from tarry.core.protocol import MODEL_REQUEST, TOOL_CALL, TOOL_RUN, Progress

RPC_TIMEOUT = timedelta(seconds=3)

_PLACE = re.compile(r"/t(\d+)\.(\d+)(?:~\d+)?$")
_STATUSES: tuple[CallStatus, ...] = ("gated", "sleeping", "waiting", "held")


@dataclass(frozen=True)
class RunSight:
    """A generation: the response that is under way, and the ids of its open calls, by turn and slot.

    Attributes:
        lacks_worker: nobody has taken the request up yet.
    """

    message: LiveMessage | None = None
    calls: Mapping[tuple[int, int], str] = field(default_factory=dict)
    lacks_worker: bool = False


@dataclass(frozen=True)
class CallSight:
    """A call that has begun.

    Attributes:
        streams: its code runs, and what it publishes is seen here alone.
        looks_below: something below it may ask a question.
        lacks_worker: nobody has taken its run up yet.
    """

    call: LiveCall
    question: Question | None
    streams: bool
    looks_below: bool
    lacks_worker: bool = False


async def describe(client: Client, workflow_id: str) -> WorkflowExecutionDescription | None:
    """The description, None of what is not there (yet)."""
    try:
        return await client.get_workflow_handle(workflow_id).describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise


async def see_run(client: Client, generation_id: str) -> RunSight:
    """The run as the server has it; nothing of one that has not begun."""
    found = await describe(client, generation_id)
    if found is None:
        return RunSight()
    children = found.raw_description.pending_children
    ids = [child.workflow_id for child in children if child.workflow_type_name == TOOL_CALL]
    request = _pending(found, MODEL_REQUEST)
    message = None
    if request is not None:
        message = LiveMessage(id=f"{found.run_id[-8:]}.{request.activity_id}", text=await _streamed(client, request))
    calls = {place: task_id for task_id in ids if (place := place_of(task_id)) is not None}
    return RunSight(message, calls, lacks_worker=_is_untaken(request))


async def see_call(client: Client, task_id: str, asked: LiveCall) -> CallSight:
    """The call `asked` as the server has it; `pending` when it has not begun."""
    found = await describe(client, task_id)
    if found is None:
        return CallSight(asked, None, streams=False, looks_below=False)
    run, note = _pending(found, TOOL_RUN), await parked_note(found)
    state = found.typed_search_attributes.get(attributes.STATE)
    is_open = found.status == WorkflowExecutionStatus.RUNNING
    parked: CallStatus | None = next((one for one in _STATUSES if one == state), None)
    status: CallStatus = (parked or "running") if is_open else "done"
    facts = {"task_id": task_id, "status": status, "since": found.start_time}
    seen = asked.model_copy(update={**facts, "label": asked.label or await found.static_summary() or ""})
    if run is not None:
        seen = seen.model_copy(update={"output": await _streamed(client, run)})
    is_asking = is_open and note is not None and bool(note.text)
    return CallSight(
        seen,
        question_of(task_id, path_of(task_id, {}), note) if note is not None and is_asking else None,
        streams=is_open and run is not None,
        looks_below=is_open and not is_asking and (run is None or bool(found.raw_description.pending_children)),
        lacks_worker=is_open and _is_untaken(run),
    )


def place_of(task_id: str) -> tuple[int, int] | None:
    """Turn and slot of a call of a response, by its id (spec §1.1)."""
    found = _PLACE.search(task_id)
    return (int(found[1]), int(found[2])) if found else None


def task_id_of(generation_id: str, turn: int, slot: int) -> str:
    """The id of a call that no other timeline has started before."""
    return f"{generation_id}/t{turn}.{slot}"


def _pending(description: WorkflowExecutionDescription, activity_type: str) -> PendingActivityInfo | None:
    pending = description.raw_description.pending_activities
    return next((activity for activity in pending if activity.activity_type.name == activity_type), None)


def _is_untaken(activity: PendingActivityInfo | None) -> bool:
    """Whether it waits for a worker; one whose worker was lost leaves no event either."""
    return activity is not None and activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED


async def _streamed(client: Client, activity: PendingActivityInfo) -> Streamed:
    """What an activity has published by heartbeat."""
    if not activity.HasField("heartbeat_details"):
        return Streamed()
    payloads = activity.heartbeat_details.payloads
    values: list[Progress] = await client.data_converter.decode(payloads, [Progress])
    return Streamed(text=values[0].text, offset=values[0].offset) if values else Streamed()
