"""What running code may do beyond its own task: deliver, create, expect, submit, commit, stop.

Each is asked for in the code's thread or loop and done on the worker's; it is given up when the run is (spec §4.6).
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, overload

from activities.task.committing import Committer
from activities.task.documents import TaskDocument
from activities.task.nesting import Nesting
from activities.task.people_alone import PeopleAlone
from signals.tokens import Signal, SignalKey
from tarry import webhooks
from tarry.api import ChildTask, NestedCall, NestedResult, Send, Start, ToolApi
from tarry.client import Harness
from tarry.client.signals import deliver
from tarry.core.agent import Agent, AgentFields
from tarry.core.gates import arguments_digest
from tarry.core.protocol import SubmissionView, ToolRunInput, WhenBusy, digest
from tarry.core.text import canonical_json
from tarry.core.waiting import NOTIFY_MEMO, SignalResult
from tarry.documents import Document, Edit
from tarry.inbox import answer_link
from tarry.tasks import DurableTask

LINK_GOOD_FOR = timedelta(days=7)

T = TypeVar("T")
In = TypeVar("In")
R = TypeVar("R")


class Outreach(ToolApi):
    """The half of the `api` that reaches out. The other half says how work gets to the worker's loop."""

    _input: ToolRunInput
    _harness: Harness
    _queue: str
    _nesting: Nesting
    _committer: Committer
    _people: PeopleAlone

    @abstractmethod
    def _at_home(self, start: Callable[[], asyncio.Task[R]]) -> Future[R]:
        """Start work on the worker's loop; it is given up when this run is."""

    @abstractmethod
    def _check_open(self) -> None:
        """Raise `StaleRun` when this run was given up."""

    @abstractmethod
    async def _keep_memo(self, key: str, value: Any, request: str) -> None:
        """Store a memo, on the worker's loop."""

    @abstractmethod
    async def _check_current(self) -> None:
        """Raise `StaleRun` when a later run took over; on the worker's loop."""

    async def signal(
        self, task_id: str, token: Signal[T], key: str, value: T, *, delivery_id: str | None = None
    ) -> SignalResult:
        """Deliver to another task."""
        return await asyncio.wrap_future(self._send(task_id, token, key, value, delivery_id))

    def signal_sync(
        self, task_id: str, token: Signal[T], key: str, value: T, *, delivery_id: str | None = None
    ) -> SignalResult:
        """`signal` for a sync tool: blocks its thread."""
        return self._send(task_id, token, key, value, delivery_id).result()

    async def create_task(self, task: DurableTask[In, R], input: In, *, key: str) -> ChildTask[R]:
        """Create a child task by an update of the own workflow."""
        return await asyncio.wrap_future(self._nesting.start_task(task, input, key))

    def create_task_sync(self, task: DurableTask[In, R], input: In, *, key: str) -> ChildTask[R]:
        """`create_task` for a sync tool: blocks its thread."""
        return self._nesting.start_task(task, input, key).result()

    @overload
    async def execute_tool(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: Literal[True] = True
    ) -> NestedResult: ...
    @overload
    async def execute_tool(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: Literal[False]
    ) -> NestedCall: ...
    async def execute_tool(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: bool = True
    ) -> NestedResult | NestedCall:
        """Start a nested call by an update of the own workflow, and await its result."""
        nested = await asyncio.wrap_future(self._nesting.start_tool(name, arguments, key))
        return await nested.result() if wait else nested

    @overload
    def execute_tool_sync(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: Literal[True] = True
    ) -> NestedResult: ...
    @overload
    def execute_tool_sync(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: Literal[False]
    ) -> NestedCall: ...
    def execute_tool_sync(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: bool = True
    ) -> NestedResult | NestedCall:
        """`execute_tool` for a sync tool: blocks its thread."""
        nested = self._nesting.start_tool(name, arguments, key).result()
        return nested.result_sync() if wait else nested

    async def expect(self, source: str, match: str, key: SignalKey) -> None:
        """Have webhooks that tell of `match` delivered to a key of this task."""
        await asyncio.wrap_future(self._expect(source, match, key))

    def expect_sync(self, source: str, match: str, key: SignalKey) -> None:
        """`expect` for a sync tool: blocks its thread."""
        self._expect(source, match, key).result()

    def callback_url(self, key: SignalKey, *, expires: datetime | None = None) -> str:
        """A URL to which a service POSTs the value of `key`."""
        self._check_open()
        self._people.check(key)
        return webhooks.callback_url(self._harness.settings, self.task_id, key, expires=expires)

    def answer_link(self, key: SignalKey, value: Any, *, person: str = "", expires: datetime | None = None) -> str:
        """A link to a page on which a person may answer `key`."""
        self._check_open()
        call, settings = self._input.call, self._harness.settings
        asked = arguments_digest(call.tool, call.arguments)
        until = expires or self.now() + LINK_GOOD_FOR
        return answer_link(settings, self.task_id, key, value, digest=asked, person=person, expires=until)

    async def configure(self, conversation_id: str, **change: Unpack[AgentFields]) -> Agent | None:
        """Choose anew for a conversation."""
        return await asyncio.wrap_future(self._configure(conversation_id, change))

    def configure_sync(self, conversation_id: str, **change: Unpack[AgentFields]) -> Agent | None:
        """`configure` for a sync tool: blocks its thread."""
        return self._configure(conversation_id, change).result()

    async def own_conversation(self, key: str, *, fork_of: str | None = None, at: int | None = None) -> str:
        """The id of a conversation of this task."""
        return await asyncio.wrap_future(self._own(key, fork_of, at))

    def own_conversation_sync(self, key: str, *, fork_of: str | None = None, at: int | None = None) -> str:
        """`own_conversation` for a sync tool: blocks its thread."""
        return self._own(key, fork_of, at).result()

    async def abort(self, work_id: str) -> bool:
        """Stop another task, or what a conversation is doing."""
        return await asyncio.wrap_future(self._abort(work_id))

    def abort_sync(self, work_id: str) -> bool:
        """`abort` for a sync tool: blocks its thread."""
        return self._abort(work_id).result()

    async def submit(
        self,
        conversation_id: str,
        content: str,
        *,
        request_id: str,
        when_busy: WhenBusy = "follow_up",
        notify: str | None = None,
    ) -> SubmissionView:
        """Submit an input to a conversation."""
        return await asyncio.wrap_future(self._submit(conversation_id, content, request_id, when_busy, notify))

    def submit_sync(
        self,
        conversation_id: str,
        content: str,
        *,
        request_id: str,
        when_busy: WhenBusy = "follow_up",
        notify: str | None = None,
    ) -> SubmissionView:
        """`submit` for a sync tool: blocks its thread."""
        return self._submit(conversation_id, content, request_id, when_busy, notify).result()

    async def commit(
        self,
        *,
        key: str,
        notes: Sequence[str] = (),
        inputs: Sequence[str] = (),
        signals: Sequence[Send[Any]] = (),
        tasks: Sequence[Start[Any]] = (),
        edits: Sequence[Edit[Any]] = (),
    ) -> bool:
        """Change the own conversation, all of it or nothing."""
        return await asyncio.wrap_future(self._commit(key, notes, inputs, signals, tasks, edits))

    def commit_sync(
        self,
        *,
        key: str,
        notes: Sequence[str] = (),
        inputs: Sequence[str] = (),
        signals: Sequence[Send[Any]] = (),
        tasks: Sequence[Start[Any]] = (),
        edits: Sequence[Edit[Any]] = (),
    ) -> bool:
        """`commit` for a sync tool: blocks its thread."""
        return self._commit(key, notes, inputs, signals, tasks, edits).result()

    def document(self, document: Document[T]) -> TaskDocument[T]:
        """A document of the own conversation, or of its session."""
        self._check_open()
        return self._committer.documents.of(self.conversation_id, document, self._at_home)

    def _send(
        self, task_id: str, token: Signal[T], key: str, value: T, delivery_id: str | None
    ) -> Future[SignalResult]:
        if problem := self._people.problem(token, delivery_id):
            return self._at_home(lambda: asyncio.create_task(_refused(problem, delivery_id or "")))
        # The same on every rerun, and another for every other key, so that a rerun delivers nothing twice.
        chosen = delivery_id or digest(canonical_json([self.task_id, task_id, token.name, key]))
        return self._at_home(
            lambda: asyncio.create_task(deliver(self._harness.client, task_id, token, key, value, delivery_id=chosen))
        )

    def _expect(self, source: str, match: str, key: SignalKey) -> Future[None]:
        self._people.check(key)
        expecting = partial(
            webhooks.expect, self._harness.client, source, match, self.task_id, key, task_queue=self._queue
        )
        return self._at_home(lambda: asyncio.create_task(expecting()))

    def _own(self, key: str, fork_of: str | None, at: int | None) -> Future[str]:
        return self._at_home(lambda: asyncio.create_task(self._committer.own_conversation(key, fork_of, at)))

    def _configure(self, conversation_id: str, change: AgentFields) -> Future[Agent | None]:
        conversation = self._harness.conversation(conversation_id)
        return self._at_home(lambda: asyncio.create_task(conversation.configure(**change)))

    def _abort(self, work_id: str) -> Future[bool]:
        return self._at_home(lambda: asyncio.create_task(self._committer.abort(work_id)))

    def _submit(
        self, conversation_id: str, content: str, request_id: str, when_busy: WhenBusy, notify: str | None
    ) -> Future[SubmissionView]:
        async def submitting() -> SubmissionView:
            if notify is not None:
                # Kept first: who looks after waiting tasks asks of which conversation this one waits.
                told = {"conversation_id": conversation_id, "request_id": request_id}
                await self._keep_memo(f"{NOTIFY_MEMO}{notify}", told, f"notify-{digest(notify)}")
            return await self._committer.submit(conversation_id, content, request_id, when_busy, notify)

        return self._at_home(lambda: asyncio.create_task(submitting()))

    def _commit(
        self,
        key: str,
        notes: Sequence[str],
        inputs: Sequence[str],
        signals: Sequence[Send[Any]],
        tasks: Sequence[Start[Any]],
        edits: Sequence[Edit[Any]],
    ) -> Future[bool]:
        if problem := next(filter(None, (self._people.problem(one.token) for one in signals)), ""):
            raise ValueError(problem)
        commit = self._committer.compose(key, notes, inputs, signals, tasks)
        for edit in edits:
            self._committer.documents.check(self.conversation_id, edit.document)

        async def committing() -> bool:
            await self._check_current()
            return await self._committer.commit(commit, edits)

        return self._at_home(lambda: asyncio.create_task(committing()))


async def _refused(problem: str, delivery_id: str) -> SignalResult:
    return SignalResult(answer="invalid", reason=problem, delivery_id=delivery_id)
