"""Commits as they are sent: composed, their edits of documents made, and made again when somebody was faster.

One rule for tools, durable tasks and programs (spec §7.3, §7.7).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from signals.box import Delivery
from tarry.api.conversing import Send, Start
from tarry.client.documents import DocumentReader, EditRunner, composed_edits, placeholders
from tarry.client.errors import (
    DocumentConflict,
    NoSuchConversation,
    RequestConflict,
    ServerUnavailable,
    reaching_server,
    translate,
)
from tarry.connect import sending_inline
from tarry.core.commits import COMMIT, CommitInput, SendSignal, StartTask, is_repeat
from tarry.core.inbox import Conflict
from tarry.core.protocol import DUPLICATE, SubmitInput, digest
from tarry.core.task_state import TaskInput
from tarry.core.text import canonical_json, clean_text
from tarry.documents import Edit
from tarry.settings import Settings

MAX_KEY = 100
"""Characters of a task's key that its id shows; of a longer one it has a digest."""
PATIENCE = timedelta(seconds=30)
"""How long a conversation may take to answer."""
ATTEMPTS = 10
"""How often edits are made of what documents have become meanwhile."""
PAUSE = 0.02
"""Seconds, and longer each time: those who were slower than one come again together."""


@dataclass(frozen=True)
class Sender:
    """Who commits: `prefix` keeps its keys apart from those of others, `owner` stands before the ids of its tasks.

    `tree`: whose subagent the conversation is; what it starts is told.
    """

    settings: Settings
    conversation_id: str
    prefix: str
    owner: str
    tree: str = ""

    def compose(
        self,
        key: str | None,
        notes: Sequence[str],
        inputs: Sequence[str],
        signals: Sequence[Send[Any]],
        tasks: Sequence[Start[Any]],
    ) -> CommitInput:
        """The commit, its parts checked, without edits; without a key it is one that is never repeated.

        Raises:
            ValueError: a task's input does not fit, or no task could take a signal's key or value.
            Unreadable: a value does not fit its token.
        """
        scope = f"{self.prefix}#{key or uuid.uuid4().hex}"
        settings = self.settings.run_settings()
        return CommitInput(
            key=scope if len(scope) <= 300 else digest(scope),
            notes=tuple(clean_text(note) for note in notes),
            inputs=tuple(
                SubmitInput(content=clean_text(text), request_id=f"commit-{digest(scope)}-{number}", settings=settings)
                for number, text in enumerate(inputs)
            ),
            is_remembered=key is not None,
            sends=(*(_sent(scope, send) for send in signals), *(self._started(start) for start in tasks)),
        )

    def _started(self, start: Start[Any]) -> StartTask:
        call = start.task.call(start.input)
        is_plain = len(start.key) <= MAX_KEY and start.key.isascii() and start.key.isalnum()
        name = start.key if is_plain else "#" + digest(start.key)
        settings = self.settings.run_settings()
        return StartTask(
            task_id=f"{self.owner}/k.{name}",
            digest=digest(canonical_json([call.tool, call.arguments])),
            input=TaskInput(conversation_id=self.conversation_id, call=call, settings=settings, tree=self.tree),
        )


def _sent(scope: str, send: Send[Any]) -> SendSignal:
    delivery = Delivery(
        signal=send.token.name,
        key=send.key,
        value=send.token.dump(send.value),
        version=send.token.version,
        delivery_id=digest(canonical_json([scope, send.task_id, send.token.name, send.key])),
    )
    if (problem := delivery.problem) is not None:
        raise ValueError(f"the signal {delivery.signal} to {send.task_id}: {problem}")
    return SendSignal(task_id=send.task_id, delivery=delivery)


async def commit_with(
    reader: DocumentReader, conversation_id: str, commit: CommitInput, edits: Sequence[Edit[Any]], run: EditRunner
) -> bool:
    """Send a commit with its edits, made of what the documents are; False when its key was committed before.

    Raises:
        DocumentConflict: a document is no longer what an explicit value was made for, or changed every time.
        RequestConflict, InboxFull: it was refused, whole.
        ValueError: a part is too large, does not fit, or belongs to another conversation than the rest.
        NoSuchConversation, ServerUnavailable: nobody took it.
    """
    if not edits:
        return await send_commit(reader.client, conversation_id, commit)
    conversation_id = await _home(reader, conversation_id, commit, edits)
    named = commit.model_copy(update={"documents": placeholders(edits)})
    for attempt in range(ATTEMPTS):
        view = await reader.view(conversation_id, {edit.document.id for edit in edits}, named.key)
        if _was_taken(named, view.known):
            return False
        documents = await composed_edits(reader, view, edits, run)
        try:
            return await send_commit(reader.client, conversation_id, commit.model_copy(update={"documents": documents}))
        except DocumentConflict:
            if attempt + 1 == ATTEMPTS:
                raise
            await asyncio.sleep(PAUSE * attempt)
    raise AssertionError


def _was_taken(commit: CommitInput, known: str) -> bool:
    try:
        return is_repeat(commit, known)
    except Conflict as error:
        raise RequestConflict(str(error)) from None


async def _home(reader: DocumentReader, conversation_id: str, commit: CommitInput, edits: Sequence[Edit[Any]]) -> str:
    """The conversation that takes the commit."""
    of_session = {edit.document.id for edit in edits if edit.document.rules.scope == "session"}
    if not of_session:
        return conversation_id
    root = await reader.root(conversation_id)
    own = {edit.document.id for edit in edits} - of_session
    if root != conversation_id and (own or commit.notes or commit.inputs or commit.sends):
        raise ValueError(
            f"documents of the session ({', '.join(sorted(of_session))}) live in its root conversation {root}, and a "
            f"commit is to one conversation: commit them by themselves, apart from what {conversation_id} gets"
        )
    return root


@reaching_server()
async def send_commit(client: Client, conversation_id: str, commit: CommitInput) -> bool:
    """Send a commit as it is; False when its key was committed before. Raises as `commit_with`."""
    handle = sending_inline(client).get_workflow_handle(conversation_id)
    try:
        await handle.execute_update(COMMIT, commit, rpc_timeout=PATIENCE)
    except WorkflowUpdateFailedError as error:
        return _refused(error)
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise ServerUnavailable(f"conversation {conversation_id} gave no answer; commit again") from error
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise NoSuchConversation(f"there is no conversation {conversation_id}") from error
        raise
    return True


def _refused(error: WorkflowUpdateFailedError) -> bool:
    cause: Any = error.cause
    if isinstance(cause, ApplicationError) and cause.type == DUPLICATE:
        return False
    if (known := translate(cause)) is not None:
        raise known from error
    if isinstance(cause, ApplicationError):
        raise ValueError(cause.message) from error
    raise error
