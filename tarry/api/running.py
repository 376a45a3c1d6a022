"""What running code is told of its own run, and how it publishes and remembers."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Protocol

from signals.parking import Wake
from tarry.core.messages import Usage
from tarry.environment import Environment


class StaleRun(Exception):
    """This run of the tool was given up (its worker was taken for dead, or the call ended): stop working."""


class TaskFull(Exception):
    """A value is too large, or what the call already holds leaves no room for it; nothing was stored."""


class RunningApi(Protocol):
    """The run itself: ids, attempt, wake, clock, output, memos."""

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

    @property
    def env(self) -> Environment:
        """The files and commands of the conversation, made anew for each run (spec §14.1).

        Raises:
            NoEnvironment: no extension gives one.
            StaleRun: this run was given up.
        """
        ...

    def now(self) -> datetime:
        """The server's time, aware: no skew between hosts."""
        ...

    def output(self, text: str) -> None:
        """Publish progress. Its tail survives a crash and reaches the model in an `interrupted` result."""
        ...

    def usage(self, spent: Usage) -> None:
        """Report what this call spent at a provider of its own; several reports add up (spec §7.8).

        It counts for this tool, in the ledger of the conversation. What nested calls and created tasks report counts
        for them, and is not to be reported again; neither is what another conversation spends, which has a ledger of
        its own. A crash loses what was reported in the last fifth of a second. `cost` is in US dollars, None when it
        is not known; `Prices.cost` computes it.

        Raises:
            ValueError: a number is negative.
            StaleRun: this run was given up.
        """
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
