"""One workflow of ours as Temporal's lists show it: no worker needs to be up (spec §9.2)."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field
from temporalio.client import WorkflowExecution

from tarry import attributes
from tarry.client.lists import listed_memo
from tarry.codec import UnreadablePayload
from tarry.core.lineage import PARENT_MEMO, Parent
from tarry.core.messages import Frozen
from tarry.core.protocol import CONVERSATION, DURABLE_TASK, GENERATION, TOOL_CALL
from tarry.core.routing import queue_of
from tarry.core.subagents.protocol import PATH_MEMO
from tarry.core.waiting import PARKED_MEMO, ParkedNote

_KINDS = {
    CONVERSATION: "conversation",
    GENERATION: "generation",
    TOOL_CALL: "tool call",
    DURABLE_TASK: "durable task",
}
_NOT_PARKED = frozenset({"", "running", "held"})


class WorkItem(Frozen):
    """A workflow of ours that is not over, and what it waits for when it is parked."""

    id: str
    kind: str
    conversation_id: str
    state: str
    tool: str
    since: datetime
    waiting_for: tuple[str, ...] = Field(
        default=(), description="`signal/key` of at most eight keys: a long key as `#hash`, further ones as `+N`"
    )
    until: datetime | None = Field(default=None, description="the deadline of the wait")
    question: str = ""
    path: tuple[str, ...] = Field(
        default=(), description="of a question in a list: the ids from the root conversation down to who asks"
    )
    parent: Parent | None = Field(default=None, description="of a conversation that is a fork")
    agent: str = Field(default="", description="of a conversation that is a subagent's: its path, from `/root` down")
    worker: str = Field(default="", description="that runs its code; empty: the default one")
    queue: str = Field(default="", description="the task queue of its code")
    unserved: bool = Field(default=False, description="no worker of that name is there, as far as somebody looked")


async def work_item(execution: WorkflowExecution) -> WorkItem:
    """What a list, or a description, says of a workflow."""
    found = execution.typed_search_attributes
    note = await parked_note(execution)
    worker = found.get(attributes.WORKER) or ""
    return WorkItem(
        id=execution.id,
        kind=kind_of(execution),
        conversation_id=found.get(attributes.CONVERSATION) or "",
        state=found.get(attributes.STATE) or "",
        tool=found.get(attributes.TOOL) or "",
        since=execution.start_time,
        waiting_for=tuple(found.get(attributes.WAITING_FOR) or ()),
        until=found.get(attributes.DEADLINE),
        question=note.text if note else "",
        parent=await parent_of(execution),
        agent=await listed_memo(execution, PATH_MEMO, "", str),
        worker=worker,
        queue=queue_of(execution.task_queue, worker),
    )


def kind_of(execution: WorkflowExecution) -> str:
    """What people call a workflow of this type."""
    return _KINDS.get(execution.workflow_type, execution.workflow_type)


async def parent_of(execution: WorkflowExecution) -> Parent | None:
    """Whose entries a fork begins with, None of what is no fork."""
    parent: Parent | None = await listed_memo(execution, PARENT_MEMO, None, Parent)
    return parent


async def parked_note(execution: WorkflowExecution) -> ParkedNote | None:
    """What a parked task says of itself, None of one that is not parked: the memo outlives the park."""
    if (execution.typed_search_attributes.get(attributes.STATE) or "") in _NOT_PARKED:
        return None
    try:
        note: ParkedNote | None = await execution.memo_value(PARKED_MEMO, default=None, type_hint=ParkedNote)
    except UnreadablePayload as error:
        # One that this process cannot read must not hide all others; without keys nobody answers it by mistake.
        tool = execution.typed_search_attributes.get(attributes.TOOL) or ""
        return ParkedNote(since=execution.start_time, text=f"[not readable: {error}]", tool=tool)
    return note
