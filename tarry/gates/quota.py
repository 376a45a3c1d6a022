"""Quotas: so many calls in a span of time; others wait until the span has room.

A slot is taken in the pass before intent, under the id of the call, so that no other pass takes a second one. The
outcome gives it back when none of the call's code ran (spec §5.6); else it counts until its span has passed. One that
nobody gives back, since its call was ended by force, is free again by then too.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from signals.parking import Sleep
from tarry.app import Extension
from tarry.hooks import CallResult, Gate, HookApi, HookCall, Hooks

BUSY_SECONDS = 10.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)
"""Times are stored as whole numbers of it."""


class QuotaStore(Protocol):
    """Where slots are kept. Hooks call it from threads of their own."""

    def reserve(
        self, quota: str, bucket: str, task_id: str, *, limit: int, window: timedelta, now: datetime
    ) -> datetime | None:
        """Take a slot of `bucket` from `now` on, all at once; None: it is taken. Else when one is free at the earliest.

        A call has one slot of a quota: what it held before moves to `bucket` and `now`.
        """
        ...

    def release(self, quota: str, task_id: str) -> None:
        """Give back the slot of a call, if it holds one."""
        ...


def quota(
    limit: int,
    window: timedelta,
    store: QuotaStore,
    *,
    applies: Callable[[HookCall], bool] = lambda _: True,
    bucket: Callable[[HookCall], str] = lambda call: call.tool,
    io: bool = True,
    name: str = "quota",
) -> Extension:
    """A gate that lets at most `limit` calls of a bucket run in any span of `window`.

    Install it behind gates that wait long: a call holds its slot while a later gate makes it wait.

    Args:
        store: `SqliteQuotas` for the workers of one host, `MemoryQuotas` for one worker, or one of your own.
        applies: to which calls.
        bucket: which calls share slots; by default those of one tool.
        io: whether the store does IO.
        name: of the extension, and of the quota in its store; another one for each further gate of this kind.

    Raises:
        ValueError: the limit or the window lets no call run.
    """
    if limit < 1 or window <= timedelta(0):
        raise ValueError("a quota is of at least one call in a span of time")

    def before(call: HookCall, api: HookApi) -> Gate:
        if not applies(call):
            return None
        free = store.reserve(name, bucket(call), call.task_id, limit=limit, window=window, now=api.now())
        return None if free is None else Sleep(until=free)

    def after(call: HookCall, result: CallResult, api: HookApi) -> None:
        if not result.ran:
            store.release(name, call.task_id)

    return Extension(name, hooks=Hooks(before_tool=before, after_tool=after, io=io))


class SqliteQuotas:
    """Slots in a SQLite file: shared by all workers of one host, and kept over their restarts."""

    def __init__(self, path: str | Path) -> None:
        self._path = str(path)
        with self._transaction() as base:
            base.execute(
                "CREATE TABLE IF NOT EXISTS slots"
                " (quota TEXT, task TEXT, bucket TEXT, at INTEGER, PRIMARY KEY (quota, task))"
            )

    def reserve(
        self, quota: str, bucket: str, task_id: str, *, limit: int, window: timedelta, now: datetime
    ) -> datetime | None:
        """Take a slot, or say when one is free."""
        at, span = (now - EPOCH) // TICK, window // TICK
        with self._transaction() as base:
            base.execute("DELETE FROM slots WHERE quota = ? AND bucket = ? AND at <= ?", (quota, bucket, at - span))
            others = base.execute(
                "SELECT at FROM slots WHERE quota = ? AND bucket = ? AND task <> ? ORDER BY at DESC LIMIT ?",
                (quota, bucket, task_id, limit),
            ).fetchall()
            if len(others) < limit:
                base.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)", (quota, task_id, bucket, at))
                return None
        oldest: int = others[-1][0]
        return EPOCH + (oldest + span) * TICK

    def release(self, quota: str, task_id: str) -> None:
        """Give back a slot."""
        with self._transaction() as base:
            base.execute("DELETE FROM slots WHERE quota = ? AND task = ?", (quota, task_id))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # One for each: a connection is its thread's, and a hook has a thread of its own.
        base = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None)
        with contextlib.closing(base):
            base.execute("BEGIN IMMEDIATE")
            with base:
                yield base


class MemoryQuotas:
    """Slots in the memory of one process: another worker has others, and a restart forgets them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: dict[str, dict[str, tuple[str, datetime]]] = {}

    def reserve(
        self, quota: str, bucket: str, task_id: str, *, limit: int, window: timedelta, now: datetime
    ) -> datetime | None:
        """Take a slot, or say when one is free."""
        with self._lock:
            slots = {task: slot for task, slot in self._slots.get(quota, {}).items() if slot[1] > now - window}
            self._slots[quota] = slots
            others = sorted(at for task, (place, at) in slots.items() if place == bucket and task != task_id)
            if len(others) < limit:
                slots[task_id] = (bucket, now)
                return None
        return others[-limit] + window

    def release(self, quota: str, task_id: str) -> None:
        """Give back a slot."""
        with self._lock:
            self._slots.get(quota, {}).pop(task_id, None)
