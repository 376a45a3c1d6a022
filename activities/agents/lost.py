"""Telling who waits for a submission of a conversation that is over, and so settles nothing (spec §7.2, §17.15)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from tarry.asking import query
from tarry.client.signals import deliver
from tarry.core.settled import SUBMISSION_SETTLED, Settled
from tarry.core.subagents.carrying import LOOK_AFTER
from tarry.core.waiting import NOTIFIED

PATIENCE = timedelta(seconds=10)
_FIELDS = {"conversation_id", "request_id"}


class LostAgents:
    """Looks after one tree, when a run of it was stopped by none of ours."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=LOOK_AFTER)
    async def look_after(self, tree_id: str) -> int:
        """Tell the tree which of its agents' conversations are over; how many turns it was told of."""
        if await is_over(self._client, tree_id):
            return 0
        return await tell_of_conversations(self._client, self._client.get_workflow_handle(tree_id))


async def tell_of_conversations(client: Client, waiting: WorkflowHandle[Any, Any]) -> int:
    """Tell a task or a tree of the conversations that it waits for and that are over; how many submissions of these."""
    told = 0
    for key, submission in (await _notified(waiting)).items():
        if await is_over(client, submission["conversation_id"]):
            told += await _tell(client, waiting.id, key, submission)
    return told


async def is_over(client: Client, workflow_id: str) -> bool:
    """Whether nothing runs under that id."""
    try:
        described = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return True
        raise
    return described.status != WorkflowExecutionStatus.RUNNING


async def _notified(waiting: WorkflowHandle[Any, Any]) -> dict[str, dict[str, str]]:
    try:
        found = await query(waiting, NOTIFIED, dict[str, Any], within=PATIENCE)
    except (RPCError, WorkflowQueryFailedError):
        return {}
    # They are memos, and any shell can write one.
    return {key: told for key, told in found.items() if isinstance(told, dict) and told.keys() == _FIELDS}


async def _tell(client: Client, task_id: str, key: str, submission: dict[str, str]) -> int:
    lost = Settled(
        conversation_id=submission["conversation_id"],
        request_id=submission["request_id"],
        status="unanswered",
        reason="lost",
        detail="the conversation ended without settling it",
    )
    result = await deliver(client, task_id, SUBMISSION_SETTLED, key, lost)
    return int(result.answer in ("delivered", "accepted"))
