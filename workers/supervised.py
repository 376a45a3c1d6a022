"""One worker of a supervisor, from its start to its end, and how long it took to be at work."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tarry.core.scaling import Start
from tarry.processes import Child, ChildError
from workers.first_work import FIRST_WORK

Tell = Callable[..., None]
"""Is told an event by its name, with its facts."""

WORK_PATIENCE = 60.0
"""Seconds in which a worker's first work is looked for."""

_KEPT_LOG = 1024 * 1024
"""Bytes of a log above which the next start begins a new one; one old one stays."""


class Supervised:
    """A worker process. `live` is its whole life; `leave` ends it in order, whatever it is at.

    Attributes:
        is_ready: it serves, or did.
        is_told: it was told to leave.
    """

    def __init__(self, number: int, child: Child, start: Start, tell: Tell, patience: float) -> None:
        self.number = number
        self.is_ready = False
        self.is_told = False
        self.began = datetime.now(UTC)
        self._child = child
        self._start = start
        self._tell = tell
        self._patience = patience
        self._seconds: dict[str, float] = {}
        self._stopping: asyncio.Task[None] | None = None

    @property
    def lived(self) -> timedelta:
        """Since its start."""
        return datetime.now(UTC) - self.began

    async def live(self, served: Callable[[], None]) -> int:
        """Start it, call `served` when it serves, and return its exit code when it has ended; `-9`: by signal 9."""
        self._pass("started")
        self._say("started", cause=self._start.cause, since=self._start.since.isoformat(), log=str(self._child.log))
        try:
            _make_room(self._child)
            await self._child.start()
        except (ChildError, OSError) as error:
            if not self.is_told:
                self._say("failed", reason=_last_line(error))
            return await self._child.wait() if isinstance(error, ChildError) else os.EX_OSERR
        self.is_ready = True
        self._pass("ready")
        if self.is_told:  # before there was a process to tell
            await self._child.stop(self._patience)
        else:
            served()
            self._say("serving", pid=self._child.pid, seconds=dict(self._seconds))
            await self._tell_first_work()
        return await self._child.wait()

    def leave(self, why: str) -> None:
        """Tell it to stop: running work has its grace time, and then `live` returns."""
        self.is_told = True
        self._say("stopping", why=why)
        self._stopping = asyncio.create_task(self._child.stop(self._patience))

    async def _tell_first_work(self) -> None:
        try:
            found = await self._child.says(rf"(?<={re.escape(FIRST_WORK)})[^\s\"]+(?=[\"\n])", WORK_PATIENCE)
        except OSError:  # somebody took its log away: it works all the same
            return
        if found is not None:
            self._pass("working")
            self._say("working", work=found, cause=self._start.cause, seconds=dict(self._seconds))

    def _pass(self, milestone: str) -> None:
        """Note how long after its cause it got there; below zero: before the deadline."""
        self._seconds[milestone] = round((datetime.now(UTC) - self._start.since).total_seconds(), 3)

    def _say(self, event: str, **facts: Any) -> None:
        self._tell(event, worker=self.number, **facts)


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    return f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"


def _last_line(error: Exception) -> str:
    """Why, as the worker itself says it in the last line of its log."""
    return str(error).splitlines()[-1] if str(error) else type(error).__name__


def _make_room(child: Child) -> None:
    if child.log.exists() and child.log.stat().st_size > _KEPT_LOG:
        child.log.replace(child.log.with_suffix(".log.1"))
