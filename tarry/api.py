"""The `api` that running code of an application is given: a tool, a hook of it, a phase of a durable task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from signals.parking import Wake
from signals.tokens import Signal, SignalKey
from tarry.core.protocol import SubmissionView, WhenBusy
from tarry.core.waiting import SignalResult
from tarry.tasks import DurableTask, Outcome

T = TypeVar("T")
In = TypeVar("In")
R = TypeVar("R")


@dataclass(frozen=True)
class Received(Generic[T]):
    """A key holds this value, which came `at` that time."""

    value: T
    at: datetime


@dataclass(frozen=True)
class Expired:
    """The deadline of a wait on the key passed before a value came; none will."""


class StaleRun(Exception):
    """This run of the tool was given up (its worker was taken for dead, or the call ended): stop working."""


class TaskFull(Exception):
    """A value is too large, or what the call already holds leaves no room for it; nothing was stored."""


@dataclass(frozen=True)
class NestedResult:
    """What a nested call gave. `structured` is for programs: what the tool declares as its output, else its text."""

    task_id: str
    text: str
    is_error: bool = False
    code: str = ""
    structured: Any = None
    details: Any = None


class NestedCall(Protocol):
    """A nested call that was started. A `Wait` is on its `task_id`."""

    @property
    def task_id(self) -> str:
        """Its id."""
        ...

    async def result(self) -> NestedResult:
        """Its result, waited for as `execute_tool` does; after a wake that names it, at once."""
        ...

    def result_sync(self) -> NestedResult:
        """`result` for a sync tool."""
        ...


class ChildTask(Protocol[R]):
    """A durable task that was created. A `Wait` is on its `task_id`."""

    @property
    def task_id(self) -> str:
        """Its id."""
        ...

    async def outcome(self) -> Outcome[R]:
        """How it ended, waited for as `execute_tool` does; after a wake that names it, at once."""
        ...

    def outcome_sync(self) -> Outcome[R]:
        """`outcome` for a sync tool."""
        ...


@dataclass(frozen=True)
class Send(Generic[T]):
    """A value for a key of another task, to leave with a commit."""

    task_id: str
    token: Signal[T]
    key: str
    value: T


@dataclass(frozen=True)
class Start(Generic[In]):
    """A durable task to be started with a commit, under a key of the conversation. It outlives who committed it."""

    task: DurableTask[In, Any]
    input: In
    key: str


class ToolApi(Protocol):
    """What a running tool may use. Declare a parameter named `api` to receive it.

    Safe to use from the tool's own thread or event loop; the coroutines are for async tools, the
    `*_sync` twin for sync ones.
    """

    @property
    def task_id(self) -> str:
        """The id of this call: its workflow id, the same on every rerun."""
        ...

    @property
    def conversation_id(self) -> str:
        """The conversation in which the model made the call."""
        ...

    @property
    def idempotency_key(self) -> str:
        """Fixed with the call's arguments: a rerun sends the same, an equal call another (spec §4.6)."""
        ...

    @property
    def attempt(self) -> int:
        """1 on the first run, one more on each rerun."""
        ...

    @property
    def wake(self) -> Wake | None:
        """Why a parked call runs again; None before its first park. A rerun sees the same one (spec §3.6)."""
        ...

    @property
    def checkpoint(self) -> Any:
        """What the call last parked with, as JSON data; None before its first park."""
        ...

    @property
    def is_cancelled(self) -> bool:
        """Whether the call was stopped. A blocking tool should look now and then and return."""
        ...

    def now(self) -> datetime:
        """The server's time, aware: no skew between hosts."""
        ...

    def output(self, text: str) -> None:
        """Publish progress. Its tail survives a crash and reaches the model in an `interrupted` result."""
        ...

    def diagnostic(self, message: str, *, severity: Literal["info", "warn", "error"] = "info", code: str = "") -> None:
        """Add a remark the model sees after the content."""
        ...

    async def memo(self, key: str, value: Any) -> Any:
        """Store `value` under `key` unless the key holds one; return what the key holds.

        Durable when it returns, first writer wins, kept over reruns.

        Raises:
            StaleRun: this run was given up.
            TaskFull: the call's memos would exceed their quota.
        """
        ...

    def memo_sync(self, key: str, value: Any) -> Any:
        """`memo` for a sync tool."""
        ...

    async def read_signal(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key of this call holds, whatever woke it: a value, that its wait expired, or nothing yet (spec §3.10).

        Raises:
            Unreadable: the value was stored under another declaration and does not fit this one.
            StaleRun: this run was given up.
        """
        ...

    def read_signal_sync(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """`read_signal` for a sync tool."""
        ...

    async def signal(
        self, task_id: str, token: Signal[T], key: str, value: T, *, delivery_id: str | None = None
    ) -> SignalResult:
        """Deliver a value to another task, and say what became of it; never raises for what the task answers.

        By default the delivery id is made of this call, this key and that task, so a rerun delivers nothing twice.

        Raises:
            StaleRun: this run was given up.
            ServerUnavailable: no server answers.
        """
        ...

    def signal_sync(
        self, task_id: str, token: Signal[T], key: str, value: T, *, delivery_id: str | None = None
    ) -> SignalResult:
        """`signal` for a sync tool."""
        ...

    async def create_task(self, task: DurableTask[In, R], input: In, *, key: str) -> ChildTask[R]:
        """Create a durable task that belongs to this one, durably when it returns (spec §4.9).

        The same key gives the same task on every run. It is stopped, and its end awaited, when this one settles.

        Raises:
            ValueError: the key was used for another task or input, or the input does not fit.
            TaskFull: this one has created 256 others, or tasks are nested too deeply.
            StaleRun: this run was given up.
        """
        ...

    def create_task_sync(self, task: DurableTask[In, R], input: In, *, key: str) -> ChildTask[R]:
        """`create_task` for a sync tool."""
        ...

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
        """Run a tool of the application as a nested call that belongs to this task, and give its result (spec §4.9).

        It is a call like any other, with gates and all, but its result goes to this task and not to the model. The
        same key gives the same call on every run; without one, the position in the run is the key, which is not
        possible any more once this task has waited. An unknown tool and bad arguments are results too.

        After a minute of waiting a replay-safe task is parked until the call ends and then run again, with the same
        keys, wake and checkpoint; an unsafe one goes on waiting, for as long as its timeout allows. With `wait=False`
        the call is started, and its handle given at once.

        Raises:
            ValueError: the key was used for another tool or other arguments, or one is needed.
            TaskFull: this one has created 256 others, or tasks are nested too deeply.
            StaleRun: this run was given up.
        """
        ...

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
        """`execute_tool` for a sync tool."""
        ...

    async def expect(self, source: str, match: str, key: SignalKey) -> None:
        """Have the gateway deliver webhooks of `source` that tell of `match` to `key` of this task (docs/webhooks.md).

        Durable when it returns. Call it before the outside work is started; a webhook that came earlier is delivered
        as well. Once more with the same key changes nothing.

        Raises:
            MatchTaken: another task, or another key, expects that match.
            ValueError: the match or the key cannot be one.
            ServerUnavailable: no server answers; try again.
            StaleRun: this run was given up.
        """
        ...

    def expect_sync(self, source: str, match: str, key: SignalKey) -> None:
        """`expect` for a sync tool."""
        ...

    def callback_url(self, key: SignalKey, *, expires: datetime | None = None) -> str:
        """A URL of the gateway for a service that takes one for each job: what it POSTs there is the value of `key`.

        The same on every rerun; nobody can guess it, and it delivers to that key only.

        Raises:
            WebhookError: the worker has no `TARRY_GATEWAY_URL` or no `TARRY_CALLBACK_SECRETS`.
            ValueError: the key cannot be one, or `expires` has no time zone.
        """
        ...

    async def ask_hooks(self, name: str, told: Any) -> list[Any]:
        """What the hooks of that name of this durable task answer, in the order of the extensions; None is left out.

        They run here, and anew whenever this run does. One that raises is left out too, with a diagnostic.
        """
        ...

    def ask_hooks_sync(self, name: str, told: Any) -> list[Any]:
        """`ask_hooks` for a sync phase; async hooks are left out, with a diagnostic."""
        ...

    async def own_conversation(self, key: str) -> str:
        """The id of a conversation that belongs to this task, started when there is none; the same key, the same one.

        It outlives the task: whoever has its id may go on with it. Stop what it does in the `cancel` hook, by `abort`.

        Raises:
            ServerUnavailable: no server answers.
            StaleRun: this run was given up.
        """
        ...

    def own_conversation_sync(self, key: str) -> str:
        """`own_conversation` for a sync tool."""
        ...

    async def abort(self, work_id: str) -> bool:
        """Stop another task, or what a conversation is doing; False when it was over, or was never there."""
        ...

    def abort_sync(self, work_id: str) -> bool:
        """`abort` for a sync tool."""
        ...

    async def submit(
        self,
        conversation_id: str,
        content: str,
        *,
        request_id: str,
        when_busy: WhenBusy = "follow_up",
        notify: str | None = None,
    ) -> SubmissionView:
        """Submit an input to a conversation, this one or another, durably; the same request id again changes nothing.

        With `notify`, the key of that name of `SUBMISSION_SETTLED` is delivered to this task when the submission ends
        (spec §7.2): sleep on it, or read it. A conversation that ends without settling it is an end too.

        Raises:
            RequestConflict: the request id was used for other content.
            InboxFull, InputTooLarge: it was refused.
            ServerUnavailable: no server answers; submit again under the same request id.
            StaleRun: this run was given up.
        """
        ...

    def submit_sync(
        self,
        conversation_id: str,
        content: str,
        *,
        request_id: str,
        when_busy: WhenBusy = "follow_up",
        notify: str | None = None,
    ) -> SubmissionView:
        """`submit` for a sync tool."""
        ...

    async def commit(
        self,
        *,
        key: str,
        notes: Sequence[str] = (),
        inputs: Sequence[str] = (),
        signals: Sequence[Send[Any]] = (),
        tasks: Sequence[Start[Any]] = (),
    ) -> bool:
        """Change this task's conversation, all of it or nothing, durably when it returns (spec §7.3).

        Notes are for people, and stand in the transcript once no run is open; inputs are queued; signals and tasks
        leave for where they go, and what became of a signal is its receipt there. False when `key` was committed by
        this task before: then nothing happens a second time.

        Raises:
            RequestConflict: the key was used for other content.
            InboxFull: too much waits in the conversation.
            ValueError: it has over 512 KiB, a part does not fit, or this task belongs to no conversation.
            NoSuchConversation, ServerUnavailable: nobody took it.
            StaleRun: this run was given up.
        """
        ...

    def commit_sync(
        self,
        *,
        key: str,
        notes: Sequence[str] = (),
        inputs: Sequence[str] = (),
        signals: Sequence[Send[Any]] = (),
        tasks: Sequence[Start[Any]] = (),
    ) -> bool:
        """`commit` for a sync tool."""
        ...
