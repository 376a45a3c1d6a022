"""The agents below one root conversation, as tools, hooks and programs reach them (spec §17).

The handle holds nothing but ids. Who asks names itself by its call, so that asking again changes nothing.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from tarry.asking import query
from tarry.client.errors import AgentRefused, NoSuchAgents, ServerUnavailable, reaching_server
from tarry.connect import sending_inline
from tarry.core.paths import root_of
from tarry.core.protocol import digest
from tarry.core.subagents.definition import Snapshot
from tarry.core.subagents.protocol import (
    AGENTS,
    FOLLOW_UP,
    INTERRUPT,
    LIST,
    READ,
    REFUSED,
    RELOAD,
    REPORTED,
    SEND,
    SNAPSHOT,
    START,
    AgentList,
    AgentsInput,
    Caller,
    FollowUp,
    Interrupt,
    Interrupted,
    ReadUpdates,
    Refusal,
    Reported,
    SendMessage,
    Sent,
    StartAgent,
    Started,
    Text,
    TurnAccepted,
    Updates,
)
from tarry.core.text import clean_text
from tarry.core.waiting import CROWDED
from tarry.settings import Settings
from tarry.store import BlobStore

PATIENCE = timedelta(minutes=1)
"""How long an answer is waited for; asking again changes nothing, so it is asked again meanwhile.

A server may take ten updates at a time for one workflow, and calls that are made together ask together.
"""
_ONE_TRY = timedelta(seconds=10)
INLINE_BYTES = 1024
"""A text up to so long travels itself, a longer one is kept in the store."""

_BETWEEN_RUNS = frozenset({CROWDED, "AcceptedUpdateCompletedWorkflow"})
_PASSING = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,  # also of an update that was cut off as the run turned over
        RPCStatusCode.CANCELLED,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.FAILED_PRECONDITION,
        RPCStatusCode.RESOURCE_EXHAUSTED,
    }
)
"""What a server says that may answer the next time."""
_CUT_OFF = "aborted by closing workflow"
"""Of an update whose run was over before it answered; there may be another one, as after a reset."""

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


class _AskAgain(Exception):
    """Nobody answered, or a run that takes no more; the next time somebody may."""


class AgentTree:
    """A handle on the agents below one root conversation; make it with `Harness.agents`."""

    def __init__(self, client: Client, settings: Settings, tree_id: str) -> None:
        self.id = tree_id
        self._client = sending_inline(client)
        self._settings = settings

    @property
    def root(self) -> str:
        """The id of the root conversation."""
        return root_of(self.id)

    def person(self, conversation_id: str = "", request_id: str | None = None) -> Caller:
        """Who asks when no call does: a person, or a program, in the name of a conversation of the tree.

        For one request: the same once more, or another under its `request_id`, is a repeat of it. Such a caller reaches
        every agent below, and queues.
        """
        owner = self.id.removesuffix("/agents")
        name = uuid.uuid4().hex if request_id is None else digest(request_id)
        return Caller(conversation_id=conversation_id or self.root, task_id=f"{owner}/person-{name}")

    @reaching_server()
    async def begin(self, snapshot: Snapshot) -> Snapshot:
        """Begin the tree with this catalogue and these settings; one that is there keeps its own. Those that count.

        Raises:
            NoSuchAgents: the tree is over.
            ServerUnavailable: no server answers, or no worker.
        """
        try:
            await self._client.start_workflow(**self._birth(snapshot))
        except WorkflowAlreadyStartedError:
            raise self._over() from None
        return await self.snapshot()

    @reaching_server()
    async def snapshot(self) -> Snapshot:
        """The catalogue and the settings that count. Needs a worker.

        Raises:
            NoSuchAgents: the tree was not begun, or is over and forgotten.
            ServerUnavailable: no server answers, or no worker.
        """
        return await self._query(SNAPSHOT, Snapshot)

    @reaching_server()
    async def list(self, conversation_id: str = "") -> AgentList:
        """The agents below a conversation of the tree, by default its root. Needs a worker. Raises as `snapshot`."""
        return await self._query(LIST, AgentList, conversation_id)

    async def start(self, request: StartAgent) -> Started:
        """Start a child of the caller with its first turn, durably when it returns.

        Raises:
            AgentRefused: why it was not started, and what to do instead.
            NoSuchAgents: the tree was not begun, or is over.
            ServerUnavailable: nobody answered for a minute. It may have been done: ask again with the same call.
        """
        return await self._ask(START, request, Started)

    async def send(self, request: SendMessage) -> Sent:
        """Put a message into the mailbox of a direct child; it starts nothing. Raises as `start`."""
        return await self._ask(SEND, request, Sent)

    async def follow_up(self, request: FollowUp) -> TurnAccepted:
        """Start one turn of a direct child with all that waits in its mailbox. Raises as `start`."""
        return await self._ask(FOLLOW_UP, request, TurnAccepted)

    async def read(self, request: ReadUpdates) -> Updates:
        """What direct children have ended since, reserved for the call that reads. Raises as `start`."""
        return await self._ask(READ, request, Updates)

    async def interrupt(self, request: Interrupt) -> Interrupted:
        """Stop what a descendant does, and everything below it. Raises as `start`."""
        return await self._ask(INTERRUPT, request, Interrupted)

    @reaching_server()
    async def reported(self, report: Reported) -> None:
        """Let the tree know that a report was written; for its events alone. Raises ServerUnavailable."""
        await self._handle.signal(REPORTED, report, rpc_timeout=_ONE_TRY)

    async def reload(self, snapshot: Snapshot) -> None:
        """Let this catalogue and these settings count from now on, also in a tree that was not begun yet.

        Raises:
            AgentRefused, NoSuchAgents, ServerUnavailable: as `start`.
        """

        async def reloading() -> None:
            start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(**self._birth(snapshot))
            await self._client.execute_update_with_start_workflow(
                RELOAD, snapshot, start_workflow_operation=start, rpc_timeout=_ONE_TRY
            )

        await self._patiently(partial(self._try, reloading))

    async def _ask(self, name: str, request: BaseModel, as_type: type[M]) -> M:
        async def asking() -> M:
            answer: M = await self._handle.execute_update(name, request, result_type=as_type, rpc_timeout=_ONE_TRY)
            return answer

        return await self._patiently(partial(self._try, asking))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asking again changes nothing."""
        patient = AsyncRetrying(
            retry=retry_if_exception_type(_AskAgain),
            stop=stop_after_delay(PATIENCE.total_seconds()),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        try:
            answer: T = await patient(ask)
        except _AskAgain as error:
            raise ServerUnavailable(
                f"nobody answers for {self.id} ({error}): check that a server and a worker run, then try again"
            ) from error
        return answer

    async def _try(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except WorkflowAlreadyStartedError:
            raise self._over() from None
        except WorkflowUpdateFailedError as error:
            if _is_passing(error):
                raise _AskAgain(" ".join(str(error.cause or error).split())) from error
            raise _refusal(error) from error
        except WorkflowUpdateRPCTimeoutOrCancelledError as error:
            _pass_cancellation()
            raise _AskAgain("no worker") from error
        except RPCError as error:
            was_cut_off = _CUT_OFF in error.message
            if error.status == RPCStatusCode.NOT_FOUND and not was_cut_off:
                raise self._over() from error
            if error.status not in _PASSING and not was_cut_off:
                raise
            raise _AskAgain(" ".join(error.message.split())) from error

    async def _query(self, name: str, as_type: type[M], *args: Any) -> M:
        async def asking() -> M:
            try:
                return await query(self._handle, name, as_type, *args, within=_ONE_TRY)
            except WorkflowQueryFailedError as error:
                raise NoSuchAgents(f"{self.id} is no tree of agents") from error
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    raise self._over() from error
                # A server keeps few queries of one workflow, and many agents ask at once.
                if error.status not in (RPCStatusCode.RESOURCE_EXHAUSTED, RPCStatusCode.UNAVAILABLE):
                    raise
                raise _AskAgain(" ".join(error.message.split())) from error

        return await self._patiently(asking)

    def _birth(self, snapshot: Snapshot) -> dict[str, Any]:
        turnover = self._settings.run_settings().turnover_events
        return {
            "workflow": AGENTS,
            "arg": AgentsInput(root=self.root, snapshot=snapshot, turnover_events=turnover),
            "id": self.id,
            "task_queue": self._settings.task_queue,
            "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING,
            # One that is over was collected: nothing of it begins again.
            "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
            "static_summary": f"the agents of {self.root}",
        }

    @property
    def _handle(self) -> WorkflowHandle[Any, Any]:
        return self._client.get_workflow_handle(self.id)

    def _over(self) -> NoSuchAgents:
        return NoSuchAgents(f"{self.root} has no agents, or they are over with it")


async def kept_text(blobs: BlobStore, content: str) -> Text:
    """A text as requests carry it: a long one goes to the store.

    Raises:
        StoreError: the store cannot be written.
    """
    content = clean_text(content)
    size = len(content.encode())
    if size <= INLINE_BYTES:
        return Text(text=content, characters=len(content), utf8_bytes=size)
    return Text(blob=await blobs.put(content), characters=len(content), utf8_bytes=size)


async def read_text(blobs: BlobStore, text: Text) -> str:
    """The whole of it.

    Raises:
        StoreError: it is missing or damaged, or the store cannot be read.
    """
    return await blobs.get(text.blob, str) if text.blob else text.text


def _is_passing(error: WorkflowUpdateFailedError) -> bool:
    """Whether it failed between two runs, or of what the server alone knows: nothing of ours has judged it."""
    return not isinstance(error.cause, ApplicationError) or error.cause.type in _BETWEEN_RUNS


def _refusal(error: WorkflowUpdateFailedError) -> AgentRefused:
    cause = error.cause
    if not isinstance(cause, ApplicationError) or cause.type != REFUSED:
        return AgentRefused("invalid", f"the tree could not take it: {cause}")
    refusal = Refusal.model_validate(cause.details[0])
    return AgentRefused(refusal.code, refusal.text)


def _pass_cancellation() -> None:
    """The SDK tells a cancellation of ours as if it were a timeout."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
