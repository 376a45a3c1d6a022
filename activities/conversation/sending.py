"""`tarry.send`: one item of an outbox on its way. May run again: receivers know a repeat by its id."""

from __future__ import annotations

from functools import partial

from pydantic import ValidationError
from temporalio import activity
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from tarry import attributes
from tarry.client.signals import deliver
from tarry.connect import sending_inline
from tarry.core.commits import SEND, SendInput, SendSignal, StartTask, TellWorkflow
from tarry.core.keeping import DIGEST_MEMO
from tarry.core.protocol import DURABLE_TASK
from tarry.core.settled import SUBMISSION_SETTLED, Settled


class SendActivities:
    """Sends through the worker's own client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=SEND)
    async def send(self, input: SendInput) -> str:
        """What became of it, in a word. A task that is over or was never there is told of, and drops the item.

        So does what nobody will ever take, as a shell can write it: it would keep all that comes after it.
        """
        try:
            match input.item:
                case SendSignal():
                    return await self._deliver(input.item)
                case StartTask():
                    return await self._start(input.item)
                case TellWorkflow():
                    return await self._tell(input.item)
        except ValidationError as error:
            return f"dropped: {error}"
        except RPCError as error:
            if error.status != RPCStatusCode.INVALID_ARGUMENT:
                raise
            return f"dropped: {error.message}"

    async def _deliver(self, item: SendSignal) -> str:
        sent = item.delivery
        to = partial(deliver, self._client, item.task_id, delivery_id=sent.delivery_id)
        if sent.signal == SUBMISSION_SETTLED.name:
            return (await to(SUBMISSION_SETTLED, sent.key, Settled.model_validate(sent.value))).answer
        return (await to(sent.signal, sent.key, sent.value, version=sent.version)).answer

    async def _tell(self, item: TellWorkflow) -> str:
        try:
            await self._client.get_workflow_handle(item.workflow_id).signal(item.name, item.value)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return "over"
        return "told"

    async def _start(self, item: StartTask) -> str:
        call = item.input.call
        owner = item.input.conversation_id or item.task_id
        pairs = [(attributes.STATE, "running"), (attributes.CONVERSATION, owner), (attributes.TOOL, call.tool)]
        if call.worker:
            pairs.append((attributes.WORKER, call.worker))
        try:
            await sending_inline(self._client).start_workflow(
                DURABLE_TASK,
                item.input,
                id=item.task_id,
                task_queue=activity.info().task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                search_attributes=TypedSearchAttributes([SearchAttributePair(key, value) for key, value in pairs]),
                memo={DIGEST_MEMO: item.digest},
                static_summary=call.tool,
            )
        except WorkflowAlreadyStartedError:
            return "known"
        return "started"
