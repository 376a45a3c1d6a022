"""Reading server-sent events, as a browser does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import httpx

from tarry.core.live import LiveView
from tarry.core.live_events import EVENTS, Event, applied
from tests.support.waiting import PATIENCE


@dataclass
class Heard:
    """What one stream has said so far, and the view that follows from it."""

    lines: AsyncIterator[str]
    status: int
    ids: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    comments: int = 0
    view: LiveView | None = None

    async def until(self, wanted: Callable[[LiveView], object]) -> LiveView:
        """The view once it is as wanted."""
        async with asyncio.timeout(PATIENCE):
            while self.view is None or not wanted(self.view):
                await self._line()
        return self.view

    async def pinged(self) -> None:
        """Return when the gateway has shown that it is there."""
        async with asyncio.timeout(PATIENCE):
            while not self.comments:
                await self._line()

    async def ended(self) -> None:
        """Return when the stream is over."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(StopAsyncIteration, httpx.RemoteProtocolError):
                while True:
                    await self._line()

    async def _line(self) -> None:
        name, _, value = (await anext(self.lines)).partition(": ")
        if name == "id":
            self.ids.append(value)
        elif name == "data":
            event = EVENTS.validate_json(value)
            self.events.append(event)
            self.view = event.view if event.type == "snapshot" else applied(self._known(), event)
        elif name == "" and value:
            self.comments += 1

    def _known(self) -> LiveView:
        assert self.view is not None, "a stream begins with a snapshot"
        return self.view


@contextlib.asynccontextmanager
async def stream(http: httpx.AsyncClient, conversation_id: str, token: str, **headers: str) -> AsyncIterator[Heard]:
    """One more reader of a conversation's events."""
    sent = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream", **headers}
    async with http.stream("GET", f"/conversations/{conversation_id}/events", headers=sent) as response:
        yield Heard(response.aiter_lines(), response.status_code)
