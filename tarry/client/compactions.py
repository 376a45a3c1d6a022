"""Compacting a conversation by hand: asked for durably, with or without a worker, and looked at afterwards."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from tarry.client.errors import UPDATE_TIMEOUT, NoSuchConversation, SubmissionRefused, is_crowded, translate
from tarry.core.compaction_protocol import COMPACT, CompactInput
from tarry.core.compaction_view import CompactionStatus, CompactionView
from tarry.core.compactions import REMEMBERED, summary_id
from tarry.core.protocol import DUPLICATE, SubmissionView
from tarry.core.views import ConversationView

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

Look = Callable[[], Awaitable[ConversationView]]
"""The conversation as it stands."""
Written = Callable[[str], Awaitable[SubmissionView]]
"""What became of a submission; raises `SubmissionRefused` when there is none."""


class Compaction:
    """A handle on one compaction. `view` is what is known of it so far, None as long as only the server is."""

    def __init__(self, request_id: str, look: Look, written: Written, view: CompactionView | None) -> None:
        self.request_id = request_id
        self.view = view
        self._look = look
        self._written = written

    async def status(self) -> CompactionView:
        """What has become of it. Needs a worker.

        Raises:
            SubmissionRefused: the conversation refused it when a worker came, with its reason; or it ended without a
                summary, and was forgotten over 20 later ones.
            NoSuchConversation, ServerUnavailable: as `Conversation.view`.
        """
        if self.view is not None and self.view.is_over:
            return self.view
        found = await self._look()
        known = next((one for one in found.compactions if one.request_id == self.request_id), None)
        if known is not None:
            self.view = known
            return known
        reasons = [refusal.reason for refusal in found.refusals if refusal.request_id == self.request_id]
        if reasons:
            raise SubmissionRefused(reasons[-1])
        self.view = await self._forgotten()
        return self.view

    async def _forgotten(self) -> CompactionView:
        """Of one that the conversation does not remember its summary tells, which is known for ever."""
        try:
            written = await self._written(summary_id(self.request_id))
        except SubmissionRefused:
            reason = f"it ended without a summary, or never came: the newest {REMEMBERED} that are over are remembered"
            raise SubmissionRefused(f"compaction {self.request_id}: {reason}") from None
        status: CompactionStatus = "placed" if written.status == "done" else "waiting"
        if written.status == "unanswered":
            status = "stale" if written.reason == "stale" else "aborted"
        return CompactionView(request_id=self.request_id, reason="manual", status=status, entry=written.entry)

    async def wait(self) -> CompactionView:
        """Wait until it is over: `placed`, or why there is no summary. Raises as `status`.

        Waits for ever; to stop waiting changes nothing else. It asks by query, which leaves no history.
        """
        pause = _FIRST_PAUSE
        while not (view := await self.status()).is_over:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        return view


async def ask_for_compaction(
    client: Client, conversation_id: str, input: CompactInput, look: Look, written: Written
) -> Compaction:
    """Ask by update, or leave a plain signal with the server when no worker answers."""
    input = input.model_copy(update={"request_id": input.request_id or f"compact-{secrets.token_hex(8)}"})
    handle = client.get_workflow_handle(conversation_id)
    try:
        view = await _asked(handle, input)
        if view is None:
            # The update may still run; the same request id asks for nothing twice.
            await handle.signal(COMPACT, input)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise NoSuchConversation(f"there is no conversation {conversation_id}") from error
        raise
    return Compaction(input.request_id, look, written, view)


async def _asked(handle: WorkflowHandle[Any, Any], input: CompactInput) -> CompactionView | None:
    """What an update is told; None when the plain signal is to be tried."""
    try:
        view: CompactionView = await handle.execute_update(
            COMPACT, input, id=input.request_id, result_type=CompactionView, rpc_timeout=UPDATE_TIMEOUT
        )
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        return None
    except WorkflowUpdateFailedError as error:
        return None if is_crowded(error) else _known(error)
    return view


def _known(error: WorkflowUpdateFailedError) -> CompactionView:
    if isinstance(error.cause, ApplicationError) and error.cause.type == DUPLICATE:
        return CompactionView.model_validate(error.cause.details[0])
    raise translate(error.cause) or error from error
