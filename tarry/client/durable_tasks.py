"""Starting a durable task from a program, and waiting for its outcome. The handle holds nothing but an id."""

from __future__ import annotations

import uuid
from typing import Any, Generic, TypeVar

from temporalio.client import Client, WorkflowFailureError
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from tarry import attributes
from tarry.client.errors import NoSuchTask, RequestConflict, reaching_server
from tarry.connect import sending_inline
from tarry.core.keeping import DIGEST_MEMO
from tarry.core.protocol import DURABLE_TASK, digest
from tarry.core.task_state import TaskInput, TaskOutcome
from tarry.core.text import canonical_json
from tarry.settings import Settings
from tarry.tasks import DurableTask, Outcome

In = TypeVar("In")
R = TypeVar("R")


class DurableTaskHandle(Generic[R]):
    """A task that was started. Signals reach it under its `id`."""

    def __init__(self, client: Client, task: DurableTask[Any, R], task_id: str) -> None:
        self.id = task_id
        self._client = client
        self._task = task

    async def outcome(self) -> Outcome[R]:
        """Wait for its end, for ever, through turns of its run and restarts of everything.

        Raises:
            NoSuchTask: there is no such task, or it was terminated.
            ServerUnavailable: no server answers.
        """
        handle = self._client.get_workflow_handle(self.id, result_type=TaskOutcome)
        async with reaching_server():
            try:
                ended = await handle.result()
            except WorkflowFailureError as error:
                raise NoSuchTask(f"task {self.id} left no outcome: {error.cause}") from error
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    raise NoSuchTask(f"there is no task {self.id}") from error
                raise
        return self._task.read_outcome(ended.status, ended.result, ended.error)


@reaching_server()
async def start_task(
    client: Client, settings: Settings, task: DurableTask[In, R], input: In, *, key: str | None = None
) -> DurableTaskHandle[R]:
    """Start a task, durably when it returns, also when no worker is up.

    The same `key` again gives the task that was started first, as long as Temporal retains it.

    Raises:
        RequestConflict: the key was used for another task or input.
        ValueError: the input does not fit; the key is empty, over 150 bytes, or holds `/`, `~` or control characters.
        ServerUnavailable: no server answers.
    """
    call = task.call(input)
    task_id = f"task-{_checked_key(key)}"
    content = digest(canonical_json([call.tool, call.arguments]))
    pairs = [(attributes.STATE, "running"), (attributes.CONVERSATION, task_id), (attributes.TOOL, task.name)]
    if task.worker:
        pairs.append((attributes.WORKER, task.worker))
    handle = DurableTaskHandle(client, task, task_id)
    try:
        # An input in a store that the workers do not share would wedge the task.
        await sending_inline(client).start_workflow(
            DURABLE_TASK,
            TaskInput(conversation_id="", call=call, settings=settings.run_settings()),
            id=task_id,
            task_queue=settings.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            search_attributes=TypedSearchAttributes([SearchAttributePair(key, value) for key, value in pairs]),
            memo={DIGEST_MEMO: content},
            static_summary=task.name,
        )
    except WorkflowAlreadyStartedError:
        description = await client.get_workflow_handle(task_id).describe()
        if await description.memo_value(DIGEST_MEMO, "") != content:
            raise RequestConflict(f"key {key!r} was used for another task or input") from None
    return handle


def _checked_key(key: str | None) -> str:
    if key is None:
        return uuid.uuid4().hex
    if not 0 < len(key.encode()) <= 150:
        raise ValueError("a task's key has 1 to 150 bytes")
    if any(c in "/~" or not c.isprintable() for c in key):
        raise ValueError(f"key {key!r} must not hold '/', '~' or control characters")
    return key
