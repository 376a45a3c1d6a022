"""What a run asks of the workflow that scheduled it: updates and queries, and what their refusals mean.

Addressed to that very run of the workflow: what a reset cut off reaches no later one (spec §4.6).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import activity
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import QueryRejectCondition
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from tenacity import retry, retry_if_exception_type, wait_exponential

from signals.box import KeyState
from signals.tokens import SignalKey
from tarry.api import StaleRun, TaskFull
from tarry.asking import query
from tarry.core.protocol import (
    CONFLICT,
    DUPLICATE,
    IS_CURRENT,
    STALE,
    TASK_FULL,
    AnnounceInput,
    MemoInput,
    ModelRequestInput,
    ToolRunInput,
)
from tarry.core.waiting import CHILD_END, SIGNAL_STATE, ChildEnd, CreateChild

T = TypeVar("T")

_ONE_TRY = timedelta(seconds=3)

OwnInput = MemoInput | AnnounceInput | CreateChild
"""What a run may ask of its own workflow."""

GIVEN_UP = "this run of the tool has ended or was given up"

_UNANSWERED = "AcceptedUpdateCompletedWorkflow"
"""The server's word for a workflow that ended with our update accepted and unanswered."""


async def key_state(call: WorkflowHandle[Any, Any], key: SignalKey) -> KeyState:
    """What a key of the call holds; asked until somebody answers."""
    return await _ask(call, SIGNAL_STATE, KeyState, key)


async def child_end(call: WorkflowHandle[Any, Any], task_id: str) -> ChildEnd:
    """What the call knows of a child; asked until somebody answers."""
    return await _ask(call, CHILD_END, ChildEnd, task_id)


async def check_current(call: WorkflowHandle[Any, Any], run: AnnounceInput) -> None:
    """Ask the call whether this run may still act, before it acts on others; until somebody answers.

    Raises:
        StaleRun: a later one has announced itself, or the call is over.
    """
    try:
        is_current = await _ask(call, IS_CURRENT, bool, run, reject=QueryRejectCondition.NOT_OPEN)
    except WorkflowQueryRejectedError as error:
        raise StaleRun(GIVEN_UP) from error
    except WorkflowQueryFailedError:  # it is served by a worker of an earlier deploy, which does not know the question
        return
    if not is_current:
        raise StaleRun(GIVEN_UP)


# Without an end: a tool that failed because nobody answered would lose what it was woken for. Its own end, a Stop or
# its timeout, cancels the question.
@retry(retry=retry_if_exception_type(RPCError), wait=wait_exponential(multiplier=0.1, max=2))
async def _ask(
    call: WorkflowHandle[Any, Any],
    name: str,
    as_type: type[T],
    argument: Any,
    reject: QueryRejectCondition | None = None,
) -> T:
    try:
        return await query(call, name, as_type, argument, within=_ONE_TRY, reject=reject)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise StaleRun(GIVEN_UP) from error
        raise


def call_of(client: Client, input: ToolRunInput) -> WorkflowHandle[Any, Any]:
    """The workflow that scheduled this activity, in that run: what a reset cut off reaches no later one."""
    return client.get_workflow_handle(input.task_id, run_id=activity.info().workflow_run_id)


def is_after_reset(input: ToolRunInput | ModelRequestInput) -> bool:
    """Whether a reset of the call, or run, scheduled this: what it did before, its history no longer tells."""
    return input.first_run_id not in ("", activity.info().workflow_run_id)


def start_update(call: WorkflowHandle[Any, Any], update: str, input: OwnInput, request: str) -> asyncio.Task[Any]:
    """Send an update to the call's own workflow; the same `request` again gives the first answer.

    A task of its own, since the SDK answers a cancellation with an error of another kind. It raises
    `StaleRun` when the workflow has given this run up or has ended, `TaskFull` when it has no room.
    """
    task = asyncio.create_task(_update(call, update, input, request))
    task.add_done_callback(take_error)
    return task


async def _update(call: WorkflowHandle[Any, Any], update: str, input: OwnInput, request: str) -> Any:
    try:
        return await call.execute_update(update, input, id=request)
    except WorkflowUpdateFailedError as error:
        return _answer_of(error)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise StaleRun(GIVEN_UP) from error
        raise


def _answer_of(error: WorkflowUpdateFailedError) -> Any:
    """What the call's refusal means for the tool: a key that holds a value gives that value."""
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        raise error
    if cause.type == DUPLICATE:
        return cause.details[0]
    if cause.type == TASK_FULL:
        raise TaskFull(cause.message) from error
    if cause.type == CONFLICT:
        raise ValueError(cause.message) from error
    if cause.type in (STALE, _UNANSWERED):
        raise StaleRun(GIVEN_UP) from error
    raise error


def take_error(update: asyncio.Future[Any]) -> None:
    """For `add_done_callback`: read the error of work that may be given up."""
    # Nobody awaits an update that was given up; unread, its error would be logged as a bug.
    if not update.cancelled():
        update.exception()
