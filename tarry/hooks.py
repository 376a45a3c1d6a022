"""Hooks of an extension: what it may say before a tool runs, and of every result (spec §5).

A hook answers; the call makes the answer durable. Hooks may be asked again at any time, so what one does outside is
keyed by the call and its arguments, `HookCall.task_id` and `HookCall.digest`, or remembered in a memo.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeVar

from signals.parking import Sleep
from signals.tokens import Signal
from tarry.api import Expired, Received
from tarry.tools import ToolResult

T = TypeVar("T")


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
    code: Literal["blocked", "denied", "expired"] = "blocked"
    by: str = ""


@dataclass(frozen=True)
class Replace:
    """Other arguments for the call; the hooks that follow, and every later question, see these."""

    arguments: dict[str, Any]


@dataclass(frozen=True)
class CallResult:
    """A result, before it is told: `code` is empty for a plain one, else how the call ended."""

    text: str
    is_error: bool
    code: str
    details: Any


class HookApi(Protocol):
    """What a hook may use. The coroutines are for async hooks, the `*_sync` twins for sync ones."""

    def now(self) -> datetime:
        """The server's time, aware."""
        ...

    async def memo(self, key: str, value: Any) -> Any:
        """Remember `value` under `key` for this call unless the key holds one; return what it holds.

        First writer wins, and hooks share keys with the tool. Durable when the pass of the hooks is.
        """
        ...

    def memo_sync(self, key: str, value: Any) -> Any:
        """`memo` for a sync hook."""
        ...

    async def read_signal(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key of the call holds, whatever woke it."""
        ...

    def read_signal_sync(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """`read_signal` for a sync hook."""
        ...


Gate = Replace | Block | Sleep | None
BeforeTool = Callable[[HookCall, HookApi], Awaitable[Gate] | Gate]
AfterTool = Callable[[HookCall, CallResult, HookApi], Awaitable[ToolResult | None] | ToolResult | None]


@dataclass(frozen=True)
class Hooks:
    """The hooks of an extension.

    Args:
        before_tool: asked before a call's intent: None lets it pass, a `Replace` changes its arguments, a `Block` or a
            `Sleep` ends the chain. After each wake all are asked again, from the first. One that raises, or that does
            not answer in time, blocks.
        after_tool: told of every result of a call, blocked and aborted ones included; may return another one.
        io: the hooks do IO. Without it they have 4 seconds together, with it 60, at six events a pass.
    """

    before_tool: BeforeTool | None = None
    after_tool: AfterTool | None = None
    io: bool = False
