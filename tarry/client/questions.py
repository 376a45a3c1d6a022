"""Open questions, wherever in a tree they were asked, and who asks: by lists alone, with no worker up (spec §9.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field

from temporalio.client import Client, WorkflowExecutionStatus

from tarry import attributes
from tarry.client.errors import reaching_server
from tarry.client.lists import listed_memo, literal
from tarry.client.tasks import describe_task
from tarry.client.work import parked_note
from tarry.core.live import Question
from tarry.core.paths import path_of, root_of
from tarry.core.protocol import CONVERSATION, OWNER_MEMO
from tarry.core.subagents.protocol import PATH_MEMO
from tarry.core.waiting import ParkedNote

_OPEN = 'ExecutionStatus = "Running"'
_BATCH = 50
"""Ids in one query."""


@reaching_server()
async def open_questions(client: Client, conversation_id: str | None = None) -> list[Question]:
    """Those that wait longest first; of one conversation and all below it when its id is given.

    Raises:
        ServerUnavailable: no server answers.
    """
    asked = {task_id: note async for task_id, note in _parked(client) if note.text}
    found = await _placed(client, asked)
    wanted = [question for question in found if conversation_id is None or conversation_id in question.path]
    return sorted(wanted, key=lambda question: question.since)


@reaching_server()
async def parked_work(client: Client, task_queue: str, limit: int) -> list[Question]:
    """Of one queue at most `limit` of those that wait for signals or for a time; without a text what asks nobody.

    Raises:
        ServerUnavailable: no server answers.
    """
    ours = f" AND TaskQueue = {literal(task_queue)}"
    return await _placed(client, {task_id: note async for task_id, note in _parked(client, ours, limit)})


@reaching_server()
async def question_at(client: Client, task_id: str, task_queue: str | None = None) -> Question | None:
    """What a task waits for at this moment, as the server has it; None of one that does not, or is over.

    Raises:
        NoSuchTask: no task has that id, or none on the queue that is named.
        ServerUnavailable: no server answers.
    """
    found = await describe_task(client, task_id, task_queue)
    note = await parked_note(found) if found.status == WorkflowExecutionStatus.RUNNING else None
    if note is None:
        return None
    [question] = await _placed(client, {task_id: note})
    return question


async def find_paths(client: Client, task_ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The path to each task."""
    wanted = list(task_ids)
    owned = await _find_owned(client, {root_of(task_id) for task_id in wanted})
    return {task_id: path_of(task_id, owned.owners) for task_id in wanted}


async def _parked(client: Client, which: str = "", limit: int | None = None) -> AsyncIterator[tuple[str, ParkedNote]]:
    query = f"{attributes.STATE.name} IN ('sleeping', 'gated') AND {_OPEN}{which}"
    async for execution in client.list_workflows(query, limit=limit):
        if (note := await parked_note(execution)) is not None:
            yield execution.id, note


async def _placed(client: Client, notes: Mapping[str, ParkedNote]) -> list[Question]:
    """The notes with who asks."""
    owned = await _find_owned(client, {root_of(task_id) for task_id in notes})
    paths = {task_id: path_of(task_id, owned.owners) for task_id in notes}
    return [
        question_of(task_id, paths[task_id], note).model_copy(update={"agent": owned.agent_in(paths[task_id])})
        for task_id, note in notes.items()
    ]


@dataclass(frozen=True)
class _Owned:
    """Conversations that belong to tasks. `agents`: those of subagents, and their paths in their tree."""

    owners: dict[str, str] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)

    def agent_in(self, path: tuple[str, ...]) -> str:
        """The subagent that is the nearest above the end of a path of ids."""
        return next((self.agents[step] for step in reversed(path) if step in self.agents), "")


async def _find_owned(client: Client, conversations: set[str]) -> _Owned:
    """These conversations, those in which their owners were made, and so on up to the roots."""
    found = _Owned()
    seen: set[str] = set()
    while new := sorted(conversations - seen):
        seen |= conversations
        for start in range(0, len(new), _BATCH):
            ids = ", ".join(literal(conversation) for conversation in new[start : start + _BATCH])
            query = f'WorkflowType = "{CONVERSATION}" AND WorkflowId IN ({ids}) AND {_OPEN}'
            async for execution in client.list_workflows(query):
                if owner := await listed_memo(execution, OWNER_MEMO, "", str):
                    found.owners[execution.id] = owner
                if path := await listed_memo(execution, PATH_MEMO, "", str):
                    found.agents[execution.id] = path
        conversations = {root_of(owner) for owner in found.owners.values()}
    return found


def question_of(task_id: str, path: tuple[str, ...], note: ParkedNote) -> Question:
    """The question in a note."""
    return Question(
        task_id=task_id,
        path=path,
        tool=note.tool,
        question=note.text,
        for_whom=note.for_whom,
        keys=note.keys,
        since=note.since,
        until=note.until,
        digest=note.digest,
        arguments=note.arguments,
    )
