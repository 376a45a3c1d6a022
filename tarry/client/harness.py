"""The harness: one connection to Temporal, and the agents behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, TypeVar, overload

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCError, RPCStatusCode

from signals.box import Receipt
from signals.tokens import Signal, SignalKey
from tarry import app as apps
from tarry import attributes
from tarry.client import registry, signals, tasks
from tarry.client.agents import AgentTree
from tarry.client.checks import checked_id
from tarry.client.conversation import Conversation
from tarry.client.durable_tasks import DurableTaskHandle, start_task
from tarry.client.errors import UPDATE_TIMEOUT, NoSuchConversation, NoSuchTask, NotHeld, reaching_server, translate
from tarry.client.linking import link_to_answer
from tarry.client.lists import literal
from tarry.client.questions import open_questions
from tarry.client.usage import UsageReport, listed_usage
from tarry.client.waking import WakeCheck
from tarry.client.work import WorkItem, work_item
from tarry.connect import connect
from tarry.core.agent import Agent
from tarry.core.live import Question
from tarry.core.protocol import CONVERSATION, RETRY
from tarry.core.subagents.protocol import tree_of
from tarry.core.waiting import SignalResult, TaskView
from tarry.core.wake_plan import WakePlan
from tarry.entries import EntryCache, EntryReader
from tarry.settings import Settings, load_settings
from tarry.store import BlobStore
from tarry.tasks import DurableTask

CACHE_BYTES = 16 * 1024 * 1024

T = TypeVar("T")
In = TypeVar("In")
R = TypeVar("R")


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

    def conversation(self, conversation_id: str | None = None, *, agent: Agent | None = None) -> Conversation:
        """A handle; the conversation itself comes to exist with its first input. Without an id, a new one.

        `agent` is what it begins with when this handle starts it; one that exists keeps its own choices, and is
        changed by `Conversation.configure` (spec §7.6).

        Raises:
            ValueError: the id is empty, longer than 200 bytes, or holds `/`, `~` or a control character.
        """
        return Conversation(self.client, self.settings, self._reader, checked_id(conversation_id), agent)

    async def agents(self, conversation_id: str) -> AgentTree:
        """The tree of agents of a root conversation, or that an agent is in by its id (spec §17).

        Needs a worker; the tree itself may not have begun.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers, or no worker.
        """
        view = await self.conversation(conversation_id).view()
        return AgentTree(self.client, self.settings, view.tree or tree_of(f"{conversation_id}~{view.nonce}"))

    async def start_task(self, task: DurableTask[In, R], input: In, *, key: str | None = None) -> DurableTaskHandle[R]:
        """Start a durable task, durably when it returns, also when no worker is up.

        The same `key` again gives the task that was started first, as long as Temporal retains it.

        Raises:
            RequestConflict: the key was used for another task or input.
            ValueError: the input does not fit; or the key is empty, over 150 bytes, or holds `/`, `~` or controls.
            ServerUnavailable: no server answers.
        """
        return await start_task(self.client, self.settings, task, input, key=key)

    async def work(self, *, held_only: bool = False, conversation_id: str | None = None) -> AsyncIterator[WorkItem]:
        """Everything that is not over, newest first; of one conversation when its id is given.

        Raises:
            ServerUnavailable: no server answers.
        """
        query = f'{attributes.CONVERSATION.name} IS NOT NULL AND ExecutionStatus = "Running"'
        if held_only:
            query += f' AND {attributes.STATE.name} = "held"'
        if conversation_id is not None:
            query += f" AND {attributes.CONVERSATION.name} = {literal(conversation_id)}"
        async with reaching_server():
            async for execution in self.client.list_workflows(query):
                yield await work_item(execution)

    async def usage(self) -> UsageReport:
        """What every conversation has spent by the end of its newest run, by model and tool; needs no worker.

        A conversation that Temporal has forgotten is not in it any more; one that is being answered for the first time
        is not yet: `Conversation.usage` is exact.

        Raises:
            ServerUnavailable: no server answers.
        """
        return await listed_usage(self.client, self.settings.task_queue)

    async def questions(self, root_conversation_id: str | None = None) -> list[Question]:
        """The questions that wait for a person, those that wait longest first; needs no worker.

        Of one conversation when its id is given, with all that it owns: nested calls, durable tasks, subagents. Answer
        with `signal`, to the `task_id` of a question.

        Raises:
            ServerUnavailable: no server answers.
        """
        return await open_questions(self.client, root_conversation_id)

    @overload
    async def signal(
        self, task_id: str, signal: Signal[T], key: str, value: T, *, delivery_id: str | None = None, by: str = ""
    ) -> SignalResult: ...
    @overload
    async def signal(
        self,
        task_id: str,
        signal: str,
        key: str,
        value: Any,
        *,
        version: int | None = None,
        delivery_id: str | None = None,
        by: str = "",
    ) -> SignalResult: ...
    async def signal(
        self,
        task_id: str,
        signal: Signal[Any] | str,
        key: str,
        value: Any,
        *,
        version: int | None = None,
        delivery_id: str | None = None,
        by: str = "",
    ) -> SignalResult:
        """Deliver a value to a task and say what became of it; also when no worker is up (spec §3.2 to §3.4).

        `delivered`, `duplicate`, `invalid`, `closed` and `not_found` are final. `accepted`: no worker answered within
        1.5 s, the server keeps the value, and `receipt` tells later. The first value of a key stays. The same delivery
        id for the same key is given the same answer and delivers nothing twice. Nobody checks who sends.

        What cannot cross Temporal is `invalid` and not sent; so it is when a run has taken all signals that Temporal
        allows it, with a reason that begins with `task_full`.

        Args:
            task_id: the workflow id of a tool call or a durable task.
            signal: a token, whose current version the value must fit; or a name, and the value is JSON data.
            key: the key that the task waits on, or will.
            value: at most 256 KiB as JSON.
            version: of a value sent by name; by default the one that is current where the task runs.
            delivery_id: up to 200 characters that make a repeat recognisable; drawn by default.
            by: the person who sends it, where the caller knows: the history of decisions says so (spec §23.7). The
                delivery's id is made of it, and stands in the answer.

        Raises:
            ServerUnavailable: no server answers. The value may have come: deliver it again under the same id.
            ValueError: nobody can be called that.
        """
        return await signals.deliver(
            self.client, task_id, signal, key, value, version=version, delivery_id=delivery_id, by=by
        )

    async def answer_link(
        self,
        task_id: str,
        value: Any,
        *,
        key: SignalKey | None = None,
        person: str = "",
        expires: datetime | None = None,
    ) -> str:
        """A link that offers a person to answer what a task asks now with `value`; needs no worker (spec §23.8).

        Good for these arguments alone, until the question's deadline, a week or `expires`, and for one answer. It is
        recorded as `person`'s: send it to nobody else.

        Args:
            value: JSON data that the signal takes; of an approval `{"allow": true}`, with a reason if there is one.
            key: of several that the task waits for, the one that is answered.

        Raises:
            NotAsked: the task does not wait for that key, or for several and none was named.
            NoSuchTask: no task has that id.
            WebhookError: `TARRY_GATEWAY_URL` or `TARRY_CALLBACK_SECRETS` is missing.
            ValueError: nobody can be called that, the value is over 2,000 characters, or `expires` has no time zone.
            ServerUnavailable: no server answers.
        """
        return await link_to_answer(self.client, self.settings, task_id, value, key=key, person=person, expires=expires)

    async def receipt(self, task_id: str, delivery_id: str) -> Receipt | None:
        """What became of a delivery that entered history, None when the task knows nothing of it (spec §3.4).

        Refusals by update are told to their sender alone. Needs a worker, also for a task that is over; waits some
        seconds for one, and for its verdict. Of a tool call that Temporal has forgotten, the last ones are read from
        the transcript (spec §1.8).

        Raises:
            NoSuchTask: no task has that id.
            ServerUnavailable: no server answers, or no worker.
        """
        try:
            return await tasks.receipt(self.client, task_id, delivery_id)
        except NoSuchTask:
            kept = await self._kept_receipts(task_id)
            if kept is None:
                raise
        return next((receipt for receipt in reversed(kept) if receipt.delivery_id == delivery_id), None)

    async def _kept_receipts(self, task_id: str) -> tuple[Receipt, ...] | None:
        conversation_id, made, _ = task_id.partition("~")
        if not made:
            return None
        try:
            entries = await self.conversation(conversation_id).transcript()
        except (NoSuchConversation, ValueError):
            return None
        return next((entry.tool.receipts for entry in entries if entry.tool and entry.tool.task_id == task_id), None)

    async def task(self, task_id: str) -> TaskView:
        """Where a task stands, also when it is over. Needs a worker; waits some seconds for one.

        Raises:
            NoSuchTask: no task has that id.
            ServerUnavailable: no server answers, or no worker.
        """
        return await tasks.view(self.client, task_id)

    @reaching_server()
    async def abort(self, task_id: str) -> bool:
        """Stop a tool call, a task or a run, or what a conversation is doing; a repeat does nothing more.

        True when it was not over yet. It ends in order, with its cleanup, and what waits for it goes on; when no worker
        is up, that happens once one is. A conversation lives on.

        Raises:
            NoSuchTask: nothing of ours has that id.
            ServerUnavailable: no server answers.
        """
        found = await tasks.describe(self.client, task_id)
        if found.status != WorkflowExecutionStatus.RUNNING:
            return False
        if found.workflow_type == CONVERSATION:
            await self.conversation(task_id).abort()
        else:
            await self.client.get_workflow_handle(task_id).cancel(rpc_timeout=tasks.RPC_TIMEOUT)
        return True

    async def wake(self) -> WakePlan:
        """Whether workers are needed, and when they must be back; needs none (spec §9.3).

        Work that is parked on signals alone, or held, counts for neither. `WakeCheck` watches, and is cheaper for
        many looks.

        Raises:
            ServerUnavailable: no server answers.
        """
        return await WakeCheck(self.client, self.settings.task_queue, self.settings.workers).look()

    async def publish(self, app: apps.App) -> str:
        """Let the hooks of `app` count from now on; return their fingerprint. Needs no worker (spec §5.3).

        Every call that waits before its intent, and was asked under other hooks, is asked anew. Publishing what counts
        already wakes nobody. Once something was published, only publications count: publish each deploy that changes
        hooks, and a step back to an older one. Without any, a deploy counts when its first worker starts.

        Raises:
            ServerUnavailable: no server answers.
        """
        fingerprint = app.registry.fingerprint
        await registry.publish(self.client, self.settings.task_queue, fingerprint)
        return fingerprint

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
