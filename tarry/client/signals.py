"""Delivering values to tasks, from a host or from another task.

Two roads, one rule (spec §3.3, §3.4): the update brings the answer; where nobody answers in time the plain Temporal
signal is left with the server under the same delivery id, so that whichever of the two arrives second changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from datetime import timedelta
from typing import Any

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from signals.box import MAX_DELIVERY_ID, Delivery, Receipt
from signals.data import clean
from signals.tokens import MAX_REASON, RESERVED, Signal, SignalKey, Unreadable, value_problem
from tarry.client.errors import NoSuchTask, reaching_server
from tarry.client.tasks import RPC_TIMEOUT, describe_task, receipts_of
from tarry.connect import sending_inline
from tarry.core.protocol import digest
from tarry.core.text import canonical_json
from tarry.core.waiting import CROWDED, DELIVER, REFUSED, SendAnswer, SignalResult

ANSWER_PATIENCE = timedelta(seconds=1.5)
"""How long an answer is waited for before the value is left with the server (spec §3.4)."""

MAX_ID_BYTES = 1_000
"""Of a workflow id; the server takes none that is longer."""
MAX_VERSION = 2**31 - 1

_OTHER_ROAD = frozenset(
    {
        RPCStatusCode.NOT_FOUND,  # said of what is over, of what never was, and between two runs
        RPCStatusCode.INVALID_ARGUMENT,
        RPCStatusCode.FAILED_PRECONDITION,  # its workflow task fails, or its run has taken all updates that it may
        RPCStatusCode.RESOURCE_EXHAUSTED,
    }
)
"""The server took no update. The plain signal still gets through, or says why not."""

_UNANSWERED = "AcceptedUpdateCompletedWorkflow"
"""The server's word for an update whose workflow ended over it."""
_TOO_MANY_SIGNALS = "exceeded workflow execution limit for signal events"


class _Answered(Exception):
    """The answer is known; nothing more is to be sent."""

    def __init__(self, answer: SendAnswer, reason: str = "") -> None:
        super().__init__(answer)
        self.answer: SendAnswer = answer
        self.reason = clean(reason, MAX_REASON)


@reaching_server()
async def deliver(
    client: Client,
    task_id: str,
    token: Signal[Any] | str,
    key: str,
    value: Any,
    *,
    version: int | None = None,
    delivery_id: str | None = None,
) -> SignalResult:
    """Deliver `value` under `key` and say what became of it; never raises for what the task answers (spec §3.2).

    `accepted`: no worker answered within 1.5 s, and the server keeps the value; its receipt tells later. The same
    delivery id for the same key gives the same answer by either road. What cannot cross Temporal is `invalid` and is
    not sent; when a run has taken all the signals that Temporal allows, that is `invalid` too, with a reason that
    begins with `task_full`.

    Args:
        token: a token, whose current version the value must fit; or a signal's name, and the value is JSON data.
        version: of a value sent by name; by default the task's current one. A token sends its own.
        delivery_id: up to 200 characters; drawn by default.

    Raises:
        ServerUnavailable: no server answers. The value may have come: deliver it again under the same id.
    """
    delivery_id = delivery_id or uuid.uuid4().hex
    reason = ""
    try:
        answer = await _send(client, task_id, _delivery(token, key, value, version, delivery_id))
    except _Answered as known:
        answer, reason = known.answer, known.reason
    return SignalResult(answer=answer, reason=reason, delivery_id=delivery_id)


def _delivery(token: Signal[Any] | str, key: str, value: Any, version: int | None, delivery_id: str) -> Delivery:
    """What to send, checked first: some of what Temporal cannot carry would wedge the task."""
    if isinstance(token, Signal):
        name, version = token.name, token.version
        try:
            value = token.dump(value)
        except Unreadable as error:
            raise _Answered("invalid", str(error)) from None
    else:
        name = token
    problem = SignalKey(name, key).problem or _problem(name, version, delivery_id) or value_problem(value)
    if problem is not None:
        raise _Answered("invalid", problem)
    return Delivery(signal=name, key=key, value=value, version=version, delivery_id=delivery_id)


def _problem(name: str, version: object, delivery_id: str) -> str | None:
    # As a plain signal such a name would stop the task, or let held work run.
    if name.startswith(RESERVED):
        return f"names that begin with {RESERVED!r} are no signals of an application"
    if version is not None and (type(version) is not int or not 0 < version <= MAX_VERSION):
        return f"a version is a whole number from 1, not {version!r}"
    if len(delivery_id) > MAX_DELIVERY_ID or not _is_unicode(delivery_id):
        return f"a delivery id is a text of at most {MAX_DELIVERY_ID} characters"
    return None


def _is_unicode(text: str) -> bool:
    return clean(text, len(text)) == text


async def _send(client: Client, task_id: str, delivery: Delivery) -> SendAnswer:
    """The answer of a task that took it.

    Raises:
        _Answered: any other answer.
    """
    if not 0 < len(task_id.encode("utf-8", "replace")) <= MAX_ID_BYTES or not _is_unicode(task_id):
        raise _Answered("not_found", "no task has such an id")
    try:
        return (await _update(client, task_id, delivery)).answer
    except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
        _pass_cancellation()
    except WorkflowUpdateFailedError as error:
        await _told(client, task_id, delivery, error)
    except RPCError as error:
        if error.status not in _OTHER_ROAD:
            raise
    await _leave(client, task_id, delivery)
    return "accepted"


async def _update(client: Client, task_id: str, delivery: Delivery) -> Receipt:
    # A value in a store that the workers do not share would wedge the task.
    handle = sending_inline(client).get_workflow_handle(task_id)
    # The SDK's timeout bounds each request; once the update is admitted it would go on asking for ever.
    async with asyncio.timeout(ANSWER_PATIENCE.total_seconds()):
        receipt: Receipt = await handle.execute_update(
            DELIVER, delivery, id=_update_id(delivery), result_type=Receipt, rpc_timeout=ANSWER_PATIENCE
        )
    return receipt


def _update_id(delivery: Delivery) -> str:
    """Made of the key too: a repeated id is given its first answer unread, and one event may be for several keys."""
    return digest(canonical_json([delivery.delivery_id, delivery.signal, delivery.key]))


def _pass_cancellation() -> None:
    """The SDK tells a cancellation of ours as if it were a timeout."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _told(client: Client, task_id: str, delivery: Delivery, error: WorkflowUpdateFailedError) -> None:
    """Return when the plain signal is to be tried.

    Raises:
        _Answered: the update's failure says, or leads to, what became of it.
    """
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        raise error
    if cause.type == REFUSED:
        receipt = Receipt.model_validate(cause.details[0])
        raise _Answered(receipt.answer, receipt.reason)
    if cause.type == _UNANSWERED:
        await _ask_receipt(client, task_id, delivery)
    elif cause.type != CROWDED:
        # A workflow without such an update, which is no task; else it is a bug.
        await _require_open(client, task_id)
        raise error


async def _ask_receipt(client: Client, task_id: str, delivery: Delivery) -> None:
    with contextlib.suppress(RPCError, NoSuchTask):
        for receipt in await receipts_of(client, task_id):
            if receipt.delivery_id == delivery.delivery_id and receipt.key == delivery.key:
                raise _Answered(receipt.answer, receipt.reason)


async def _leave(client: Client, task_id: str, delivery: Delivery) -> None:
    """Leave it with the server, which needs no worker for that."""
    await _require_open(client, task_id)
    envelope = {"key": delivery.key, "value": delivery.value, "delivery_id": delivery.delivery_id}
    if delivery.version is not None:
        envelope["version"] = delivery.version
    handle = sending_inline(client).get_workflow_handle(task_id)
    try:
        await handle.signal(delivery.signal, envelope, rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            await _require_open(client, task_id)
        if _TOO_MANY_SIGNALS in error.message:
            raise _Answered("invalid", f"task_full: {error.message}") from None
        raise


async def _require_open(client: Client, task_id: str) -> None:
    """A server that does not find a task says the same of one that is over as of one that never was."""
    try:
        found = await describe_task(client, task_id)
    except NoSuchTask as error:
        raise _Answered("not_found", str(error)) from None
    if found.status != WorkflowExecutionStatus.RUNNING:
        raise _Answered("closed", "the task is over")
