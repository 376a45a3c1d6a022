"""What stands in the inbox at this moment: one look at the server for all who watch (spec §23.1).

Looking takes a tenth of the time at most, and goes on by itself while somebody watches. No worker is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime

from temporalio.client import Client

from tarry.client.errors import ServerUnavailable
from tarry.client.questions import parked_work
from tarry.core.live import Question

MOST = 2_000
"""Parked tasks that are listed."""
_FRESH = 1.0
_LOAD = 0.1


@dataclass(frozen=True)
class Standing:
    """The parked tasks, the most urgent first; `is_cut`: there are more than are listed. `problem`: it may be old."""

    parked: tuple[Question, ...] = ()
    is_cut: bool = False
    problem: str = ""

    @property
    def version(self) -> str:
        """Another one for each other standing."""
        said = [f"{self.is_cut}{self.problem}", *(f"{one.task_id} {one.digest} {one.since}" for one in self.parked)]
        return hashlib.sha256("\n".join(said).encode()).hexdigest()[:16]


class Board:
    """The looks of one gateway."""

    def __init__(self, client: Client, task_queue: str) -> None:
        self._client = client
        self._queue = task_queue
        self._standing = Standing()
        self._look: asyncio.Task[Standing] | None = None
        self._fresh_until = 0.0
        self._watchers: set[asyncio.Event] = set()
        self._is_closed = False

    @property
    def watched(self) -> int:
        """How many watch."""
        return len(self._watchers)

    def close(self) -> None:
        """End every watch."""
        self._is_closed = True
        for watcher in self._watchers:
            watcher.set()

    async def standing(self, *, anew: bool = False) -> Standing:
        """How it stands, at most a second ago or as long as looks must be apart; `anew`: now."""
        is_fresh = not anew and time.monotonic() < self._fresh_until
        if self._look is None or (self._look.done() and not is_fresh):
            self._look = asyncio.create_task(self._looked())
        # Who leaves takes the look from nobody else.
        return await asyncio.shield(self._look)

    async def changes(self) -> AsyncGenerator[Standing, None]:
        """How it stands, and again whenever that is another; until the board closes."""
        told = ""
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        try:
            while not self._is_closed:
                standing = await self.standing()
                if standing.version != told:
                    told = standing.version
                    yield standing
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(watcher.wait(), max(0.05, self._fresh_until - time.monotonic()))
        finally:
            self._watchers.discard(watcher)

    async def _looked(self) -> Standing:
        began = time.monotonic()
        try:
            found = await parked_work(self._client, self._queue, MOST + 1)
            self._standing = Standing(tuple(sorted(found, key=_urgency)[:MOST]), is_cut=len(found) > MOST)
        except ServerUnavailable:
            self._standing = Standing(self._standing.parked, self._standing.is_cut, "Temporal does not answer")
        ended = time.monotonic()
        self._fresh_until = ended + max(_FRESH, (ended - began) * (1 / _LOAD - 1))
        return self._standing


def _urgency(one: Question) -> tuple[bool, datetime, datetime]:
    """What ends first, then what has waited longest."""
    return one.until is None, one.until or one.since, one.since
