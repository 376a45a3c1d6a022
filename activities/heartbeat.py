"""A heartbeat that goes on beside the work and carries what the work has published so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from temporalio import activity

from tarry.core.protocol import Progress

COALESCE = 0.2
"""Seconds in which several changes become one heartbeat."""


class Heartbeat:
    """Beats a few times within the timeout, and soon after each `touch`."""

    def __init__(self, progress: Callable[[], Progress]) -> None:
        timeout = activity.info().heartbeat_timeout
        self._interval = timeout.total_seconds() / 4 if timeout else 10.0
        self._progress = progress
        self._changed = asyncio.Event()

    def touch(self) -> None:
        """Something new was published. Call it on the worker's loop."""
        self._changed.set()

    async def __aenter__(self) -> Self:
        activity.heartbeat(self._progress())
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        if error is not None and self._changed.is_set():
            # The next attempt is told what this one had published.
            activity.heartbeat(self._progress())

    async def _beat(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            activity.heartbeat(self._progress())
            await asyncio.sleep(COALESCE)
