"""Delivering values to tasks, from a host or from another task.

Two roads, one rule (spec §3.3, §3.4): the update brings the answer; where nobody answers in time the plain Temporal
signal is left with the server under the same delivery id, so that whichever of the two arrives second changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from signals.box import MAX_DELIVERY_ID, Delivery, Receipt
from signals.data import clean
from signals.schema import MAX_REASON, RESERVED, Unreadable
from signals.tokens import Signal, SignalKey, value_problem
from tarry.client.errors import TOO_MANY_SIGNALS, NoSuchTask, is_crowded, reaching_server
from tarry.client.tasks import RPC_TIMEOUT, describe_task, receipts_of
from tarry.connect import sending_inline
from tarry.core.people import delivery_of
from tarry.core.protocol import digest
from tarry.core.text import canonical_json
from tarry.core.waiting import DELIVER, REFUSED, SendAnswer, SignalResult

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
    by: str = "",
) -> SignalResult:
    """Deliver `value` under `key` and say what became of it; never raises for what the task answers (spec §3.2).

    `accepted`: no worker answered within 1.5 s, and the server keeps the value; its receipt tells later. The same
    delivery id for the same key gives the same answer by either road. What cannot cross Temporal is `invalid` and is
    not sent; when a run has taken all the signals that Temporal allows, that is `invalid` too, with a reason that
    begins with `task_full`. To a task that is over, a repeat is `closed` when no worker is up to tell its first answer.

    Args:
        token: a token, whose current version the value must fit; or a signal's name, and the value is JSON data.
        version: of a value sent by name; by default the task's current one. A token sends its own.
        delivery_id: up to 200 characters; drawn by default.
        by: the person who sends it. Then the delivery's id is another one, which the answer holds (spec §23.4).

    Raises:
        ServerUnavailable: no server answers. The value may have come: deliver it again under the same id.
        ValueError: nobody can be called that.
    """
    named = delivery_id or uuid.uuid4().hex
    if by:
        named = delivery_of(by, named)
    reason = ""
    try:
        delivery = _delivery(token, key, value, version, named)
        answer = await _Sending(client, task_id, delivery, is_repeatable=bool(delivery_id)).send()
    except _Answered as known:
        answer, reason = known.answer, known.reason
    return SignalResult(answer=answer, reason=reason, delivery_id=named)


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
        # As a plain signal such a name would stop the task, or let held work run.
        if name.startswith(RESERVED):
            raise _Answered("invalid", f"names that begin with {RESERVED!r} are no signals of an application")
    problem = SignalKey(name, key).problem or _problem(version, delivery_id) or value_problem(value)
    if problem is not None:
        raise _Answered("invalid", problem)
    return Delivery(signal=name, key=key, value=value, version=version, delivery_id=delivery_id)


def _problem(version: object, delivery_id: str) -> str | None:
    if version is not None and (type(version) is not int or not 0 < version <= MAX_VERSION):
        return f"a version is a whole number from 1, not {version!r}"
    if len(delivery_id) > MAX_DELIVERY_ID or not _is_unicode(delivery_id):
        return f"a delivery id is a text of at most {MAX_DELIVERY_ID} characters"
    return None


def _is_unicode(text: str) -> bool:
    return clean(text, len(text)) == text


@dataclass(frozen=True)
class _Sending:
    """One delivery on its way to one task. `is_repeatable`: its id is the caller's, who may have used it before."""

    client: Client
    task_id: str
    delivery: Delivery
    is_repeatable: bool

    async def send(self) -> SendAnswer:
        """The answer of a task that took it.

        Raises:
            _Answered: any other answer.
        """
        if not 0 < len(self.task_id.encode("utf-8", "replace")) <= MAX_ID_BYTES or not _is_unicode(self.task_id):
            raise _Answered("not_found", "no task has such an id")
        try:
            return (await self._update()).answer
        except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
            _pass_cancellation()
        except WorkflowUpdateFailedError as error:
            await self._explain(error)
        except RPCError as error:
            if error.status not in _OTHER_ROAD:
                raise
        await self._leave()
        return "accepted"

    async def _update(self) -> Receipt:
        # The SDK's timeout bounds each request; once the update is admitted it would go on asking for ever.
        async with asyncio.timeout(ANSWER_PATIENCE.total_seconds()):
            receipt: Receipt = await self._handle().execute_update(
                DELIVER, self.delivery, id=_update_id(self.delivery), result_type=Receipt, rpc_timeout=ANSWER_PATIENCE
            )
        return receipt

    async def _explain(self, error: WorkflowUpdateFailedError) -> None:
        """Return when the plain signal is to be tried.

        Raises:
            _Answered: the failure says, or leads to, what became of it.
        """
        cause = error.cause
        if not isinstance(cause, ApplicationError):
            raise error
        if cause.type == REFUSED:
            receipt = Receipt.model_validate(cause.details[0])
            raise _Answered(receipt.answer, receipt.reason)
        if cause.type == _UNANSWERED:
            await self._look_for_receipt()
        elif not is_crowded(error):
            # Either a workflow without such an update, which is no task; or a bug.
            await self._require_open()
            raise error

    async def _leave(self) -> None:
        """Leave it with the server, which needs no worker for that."""
        await self._require_open()
        envelope = self.delivery.model_dump(include={"key", "value", "delivery_id"})
        if self.delivery.version is not None:
            envelope["version"] = self.delivery.version
        try:
            await self._handle().signal(self.delivery.signal, envelope, rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                await self._require_open()
            if TOO_MANY_SIGNALS in error.message:
                raise _Answered("invalid", f"task_full: {error.message}") from None
            raise

    async def _require_open(self) -> None:
        """The server says the same of a task that is over as of one that never was."""
        try:
            found = await describe_task(self.client, self.task_id)
        except NoSuchTask as error:
            raise _Answered("not_found", str(error)) from None
        if found.status != WorkflowExecutionStatus.RUNNING:
            if self.is_repeatable:
                await self._look_for_receipt()
            raise _Answered("closed", "the task is over")

    async def _look_for_receipt(self) -> None:
        """The answer that the delivery was given before, if a worker is up to tell it."""
        with contextlib.suppress(RPCError, NoSuchTask):
            for receipt in await receipts_of(self.client, self.task_id, patience=timedelta(0)):
                if (receipt.delivery_id, receipt.key) == (self.delivery.delivery_id, self.delivery.key):
                    raise _Answered(receipt.answer, receipt.reason)

    def _handle(self) -> WorkflowHandle[Any, Any]:
        # A value in a store that the workers do not share would wedge the task.
        return sending_inline(self.client).get_workflow_handle(self.task_id)


def _update_id(delivery: Delivery) -> str:
    """Made of the key too: a repeated id is given its first answer unread, and one event may be for several keys."""
    return digest(canonical_json([delivery.delivery_id, delivery.signal, delivery.key]))


def _pass_cancellation() -> None:
    """The SDK tells a cancellation of ours as if it were a timeout."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
