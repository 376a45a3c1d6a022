"""What stands in the inbox at this moment: one look at the server for all who watch (spec §23.1).

Looking takes a tenth of the time at most, and goes on by itself while somebody watches. No worker is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime

from temporalio.client import Client

from tarry.client.errors import ServerUnavailable
from tarry.client.questions import parked_work
from tarry.core.live import Question
from workers.looking import Looks

MOST = 2_000
"""Parked tasks that are listed."""


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
        self._looks = Looks(self._look)
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
        return await self._looks.newest(anew=anew)

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
                    await asyncio.wait_for(watcher.wait(), max(0.05, self._looks.rest))
        finally:
            self._watchers.discard(watcher)

    async def _look(self) -> Standing:
        try:
            found = await parked_work(self._client, self._queue, MOST + 1)
            self._standing = Standing(tuple(sorted(found, key=_urgency)[:MOST]), is_cut=len(found) > MOST)
        except ServerUnavailable:
            self._standing = Standing(self._standing.parked, self._standing.is_cut, "Temporal does not answer")
        return self._standing


def _urgency(one: Question) -> tuple[bool, datetime, datetime]:
    """What ends first, then what has waited longest."""
    return one.until is None, one.until or one.since, one.since
