"""Work that a test holds in the middle, inside the test's own process: a tool, a model, a step of the platform."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tarry.api import ToolApi
from tarry.models import Model, ModelRequest, ModelResponse, info_of
from tarry.tools import Replay, Tool, tool
from tests.support.waiting import eventually


class HeldTool:
    """`work(what)`, or under another name: writes `what` into `ledger` as it begins and publishes it.

    It ends when it is let go or stopped.
    """

    def __init__(self, name: str = "work", *, replay: Replay = "unsafe", sequential: bool = False) -> None:
        self.ledger: list[str] = []
        self.task_ids: list[str] = []
        self.go = threading.Event()
        self.tool: Tool = tool(name=name, description="Work.", replay=replay, sequential=sequential)(self._work)

    def _work(self, what: str, api: ToolApi) -> str:
        api.output(f"working on {what}")
        self.task_ids.append(api.task_id)
        self.ledger.append(what)
        while not self.go.wait(0.02):
            if api.is_cancelled:
                return "stopped"
        return f"did {what}"

    async def begun(self, runs: int = 1) -> None:
        """Return when it has begun that often."""

        async def count() -> int:
            return len(self.ledger)

        await eventually(count, lambda found: found >= runs)


class HeldModel:
    """Streams `partial`, then answers as `inner` does, but only when it is let go.

    A `deaf` one answers although it was cancelled, as a provider does whose answer was on its way already.
    """

    def __init__(self, inner: Model, partial: str = "", *, deaf: bool = False) -> None:
        self.go = asyncio.Event()
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.info = info_of(inner)
        self._inner = inner
        self._partial = partial
        self._deaf = deaf

    @property
    def name(self) -> str:
        return self._inner.name

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        if self._partial:
            on_text(self._partial)
        self.asked.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            if not self._deaf:
                raise
            await self.go.wait()
        return await self._inner.respond(request, on_text)


class HeldMethod:
    """Every call of an async method waits until it is let go: a disk or a network that is slow at that place."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self.go = asyncio.Event()
        self.reached = asyncio.Event()
        inner = getattr(owner, name)

        async def held(*arguments: Any, **named: Any) -> Any:
            self.reached.set()
            await self.go.wait()
            return await inner(*arguments, **named)

        patch.setattr(owner, name, held)
