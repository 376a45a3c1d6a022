"""A submission: an input that was admitted once, and what became of it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Generic

from pydantic import BaseModel, ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistoryEventFilterType
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, retry_if_result, wait_exponential, wait_fixed
from typing_extensions import TypeVar

from tarry.asking import ask, may_pass
from tarry.client.errors import NoSuchConversation, RequestConflict, SubmissionRefused, UnreadableOutput
from tarry.client.withdrawing import Withdrawn, withdraw
from tarry.core import inbox
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import SUBMISSION, VIEW, SubmissionLookup, SubmissionView, digest
from tarry.core.views import ConversationView
from tarry.entries import EntryReader

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_PENDING_PAUSE = 0.1

T = TypeVar("T")
Data = TypeVar("Data", bound=BaseModel, default=Any)
"""What an answer is read as."""


def _is_pending(lookup: SubmissionLookup) -> bool:
    return lookup.submission is None and lookup.pending


def _patiently() -> AsyncRetrying:
    return AsyncRetrying(wait=wait_exponential(multiplier=0.1, max=2), retry=retry_if_exception(may_pass), reraise=True)


class Answered(SubmissionView, Generic[Data]):
    """A submission that has settled; `output` is its answer as the model that was asked for, if one was."""

    output: Data | None = None


class Submission(Generic[Data]):
    """A handle on one submission. `view` is what is known of it so far, None as long as only the server is.

    `content` is the digest of what was submitted by this handle, if anything was; its answer is read as `output`.
    """

    def __init__(
        self,
        client: Client,
        reader: EntryReader,
        conversation_id: str,
        request_id: str,
        view: SubmissionView | None = None,
        content: str = "",
        output: type[Data] | None = None,
    ) -> None:
        self.conversation_id = conversation_id
        self.request_id = request_id
        self.view = view
        self._content = content
        self._output = output
        self._client = client
        self._reader = reader

    async def abort(self) -> Withdrawn:
        """Take it back if it is still queued; says what became of that, as `Conversation.withdraw`."""
        return await withdraw(self._client, self.conversation_id, self.request_id)

    async def status(self) -> SubmissionView:
        """What became of it so far; waits for a worker while none is up.

        Raises:
            NoSuchConversation: nothing with that id.
            SubmissionRefused: the conversation refused it when a worker came, with its reason, or never had it.
            RequestConflict: no worker was up when it was submitted, and its request id names other content.
        """
        lookup: SubmissionLookup = await AsyncRetrying(
            wait=wait_fixed(_PENDING_PAUSE), retry=retry_if_result(_is_pending)
        )(self._ask, SUBMISSION, SubmissionLookup, self.request_id)
        found = lookup.submission or await self._archived(lookup.archive)
        if found is None:
            raise SubmissionRefused(await self._refusal())
        if self._content and found.content not in ("", self._content):
            raise RequestConflict(f"request id {self.request_id!r} was used for other content")
        return found

    async def wait(self) -> Answered[Data]:
        """Wait until it is `done`, with its answer's text and output, or `unanswered`, with a reason.

        Waits for ever; cancel it or use `asyncio.timeout` to stop waiting, which changes nothing else.

        Raises:
            NoSuchConversation: nothing with that id, or it was terminated before it could settle this.
            SubmissionRefused, RequestConflict: as `status`.
            UnreadableOutput: the answer fits the schema, but the model's own code refuses it.
        """
        pause, is_closed = _FIRST_PAUSE, False
        # Not asked again what `submit` has just said: two queries that meet a workflow task cost a second.
        self.view = self.view or await self.status()
        while True:
            if self.view.status in ("done", "unanswered"):
                settled: SubmissionView = await _patiently()(self._with_answer, self.view)
                return self._read(settled)
            await self._run_ended(self.view.generation_id or await self._open_generation())
            self.view = await self.status()
            if self.view.status in ("queued", "placed"):
                if is_closed:
                    raise NoSuchConversation(
                        f"conversation {self.conversation_id} was closed before it settled the input"
                    )
                # What a closed one says after this is its last word.
                is_closed = await _patiently()(self._is_closed)
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _read(self, settled: SubmissionView) -> Answered[Data]:
        if self._output is None or settled.answer_text is None:
            return Answered(**dict(settled))
        try:
            return Answered(**dict(settled), output=self._output.model_validate_json(settled.answer_text))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            raise UnreadableOutput(f"the answer is no {self._output.__name__}: {place}: {first['msg']}") from error

    async def _ask(self, query: str, as_type: type[T], *arguments: str) -> T:
        """The conversation's answer, waited for while no worker is up."""
        try:
            return await ask(self._client, self.conversation_id, query, as_type, *arguments, patience=None)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NoSuchConversation(f"there is no conversation {self.conversation_id}") from error
            raise

    async def _archived(self, archive: tuple[str, ...]) -> SubmissionView | None:
        packed = await self._reader.archived(archive, digest(self.request_id))
        return inbox.view(inbox.unpack(self.request_id, packed), "") if packed is not None else None

    async def _refusal(self) -> str:
        state = await self._conversation()
        reasons = [refusal.reason for refusal in state.refusals if refusal.request_id == self.request_id]
        # Of several the newest: the same input may have been sent again.
        reason = " ".join(reasons[-1].split()) if reasons else "it never came, or was refused long ago"
        return f"conversation {self.conversation_id} does not know request {self.request_id}: {reason}"

    async def _open_generation(self) -> str | None:
        return (await self._conversation()).open_generation

    async def _conversation(self) -> ConversationView:
        return await self._ask(VIEW, ConversationView)

    async def _run_ended(self, generation_id: str | None) -> None:
        """The history's long poll: returns when the run closes, or cannot be watched; costs no event (spec §7.5)."""
        if generation_id is None:
            return
        run_id: str | None = None
        # Whatever went wrong, the next question finds out: it is asked for as long as no server is up.
        with contextlib.suppress(RPCError):
            while True:
                # Not its result, which is the conversation's to read: it may be in a store that this process has not.
                handle = self._client.get_workflow_handle(generation_id, run_id=run_id)
                end = await anext(
                    handle.fetch_history_events(
                        wait_new_event=True, event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
                    ),
                    None,
                )
                if end is None or end.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                    return
                run_id = end.workflow_execution_continued_as_new_event_attributes.new_execution_run_id

    async def _is_closed(self) -> bool:
        """Whether the conversation has ended, which nobody but a person at a shell can bring about."""
        try:
            description = await self._client.get_workflow_handle(self.conversation_id).describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return True
            raise
        # The server may describe a run that is just turning over: the conversation goes on in the next one.
        lives = (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)
        return description.status not in lives

    async def _with_answer(self, settled: SubmissionView) -> SubmissionView:
        """The view with the answer's text, read from the transcript when it left the open tail."""
        if settled.answer is None or settled.answer_text is not None:
            return settled
        state = await self._conversation()
        entry = await self._reader.entry(self.conversation_id, settled.answer, state.pages, state.end)
        message = entry.message
        text = message.text if isinstance(message, AssistantMessage) else None
        return settled.model_copy(update={"answer_text": text})
