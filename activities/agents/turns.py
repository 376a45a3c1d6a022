"""The turns of subagents: beginning one in its conversation, and looking up what came of it (spec §17.14)."""

from __future__ import annotations

from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from tarry.asking import ask
from tarry.client.agents import kept_text, read_text
from tarry.client.errors import (
    UPDATE_TIMEOUT,
    ConversationExists,
    NoSuchConversation,
    NoSuchEntry,
    TarryError,
    translate,
)
from tarry.client.seeding import Seed, Seeding
from tarry.client.sending import Road
from tarry.client.tasks import RPC_TIMEOUT
from tarry.core.ledger import USAGE_MEMO, Ledger
from tarry.core.messages import AssistantMessage, StopReason
from tarry.core.output import OutputSchema
from tarry.core.protocol import (
    DUPLICATE,
    INVALID,
    SUBMIT,
    VIEW,
    Notify,
    SubmissionView,
    SubmitInput,
    UnansweredReason,
)
from tarry.core.run_settings import RunSettings
from tarry.core.settled import settled_as
from tarry.core.subagents.orders import BeginTurn, Begun, Birth, Fetched, FetchTurn
from tarry.core.text import head_of
from tarry.core.transcript import Position
from tarry.core.views import ConversationView
from tarry.entries import EntryReader
from tarry.settings import Settings
from tarry.store import BlobStore

BETWEEN_MESSAGES = "\n\n"
LOOKED_AT = 64
"""Entries, the newest, among which the last useful text of a turn without an answer is looked for."""
_CUT: dict[StopReason, UnansweredReason] = {"length": "cut_off", "refusal": "refused"}
"""A person sees how an answer ended; a parent must be told (spec §17.41)."""


class AgentTurns:
    """Begins and looks up turns through the worker's own client."""

    def __init__(self, client: Client, settings: Settings, blobs: BlobStore, reader: EntryReader) -> None:
        self._client = client
        self._settings = settings
        self._blobs = blobs
        self._reader = reader

    async def begin(self, tree_id: str, order: BeginTurn) -> Begun:
        """Create the conversation if it is new, and submit the messages; a repeat finds both done.

        Raises:
            RPCError, StoreError: it may be tried again.
        """
        content = BETWEEN_MESSAGES.join([await read_text(self._blobs, text) for text in order.messages])
        if order.birth is not None:
            try:
                await self._create(tree_id, order, order.birth)
            except (ConversationExists, NoSuchConversation, NoSuchEntry) as error:
                return Begun(failed=str(error), is_corrupt=True)
        return await self._submit(order.agent_id, self._input(tree_id, order, content, await self._run_settings(order)))

    async def _create(self, tree_id: str, order: BeginTurn, birth: Birth) -> None:
        seed = Seed(birth.caller.task_id, birth.context, birth.agent, order.path)
        road = Road(self._client, order.agent_id, self._settings.task_queue, birth.agent, tree_id)
        await Seeding(self._client, self._reader, seed).start(road)

    def _input(self, tree_id: str, order: BeginTurn, content: str, settings: RunSettings) -> SubmitInput:
        return SubmitInput(
            content=content,
            request_id=order.request_id,
            when_busy="steer" if order.joins else "follow_up",
            settings=settings,
            notify=Notify(task_id=tree_id, key=order.request_id),
        )

    async def _run_settings(self, order: BeginTurn) -> RunSettings:
        settings = self._settings.run_settings()
        schema = order.output or (order.birth.output if order.birth is not None else None)
        if schema is None or (order.joins and await self._has_open_run(order.agent_id)):
            return settings
        return settings.model_copy(update={"output": OutputSchema(name="answer", json_schema=schema)})

    async def _has_open_run(self, agent_id: str) -> bool:
        """Whether what joins is read by a run that knows the form of its answer; a run of its own must be told."""
        try:
            return (await ask(self._client, agent_id, VIEW, ConversationView)).open_generation is not None
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return False

    async def _submit(self, agent_id: str, input: SubmitInput) -> Begun:
        handle = self._client.get_workflow_handle(agent_id)
        try:
            view: SubmissionView = await handle.execute_update(
                SUBMIT, input, result_type=SubmissionView, rpc_timeout=UPDATE_TIMEOUT
            )
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return Begun(failed=f"the conversation {agent_id} is over", is_corrupt=True)
        except WorkflowUpdateFailedError as error:
            return self._refused(agent_id, error)
        return _begun(agent_id, view)

    def _refused(self, agent_id: str, error: WorkflowUpdateFailedError) -> Begun:
        """What it says that it will always say; anything else is tried again."""
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.type == DUPLICATE:
            return _begun(agent_id, SubmissionView.model_validate(cause.details[0]))
        refusal: TarryError | None = translate(cause)
        if refusal is None and not (isinstance(cause, ApplicationError) and cause.type == INVALID):
            raise error
        return Begun(failed=str(refusal or cause))

    async def fetch(self, order: FetchTurn) -> Fetched:
        """The answer of a turn, else its last useful text, bounded; and what the agent has spent so far.

        Of a conversation that is gone there is nothing but what its notice told.

        Raises:
            RPCError, StoreError: it may be tried again.
        """
        try:
            found = await self._client.get_workflow_handle(order.agent_id).describe(rpc_timeout=RPC_TIMEOUT)
            spent: Ledger | None = await found.memo_value(USAGE_MEMO, default=None, type_hint=Ledger)
            text, reason = await self._said(order)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            spent, text, reason = None, order.answer_text or "", ""
        bounded = head_of(text, order.max_bytes)
        kept = await kept_text(self._blobs, bounded.text) if bounded.text else None
        return Fetched(text=kept, is_cut=bounded.is_cut, spent=spent, reason=reason)

    async def _said(self, order: FetchTurn) -> tuple[str, UnansweredReason]:
        """The text; and why it is no whole answer, though the conversation took it for one."""
        view = await ask(self._client, order.agent_id, VIEW, ConversationView)
        if order.answer is not None:
            entry = await self._reader.entry(order.agent_id, order.answer, view.pages, view.end)
            message = entry.message
            return (message.text, _CUT.get(message.stop, "")) if isinstance(message, AssistantMessage) else ("", "")
        first = Position(index=max(0, view.end.index - LOOKED_AT))
        entries = await self._reader.read(order.agent_id, first, view.end)
        texts = [
            entry.message.text
            for entry in entries
            if entry.run == view.runs and isinstance(entry.message, AssistantMessage) and entry.message.text.strip()
        ]
        return (texts[-1] if texts else ""), ""


def _begun(agent_id: str, view: SubmissionView) -> Begun:
    is_over = view.status in ("done", "unanswered")
    settled = settled_as(agent_id, view) if is_over else None
    return Begun(generation_id=view.generation_id, is_queued=not view.generation_id, settled=settled)
