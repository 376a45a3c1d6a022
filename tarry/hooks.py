"""Hooks of an extension: what it may say of calls, results, runs and requests (spec §5, §6.5, §13.6).

A hook answers; the call makes the answer durable. Hooks may be asked again at any time, so what one does outside is
keyed by the call and its arguments, `HookCall.task_id` and `HookCall.digest`, or remembered in a memo.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar

from signals.parking import Sleep
from signals.tokens import Signal
from tarry.api import Expired, Received, ToolApi
from tarry.api.documents import DocumentsApi
from tarry.core.compaction_view import CompactionReason
from tarry.core.messages import AssistantMessage, Message, Usage
from tarry.core.protocol import UnansweredReason
from tarry.core.run_hooks import RoundResult
from tarry.tasks import DurableTask
from tarry.tools import ToolResult

T = TypeVar("T")

BlockCode = Literal["blocked", "denied", "expired"]


@dataclass(frozen=True)
class HookCall:
    """A call before its intent, or with its result: what would run, or ran.

    `digest` is of tool and arguments, in canonical form: an approval binds to it. `caller` is the run or the task that
    made the call.
    """

    task_id: str
    conversation_id: str
    caller: str
    tool: str
    arguments: dict[str, Any]
    digest: str


@dataclass(frozen=True)
class Block:
    """The call does not run. The model reads `reason`.

    `denied` by a person, `expired` when nobody answered, else `blocked`; `by` says who decided, for the record.
    """

    reason: str
    code: BlockCode = "blocked"
    by: str = ""


@dataclass(frozen=True)
class Replace:
    """Other arguments for the call; the hooks that follow, and every later question, see these."""

    arguments: dict[str, Any]


@dataclass(frozen=True)
class CallResult:
    """A result, before it is told: `code` is empty for a plain one, else how the call ended.

    `ran`: some of the call's own code may have run, to its end or not.
    """

    text: str
    is_error: bool
    code: str
    details: Any
    ran: bool


class HookApi(DocumentsApi, Protocol):
    """What a hook may use. The coroutines are for async hooks, the `*_sync` twins for sync ones; documents are read."""

    def now(self) -> datetime:
        """The server's time, aware."""
        ...

    def diagnostic(self, message: str, *, severity: Literal["info", "warn", "error"] = "info", code: str = "") -> None:
        """Add a remark to the result of the call, for the record and for the model: who allowed it, say.

        Of passes before the call runs those of the last one count.
        """
        ...

    async def memo(self, key: str, value: Any) -> Any:
        """Remember `value` under `key` for this call unless the key holds one; return what it holds.

        First writer wins, and hooks share keys with the tool. Durable when the pass of the hooks is; after the call
        has its result, memos can be read and are not kept.

        Raises:
            TaskFull: the memos would exceed their quota.
            ValueError: the key names nothing, or the value is no JSON data.
        """
        ...

    def memo_sync(self, key: str, value: Any) -> Any:
        """`memo` for a sync hook."""
        ...

    async def read_signal(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key of the call holds, whatever woke it.

        Raises:
            Unreadable: the value was stored under another declaration and does not fit this one.
        """
        ...

    def read_signal_sync(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """`read_signal` for a sync hook."""
        ...


Gate = Replace | Block | Sleep | None
BeforeTool = Callable[[HookCall, HookApi], Awaitable[Gate] | Gate]
AfterTool = Callable[[HookCall, CallResult, HookApi], Awaitable[ToolResult | None] | ToolResult | None]


@dataclass(frozen=True)
class HookTask:
    """A durable task that a run waits for, as its child."""

    task: DurableTask[Any, Any]
    input: Any


@dataclass(frozen=True)
class Continue:
    """Send the agent back to work with this input, as if a person had said it. A person's own input wins over it."""

    input: str


@dataclass(frozen=True)
class Turn:
    """A turn of a run. `text` is what the model said, `results` those of its calls, in order."""

    conversation_id: str
    generation_id: str
    turn: int
    text: str
    results: tuple[RoundResult, ...] = ()


@dataclass(frozen=True)
class RunEnded:
    """A run whose inputs have settled: `request_ids` are theirs.

    `answer` is the text that they are `done` with, None when they are `unanswered`, for `reason`.
    """

    conversation_id: str
    generation_id: str
    request_ids: tuple[str, ...]
    answer: str | None
    reason: UnansweredReason = ""
    detail: str = ""


AfterTools = Callable[[Turn], Awaitable[Sequence[HookTask] | None] | Sequence[HookTask] | None]
Yielding = Continue | Sequence[HookTask] | None
OnYield = Callable[[Turn], Awaitable[Yielding] | Yielding]
AfterRun = Callable[[RunEnded], Awaitable[Sequence[HookTask] | None] | Sequence[HookTask] | None]


@dataclass(frozen=True)
class Compacting:
    """A context before it is compacted: `text` is what a summary will stand for, as its model would read it.

    `before` is an estimate of the context's tokens, `kept` of those that stay as they are.
    """

    conversation_id: str
    reason: CompactionReason
    instructions: str
    text: str
    before: int
    kept: int


@dataclass(frozen=True)
class Decline:
    """The context stays as it is."""

    reason: str = ""


@dataclass(frozen=True)
class OwnSummary:
    """A summary made without the model."""

    text: str


CompactGate = Decline | OwnSummary | None
BeforeCompact = Callable[[Compacting], Awaitable[CompactGate] | CompactGate]


@dataclass(frozen=True)
class RequestTold:
    """A request that is about to be sent, as the hooks before made it."""

    conversation_id: str
    generation_id: str
    turn: int
    instructions: str
    messages: tuple[Message, ...]
    tools: tuple[str, ...]


@dataclass(frozen=True)
class ResponseTold:
    """How a request ended: with a `message` and what it cost, or with the text of an `error`."""

    conversation_id: str
    generation_id: str
    turn: int
    message: AssistantMessage | None
    usage: Usage | None
    error: str


BeforeRequest = Callable[[RequestTold], Awaitable[Sequence[Message] | None] | Sequence[Message] | None]
AfterResponse = Callable[[ResponseTold], Awaitable[None] | None]
TaskHook = Callable[[Any, ToolApi], Any]


@dataclass(frozen=True)
class Hooks:
    """The hooks of an extension.

    Args:
        before_tool: asked before a call's intent: None lets it pass, a `Replace` changes its arguments, a `Block` or a
            `Sleep` ends the chain. After each wake all are asked again, from the first. One that raises, or that does
            not answer in time, blocks. A span as the `until` of a sleep on signals is fixed the first time: asked
            again, the call keeps the deadline that it has. The checkpoint of a sleep is not kept.
        after_tool: told of every result of a call, blocked and aborted ones included; may return another one. What
            names no tool, or has arguments that do not fit it, never becomes a call.
        after_tools: told of every round of tools; the tasks it returns are awaited before the next request. One that
            completes with `{"terminate": True}` ends the run, with the response that made the calls as its answer.
        on_yield: told of an answer before it stands. A `Continue`, or the first of its tasks that completes with
            `{"continue": text}`, sends the agent back to work.
        before_compact: asked before a summary is made: a `Decline` leaves the context as it is, an `OwnSummary` takes
            the model's place; the first of either counts. May be asked again when its worker is lost.
        before_request: given every request before it is sent, also one that is sent again; may return other messages,
            for this request alone. The next hook is given these. One that raises, or that returns what a strict
            provider refuses, is noted and changes nothing.
        after_response: told of every response, and of every failure of a request, before it is judged.
        after_run: told of a run whose inputs have settled, whatever its end. The tasks it returns are started and
            awaited by nobody: they outlive the run, and a Stop of the conversation does not reach them. Told of again,
            as after a reset or a crash, it starts none twice.
        of_tasks: for durable tasks that ask: by the task's name and the hook's, such as `("app.send", "before_send")`.
            Each is given what the task tells and its `api`; what it answers is for the task to judge.
        io: the hooks do IO: they have 55 seconds together, not 4.
    """

    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    after_tools: AfterTools | None = None
    on_yield: OnYield | None = None
    after_run: AfterRun | None = None
    before_compact: BeforeCompact | None = None
    before_request: BeforeRequest | None = None
    after_response: AfterResponse | None = None
    of_tasks: Mapping[tuple[str, str], TaskHook] = field(default_factory=dict)
    io: bool = False
