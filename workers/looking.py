"""One look at the server at a time for all who ask a process, however many they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

_FRESH = 1.0
"""Seconds for which a look is good enough for the next one who asks."""
_LOAD = 0.1
"""The part of the time that looking takes at most."""

T = TypeVar("T")


class Looks(Generic[T]):
    """The looks of one process, each made by `look`."""

    def __init__(self, look: Callable[[], Awaitable[T]]) -> None:
        self._look = look
        self._newest: asyncio.Task[T] | None = None
        self._fresh_until = 0.0

    @property
    def rest(self) -> float:
        """Seconds for which the newest one is good enough."""
        return max(0.0, self._fresh_until - time.monotonic())

    async def newest(self, *, anew: bool = False) -> T:
        """What was seen at most a second ago, or as long ago as looks must be apart; `anew`: now. Raises as `look`."""
        if self._newest is None or (self._newest.done() and (anew or not self.rest)):
            self._newest = asyncio.create_task(self._looked())
        # Who leaves takes the look from nobody else.
        return await asyncio.shield(self._newest)

    async def _looked(self) -> T:
        began = time.monotonic()
        try:
            return await self._look()
        finally:
            ended = time.monotonic()
            self._fresh_until = ended + max(_FRESH, (ended - began) * (1 / _LOAD - 1))
