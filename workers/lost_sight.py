"""Keeping in sight what waiting tasks were promised: the end of a submission (spec §7.2), and of a task (spec §4.9).

A conversation or a task that is terminated settles nothing and tells nobody. So each worker looks once an hour after
tasks and trees of agents that wait for such an end, by the lists, and tells them where it has come. A wait costs no
timer for it. A tree whose root conversation is over is told to end, with all that is in it, and the agents of one that
was ended by force are ended (spec §17.15).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from activities.agents.lost import PATIENCE, is_over, tell_of_conversations
from tarry.asking import ask, query
from tarry.attributes import STATE, WAITING_FOR
from tarry.client.lists import listed_memo
from tarry.core.paths import root_of
from tarry.core.protocol import CONVERSATION, VIEW
from tarry.core.settled import SUBMISSION_SETTLED
from tarry.core.subagents.protocol import AGENT_ID, AGENTS, COLLECT, TREE_MEMO, tree_of
from tarry.core.views import ConversationView
from tarry.core.waiting import ENDED, TASK, EndNotice, TaskView

PERIOD = timedelta(hours=1)


async def look_every(client: Client, task_queue: str, period: timedelta = PERIOD) -> None:
    """Look at once, then once a `period`, for ever; a server that does not answer is asked again next time."""
    while True:
        try:
            await look(client, task_queue)
        # One that stops looking would be noticed by nobody.
        except Exception as error:
            logging.warning("could not look after tasks that wait for others: %s", error)
        await asyncio.sleep(period.total_seconds())


async def look(client: Client, task_queue: str) -> int:
    """Tell who waits of conversations and tasks that are over without telling it; how many were told."""
    told = 0
    async for task in _waiting(client, task_queue):
        told += await tell_of_conversations(client, task)
    async for found in client.list_workflows(f'WorkflowType = "{AGENTS}" AND {_open_on(task_queue)}'):
        told += await _tell_tree(client, client.get_workflow_handle(found.id))
    told += await _end_orphans(client, task_queue)
    wanted = f'{STATE.name} = "waiting" AND {_open_on(task_queue)}'
    async for found in client.list_workflows(wanted):
        told += await _tell_of_tasks(client, client.get_workflow_handle(found.id))
    return told


def _open_on(task_queue: str) -> str:
    return f'ExecutionStatus = "Running" AND TaskQueue = "{task_queue}"'


async def _tell_tree(client: Client, tree: WorkflowHandle[Any, Any]) -> int:
    """That its root is over; else which of its agents' conversations are."""
    if not await _is_orphan(client, tree.id):
        return await tell_of_conversations(client, tree)
    await tree.signal(COLLECT)
    return 1


async def _is_orphan(client: Client, tree_id: str) -> bool:
    """Whether the root conversation is over; also when another one has its id since."""
    root = root_of(tree_id)
    if await is_over(client, root):
        return True
    try:
        view = await ask(client, root, VIEW, ConversationView)
    except (RPCError, WorkflowQueryFailedError):
        return False
    return tree_of(f"{root}~{view.nonce}") != tree_id


async def _end_orphans(client: Client, task_queue: str) -> int:
    """Agents whose tree is over: nobody gives them work, or hears of what they end."""
    ended_trees: dict[str, bool] = {}
    ended = 0
    wanted = f'WorkflowType = "{CONVERSATION}" AND WorkflowId STARTS_WITH "{AGENT_ID}" AND {_open_on(task_queue)}'
    async for found in client.list_workflows(wanted):
        if not (tree_id := await listed_memo(found, TREE_MEMO, "", str)):
            continue
        if tree_id not in ended_trees:
            ended_trees[tree_id] = await is_over(client, tree_id)
        if ended_trees[tree_id]:
            # What it does is told to stop by that, and cleans up (spec §1.5).
            await _terminate(client, found.id)
            ended += 1
    return ended


async def _terminate(client: Client, workflow_id: str) -> None:
    try:
        await client.get_workflow_handle(workflow_id).terminate(reason="its tree of agents is over")
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise


async def _tell_of_tasks(client: Client, task: WorkflowHandle[Any, Any]) -> int:
    """A task tells before it completes; one that was ended by force could not. Who knows of an end takes no second."""
    try:
        view = await query(task, TASK, TaskView, within=PATIENCE)
    except (RPCError, WorkflowQueryFailedError):
        return 0
    told = 0
    for other in view.on:
        if await _was_ended(client, other):
            await task.signal(ENDED, EndNotice(task_id=other, failed=True))
            told += 1
    return told


async def _was_ended(client: Client, task_id: str) -> bool:
    try:
        found = await client.get_workflow_handle(task_id).describe()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return True
        raise
    return found.status not in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.COMPLETED)


async def _waiting(client: Client, task_queue: str) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    wanted = f'{STATE.name} = "sleeping" AND {_open_on(task_queue)}'
    prefix = f"{SUBMISSION_SETTLED.name}/"
    async for found in client.list_workflows(wanted):
        if any(item.startswith(prefix) for item in found.typed_search_attributes.get(WAITING_FOR) or ()):
            yield client.get_workflow_handle(found.id)
