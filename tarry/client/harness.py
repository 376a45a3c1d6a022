"""The harness: one connection to Temporal, and the agents behind it."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError, RPCStatusCode

from tarry import attributes
from tarry.client.conversation import UPDATE_TIMEOUT, Conversation
from tarry.client.errors import NoSuchConversation, NotHeld, reaching_server, translate
from tarry.connect import connect
from tarry.core.messages import Frozen
from tarry.core.protocol import CONVERSATION, GENERATION, RETRY, TOOL_CALL
from tarry.entries import EntryCache, EntryReader
from tarry.settings import Settings, load_settings
from tarry.store import BlobStore

_KINDS = {CONVERSATION: "conversation", GENERATION: "generation", TOOL_CALL: "tool call"}
CACHE_BYTES = 16 * 1024 * 1024


class WorkItem(Frozen):
    """A running workflow of ours, read from Temporal's lists alone: no worker needs to be up."""

    id: str
    kind: str
    conversation_id: str
    state: str
    tool: str
    since: datetime


class Harness:
    """Submit, wait, read and retry. Cheap to make; share one in a process."""

    def __init__(self, client: Client, settings: Settings | None = None) -> None:
        self.client = client
        self.settings = settings or load_settings()
        self._reader = EntryReader(client, BlobStore(client.data_converter), EntryCache(CACHE_BYTES))

    @classmethod
    async def connect(cls, settings: Settings | None = None, *, wait: timedelta = timedelta(0)) -> Harness:
        """Connect as the environment says; see `tarry.connect.connect` for `wait` and the errors."""
        settings = settings or load_settings()
        return cls(await connect(settings, wait=wait), settings)

    def conversation(self, conversation_id: str | None = None) -> Conversation:
        """A handle; the conversation itself comes to exist with its first input. Without an id, a new one.

        Raises:
            ValueError: the id is empty, longer than 200 bytes, or holds `/`, `~` or a control character.
        """
        return Conversation(self.client, self.settings, self._reader, _checked_id(conversation_id))

    async def work(self, *, held_only: bool = False) -> AsyncIterator[WorkItem]:
        """Everything that is not over, newest first.

        Raises:
            ServerUnavailable: no server answers.
        """
        query = f'{attributes.CONVERSATION.name} IS NOT NULL AND ExecutionStatus = "Running"'
        if held_only:
            query += f' AND {attributes.STATE.name} = "held"'
        async with reaching_server():
            async for execution in self.client.list_workflows(query):
                yield _work_item(execution)

    @reaching_server()
    async def retry(self, task_id: str) -> bool:
        """Let held work run again. True when it took it, False when only the server did, no worker being up.

        Raises:
            NotHeld: it is not held.
            NoSuchConversation: there is no running workflow with that id.
            ServerUnavailable: no server answers.
        """
        handle = self.client.get_workflow_handle(task_id)
        try:
            if (await handle.describe()).status != WorkflowExecutionStatus.RUNNING:
                raise NoSuchConversation(f"{task_id} is over")
            await handle.execute_update(RETRY, rpc_timeout=UPDATE_TIMEOUT)
        except WorkflowUpdateFailedError as error:
            raise translate(error.cause) or NotHeld(f"{task_id} is nothing that can be held") from error
        except WorkflowUpdateRPCTimeoutOrCancelledError:
            await handle.signal(RETRY)
            return False
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NoSuchConversation(f"there is no running {task_id}") from error
            raise
        return True


def _work_item(execution: WorkflowExecution) -> WorkItem:
    found = execution.typed_search_attributes
    return WorkItem(
        id=execution.id,
        kind=_KINDS.get(execution.workflow_type, execution.workflow_type),
        conversation_id=found.get(attributes.CONVERSATION) or "",
        state=found.get(attributes.STATE) or "",
        tool=found.get(attributes.TOOL) or "",
        since=execution.start_time,
    )


def _checked_id(conversation_id: str | None) -> str:
    if conversation_id is None:
        return f"conv-{_uuid7()}"
    if not 0 < len(conversation_id.encode()) <= 200:
        raise ValueError("a conversation id has 1 to 200 bytes")
    if any(c in "/~" or not c.isprintable() for c in conversation_id):
        raise ValueError(f"conversation id {conversation_id!r} must not hold '/', '~' or control characters")
    return conversation_id


def _uuid7() -> uuid.UUID:
    """A time-ordered id (RFC 9562), so that lists of conversations sort by age."""
    bits = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    bits = bits & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=bits & ~(0x3 << 62) | 0x2 << 62)
