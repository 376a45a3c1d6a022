"""What running code sends to conversations: commits to its own, inputs to any (spec §7.1, §7.3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from signals.box import Delivery
from tarry.api import Send, Start
from tarry.client import Harness, NoSuchConversation, NoSuchTask, ServerUnavailable
from tarry.client.errors import reaching_server, translate
from tarry.connect import sending_inline
from tarry.core.commits import COMMIT, CommitInput, SendSignal, StartTask
from tarry.core.protocol import DUPLICATE, Notify, SubmissionView, SubmitInput, WhenBusy, digest
from tarry.core.task_state import TaskInput
from tarry.core.text import canonical_json, clean_text

PATIENCE = timedelta(seconds=30)
"""How long a conversation may take to answer."""


class Committer:
    """Speaks for one task."""

    def __init__(self, harness: Harness, conversation_id: str, task_id: str) -> None:
        self._harness = harness
        self._conversation_id = conversation_id
        self._task_id = task_id

    def compose(
        self,
        key: str,
        notes: Sequence[str],
        inputs: Sequence[str],
        signals: Sequence[Send[Any]],
        tasks: Sequence[Start[Any]],
    ) -> CommitInput:
        """The commit, its parts checked.

        Raises:
            ValueError: the task belongs to no conversation; a task's input does not fit.
            Unreadable: a value does not fit its token.
        """
        if not self._conversation_id:
            raise ValueError("this task belongs to no conversation: there is nothing to commit to")
        scope = f"{self._task_id}#{key}"
        settings = self._harness.settings.run_settings()
        return CommitInput(
            key=scope if len(scope) <= 300 else digest(scope),
            notes=tuple(clean_text(note) for note in notes),
            inputs=tuple(
                SubmitInput(content=clean_text(text), request_id=f"commit-{digest(scope)}-{number}", settings=settings)
                for number, text in enumerate(inputs)
            ),
            sends=(*(self._sent(scope, send) for send in signals), *(self._started(start) for start in tasks)),
        )

    def _sent(self, scope: str, send: Send[Any]) -> SendSignal:
        delivery = Delivery(
            signal=send.token.name,
            key=send.key,
            value=send.token.dump(send.value),
            version=send.token.version,
            delivery_id=digest(canonical_json([scope, send.task_id, send.token.name, send.key])),
        )
        return SendSignal(task_id=send.task_id, delivery=delivery)

    def _started(self, start: Start[Any]) -> StartTask:
        call = start.task.call(start.input)
        owner = self._task_id.partition("/")[0]
        name = start.key if start.key.isascii() and start.key.isalnum() else "#" + digest(start.key)
        settings = self._harness.settings.run_settings()
        return StartTask(
            task_id=f"{owner}/k.{name}",
            digest=digest(canonical_json([call.tool, call.arguments])),
            input=TaskInput(conversation_id=self._conversation_id, call=call, settings=settings),
        )

    @reaching_server()
    async def commit(self, commit: CommitInput) -> bool:
        """Send it; False when its key was committed before.

        Raises:
            RequestConflict, InboxFull: it was refused, whole.
            ValueError: it is too large.
            NoSuchConversation, ServerUnavailable: nobody took it.
        """
        handle = sending_inline(self._harness.client).get_workflow_handle(self._conversation_id)
        try:
            await handle.execute_update(COMMIT, commit, rpc_timeout=PATIENCE)
        except WorkflowUpdateFailedError as error:
            return _refused(error)
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            raise ServerUnavailable(f"conversation {self._conversation_id} gave no answer; commit again") from error
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NoSuchConversation(f"there is no conversation {self._conversation_id}") from error
            raise
        return True

    async def submit(
        self, conversation_id: str, content: str, request_id: str, when_busy: WhenBusy, notify: str | None
    ) -> SubmissionView:
        """Submit an input to a conversation; raises as `Conversation.submit`."""
        submission = await self._harness.conversation(conversation_id).submit(
            content,
            request_id=request_id,
            when_busy=when_busy,
            notify=None if notify is None else Notify(task_id=self._task_id, key=notify),
        )
        return submission.view or await submission.status()

    async def own_conversation(self, key: str) -> str:
        """A conversation that belongs to the task, one a key; raises as `ToolApi.own_conversation`."""
        conversation_id = f"sub-{digest(canonical_json([self._task_id, key]))}"
        await self._harness.conversation(conversation_id).start(owner=self._task_id)
        return conversation_id

    async def abort(self, work_id: str) -> bool:
        """Stop a task or what a conversation does; raises as `ToolApi.abort`."""
        try:
            return await self._harness.abort(work_id)
        except NoSuchTask:
            return False


def _refused(error: WorkflowUpdateFailedError) -> bool:
    cause: Any = error.cause
    if isinstance(cause, ApplicationError) and cause.type == DUPLICATE:
        return False
    if (known := translate(cause)) is not None:
        raise known from error
    if isinstance(cause, ApplicationError):
        raise ValueError(cause.message) from error
    raise error
