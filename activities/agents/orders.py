"""`tarry.agents.carry-out`: what a tree of agents orders (spec §17.14). May run again: each order is idempotent."""

from __future__ import annotations

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from activities.agents.turns import AgentTurns
from activities.heartbeat import Heartbeat
from tarry.client import tasks
from tarry.client.errors import NoSuchTask
from tarry.client.signals import deliver
from tarry.core.protocol import ABORT, Progress, ToolOutcome
from tarry.core.subagents.carrying import CARRY_OUT, CarryOut
from tarry.core.subagents.orders import (
    AbortConversation,
    Aborted,
    BeginTurn,
    FetchTurn,
    Grant,
    LookAtCall,
    Looked,
    Outcome,
    TellCall,
    TellRoot,
)
from tarry.core.subagents.protocol import AGENT_UPDATE, AGENTS, GRANTED, AgentUpdate
from tarry.entries import EntryReader
from tarry.settings import Settings
from tarry.store import BlobStore

_DEAF = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)
"""What the server says of a workflow that is over, or that has taken all the signals that it may."""


class AgentActivities:
    """Carries out orders through the worker's own client."""

    def __init__(self, client: Client, settings: Settings, blobs: BlobStore, reader: EntryReader) -> None:
        self._client = client
        self._turns = AgentTurns(client, settings, blobs, reader)

    @activity.defn(name=CARRY_OUT)
    async def carry_out(self, input: CarryOut) -> Outcome:
        """What the order is answered with; an exception lets it be tried again."""
        async with Heartbeat(Progress):
            order = input.order
            match order:
                case BeginTurn():
                    return await self._turns.begin(input.tree_id, order)
                case FetchTurn():
                    return await self._turns.fetch(order)
                case AbortConversation():
                    return Aborted(is_gone=not await self._abort(order.agent_id))
                case LookAtCall():
                    return await self._look_at(order.task_id)
                case TellCall():
                    update = AgentUpdate(number=order.number)
                    name = f"{input.tree_id}/{order.number}"
                    await deliver(self._client, order.task_id, AGENT_UPDATE, order.key, update, delivery_id=name)
                case Grant():
                    await self._signal(order.notice.generation_id, GRANTED, order.notice)
                case TellRoot():
                    await self._signal(order.conversation_id, AGENTS, order.tree_id)
            return None

    async def _signal(self, workflow_id: str, name: str, input: object) -> bool:
        """Leave a signal with the server; False: nobody takes it any more."""
        try:
            await self._client.get_workflow_handle(workflow_id).signal(name, input, rpc_timeout=tasks.RPC_TIMEOUT)
        except RPCError as error:
            if error.status not in _DEAF:
                raise
            return False
        return True

    async def _abort(self, conversation_id: str) -> bool:
        """Stop what it does; False: it is over. Temporal's cancel means the same as the signal, and has no limit."""
        if await self._signal(conversation_id, ABORT, None):
            return True
        try:
            found = await tasks.describe(self._client, conversation_id)
        except NoSuchTask:
            return False
        if found.status != WorkflowExecutionStatus.RUNNING:
            return False
        await self._client.get_workflow_handle(conversation_id).cancel(rpc_timeout=tasks.RPC_TIMEOUT)
        return True

    async def _look_at(self, task_id: str) -> Looked:
        try:
            found = await tasks.describe(self._client, task_id)
        except NoSuchTask:
            return Looked(state="over")
        if found.status == WorkflowExecutionStatus.RUNNING:
            return Looked(state="open")
        if found.status != WorkflowExecutionStatus.COMPLETED:
            return Looked(state="over")
        return Looked(state="read" if await self._has_result(task_id) else "over")

    async def _has_result(self, task_id: str) -> bool:
        """Whether the call was answered by its own code, so that what it read is what its model reads."""
        handle = self._client.get_workflow_handle(task_id, result_type=ToolOutcome)
        try:
            outcome: ToolOutcome = await handle.result()
        except WorkflowFailureError:
            return False
        return not outcome.is_error and not outcome.code
